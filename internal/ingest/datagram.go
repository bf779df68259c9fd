package ingest

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/tidemark-log/tidemark/internal/histogram"
)

// A socket that is read at more than floodRate messages a second is in a flood:
// then no pidfd is asked for with each message (it costs more than the reading),
// and who has died in between is told by time. After lull without a message the
// flood is over.
const (
	floodRate   = 1000
	floodWindow = 50 * time.Millisecond
	lull        = 50 * time.Millisecond
)

// In a flood a batch that came less than half full is filled up in further calls
// before it is handled, for gatherTime at most: what a batch costs hardly depends
// on how many messages it brings. Between the calls is a pause in which the
// socket's queue does not fill: gatherTime, if it holds gatherQueue messages. What
// comes from one process fills it in less, and is appended beside the reading: then
// several shorter pauses keep all three at work.
const (
	gatherTime  = time.Millisecond
	gatherQueue = recvSlots
	gatherAlone = gatherTime / 5
)

// reasons are where a path counts.
type reasons struct {
	entries, truncated, control, limited, level, refused reason
}

// datagrams is the source behind one datagram socket.
type datagrams struct {
	in    *Ingest
	rx    *receiver
	gate  gate
	peers *peers
	why   reasons
	take  func(ctx context.Context, m *message) // decodes m into batch
	turns *histogram.Histogram

	lots  [relayDepth + 1]lot // one is filled while the relay may hand over the others
	lot   int                 // which
	batch *batch              // of the one that is filled
	relay relay
	msg   message

	queue   uint64 // the most messages the socket can hold
	handled uint64 // messages
	stamp   uint64 // of the last one
	asked   []*barrier
	waiting []waiter

	now     time.Duration // of the batch
	flood   bool
	alone   bool          // the batch comes from one process
	counted uint64        // messages in the window
	window  time.Duration // when it began
	lullAt  time.Duration // read deadline of a flood
}

// waiter is a barrier that this source has not passed yet.
type waiter struct {
	*barrier
	from uint64 // handled when it came
}

func newDatagrams(in *Ingest, file *os.File, why reasons) (*datagrams, error) {
	rx, err := newReceiver(file)
	if err != nil {
		return nil, err
	}
	d := &datagrams{in: in, rx: rx, why: why, queue: queueLength()}
	d.lots[0].slots = rx.slots
	d.batch = &d.lots[0].batch
	d.relay.hand = d.handLot
	d.gate.deadline = rx.bell.deadline
	d.peers = newPeers(in.proc(), &in.counts)
	d.rx.passPidfd(true)
	return d, nil
}

func (d *datagrams) gateway() *gate { return &d.gate }

// run reads batches until it is told to end and has read what was queued then.
// From then on the kernel refuses what is sent.
func (d *datagrams) run(ctx context.Context) error {
	// A thread of its own: with many senders on few processors the scheduler's turns
	// between this and the settlers cost a third of what can be taken.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	missed := true
	defer func() {
		d.relay.stop()
		d.close(missed)
	}()
	var last *waiter // what is to be read before the end
	for {
		d.setLull()
		var ending bool
		d.asked, ending = d.gate.look(d.asked[:0])
		for _, b := range d.asked {
			d.waiting = append(d.waiting, waiter{b, d.handled})
		}
		if ending && last == nil {
			d.rx.refuse()
			last = &waiter{&barrier{after: uint64(time.Now().UnixMicro())}, d.handled}
		}
		park := len(d.waiting) == 0 && last == nil
		err := d.rx.receive(park)
		if err == nil && park && d.flood {
			err = d.gather()
		}
		if err != nil && d.rx.n > 0 {
			// What has come before the error is somebody's, and so are its descriptors.
			if err := d.handle(ctx); err != nil {
				return err
			}
		}
		switch {
		case isTimeout(err):
			d.calm()
			continue
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		if err := d.handle(ctx); err != nil {
			return err
		}
		if park {
			continue
		}
		if err := d.relay.join(); err != nil {
			return err
		}
		d.pass()
		if last != nil && d.passed(last) {
			missed = false
			return nil
		}
	}
}

// close ends the source and the socket: who sends to it is refused. missed: it
// was not read to the end.
func (d *datagrams) close(missed bool) {
	waiting := make([]*barrier, 0, len(d.waiting))
	for _, w := range d.waiting {
		waiting = append(waiting, w.barrier)
	}
	d.gate.close(waiting, missed)
	d.peers.close()
	d.rx.bell.close()
	for i := range d.lots {
		d.lots[i].slots.release()
	}
	d.rx.file.Close() //nolint:errcheck // it may be closed already
}

// handle decodes the batch and hands it over.
func (d *datagrams) handle(ctx context.Context) error {
	n := d.rx.n
	if n == 0 {
		d.peers.drained()
		return nil
	}
	var wall uint64
	d.now, wall = d.in.now()
	d.in.host.refresh(d.now)
	d.peers.tick(d.now, wall)
	d.alone = true
	for i := range n {
		m := &d.msg
		before := m.credentials
		d.rx.message(i, m)
		d.alone = d.alone && (i == 0 || m.credentials == before)
		d.one(ctx, m)
		m.close(d.in.closer)
		if m.stamp != 0 {
			d.stamp = m.stamp
		}
	}
	d.handled += uint64(n)
	err := d.next(ctx)
	if d.rx.empty {
		d.peers.drained()
	}
	d.rate(uint64(n))
	return err
}

// next hands over the batch: through the relay if it is one of many, and not the
// last piece of one that was too large.
func (d *datagrams) next(ctx context.Context) error {
	l := &d.lots[d.lot]
	l.began = d.now
	if !d.flood || !d.alone || len(l.batch.entries) < d.in.cfg.relay {
		return errors.Join(d.relay.join(), d.handLot(ctx, l))
	}
	following := (d.lot + 1) % len(d.lots)
	other := &d.lots[following]
	if other.slots == nil {
		var err error
		if other.slots, err = newSlots(); err != nil {
			return errors.Join(d.relay.join(), d.handLot(ctx, l)) // no memory: one after the other, then
		}
	}
	err := d.relay.give(ctx, l)
	d.lot, d.batch, d.rx.slots = following, &other.batch, other.slots
	return err
}

// handLot hands over what has been decoded of a batch, and is done with it. It is
// the relay's too, and touches nothing else of d.
func (d *datagrams) handLot(ctx context.Context, l *lot) error {
	err := d.hand(ctx, &l.batch)
	d.in.took(d.turns, l.began)
	l.slots.shrink()
	return err
}

// one decodes one message.
func (d *datagrams) one(ctx context.Context, m *message) {
	switch {
	case m.controlTruncated:
		d.in.counts.add(d.why.control, 1)
	case m.truncated:
		d.in.counts.add(d.why.truncated, 1)
	default:
		d.take(ctx, m)
	}
}

// send hands over what has been decoded so far, before the batch is done.
func (d *datagrams) send(ctx context.Context) error {
	return errors.Join(d.relay.join(), d.hand(ctx, d.batch))
}

// hand hands b over. Only the end of ctx is an error: what the sink refuses is
// counted.
func (d *datagrams) hand(ctx context.Context, b *batch) error {
	_, err := d.in.hand(ctx, b, d.why.entries, d.why.refused)
	b.reset()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// finish ends the current entry of the batch, which came from p: the level and
// the rate of its unit are looked at, and the trusted fields added.
func (d *datagrams) finish(m *message, p *peer, priority uint8, urgent bool, object *peer) {
	owner := uint32(0)
	if !d.in.passes(d.batch, p, priority, d.now, d.why) {
		return
	}
	if p != nil {
		d.batch.addAll(p.fields)
		owner = p.uid
	}
	if object != nil {
		d.batch.fields = object.facts.appendObjectFields(d.batch.fields, object.peerKey)
	}
	if m.stamp != 0 {
		d.batch.addUint("_SOURCE_REALTIME_TIMESTAMP=", m.stamp)
	}
	d.batch.addAll(d.in.host.fields())
	d.batch.end(owner, urgent)
}

// passes drops the current entry if its level is not stored, or if p's unit may
// not send it. p is nil when the sender is not known.
func (in *Ingest) passes(b *batch, p *peer, priority uint8, now time.Duration, why reasons) bool {
	if !in.stores(priority) || p != nil && p.facts.levelMax >= 0 && priority > uint8(p.facts.levelMax) {
		in.counts.add(why.level, 1)
		b.drop()
		return false
	}
	if p == nil {
		return true
	}
	ok, suppressed := in.limits.admit(&p.facts, priority, now)
	if !ok {
		in.counts.add(why.limited, 1)
		b.drop()
		return false
	}
	if suppressed > 0 {
		in.suppressed(p, suppressed)
	}
	return true
}

// stores reports whether messages of a level are stored.
func (in *Ingest) stores(level uint8) bool { return uint32(level)+in.unstored.Load() < levelCount }

// pass lets those go on whose messages have been handled.
func (d *datagrams) pass() {
	kept := d.waiting[:0]
	for i := range d.waiting {
		if w := &d.waiting[i]; d.passed(w) {
			w.arrive()
		} else {
			kept = append(kept, *w)
		}
	}
	clear(d.waiting[len(kept):])
	d.waiting = kept
}

func (d *datagrams) passed(w *waiter) bool {
	// The kernel stamps and queues a message under one lock: whatever was queued
	// before the call has been read when a later stamp is seen. The queue's length
	// bounds it also when the clock was set back.
	return d.rx.empty || d.stamp > w.after || d.handled-w.from > d.queue+recvSlots
}

// rate decides whether this is a flood.
func (d *datagrams) rate(n uint64) {
	d.counted += n
	age := d.now - d.window
	over := d.counted*uint64(time.Second) > floodRate*uint64(max(age, floodWindow))
	if age < floodWindow && (d.flood || !over) {
		return
	}
	d.flood = over
	d.counted, d.window = 0, d.now
	d.rx.passPidfd(!d.flood)
}

// gather fills up a batch of a flood, unless the queue was half full: then there
// are senders enough to come up while this batch is handled. A barrier, and the
// end of the source, do not wait for it.
func (d *datagrams) gather() error {
	pause := d.in.cfg.gather * time.Duration(min(d.queue, gatherQueue)) / gatherQueue
	if d.alone {
		if d.relay.idle() && d.rx.n >= d.in.cfg.relay {
			return nil
		}
		pause = min(pause, gatherAlone)
	}
	end := time.Now().Add(d.in.cfg.gather)
	for few := uint64(d.rx.n) <= d.queue/2; few && d.rx.n < recvSlots/2; {
		if d.gate.hint.pause(pause) {
			return nil
		}
		had := d.rx.n
		if err := d.rx.more(); err != nil {
			return err
		}
		few = d.rx.n > had && time.Now().Before(end)
	}
	return nil
}

// setLull makes a read in a flood end after a while without messages.
func (d *datagrams) setLull() {
	if !d.flood || d.now+lull/2 < d.lullAt {
		return
	}
	d.lullAt = d.now + lull
	d.rx.bell.deadline(time.Now().Add(lull)) //nolint:errcheck // a closed socket fails the read
}

// calm is called when a read has found nothing until its deadline.
func (d *datagrams) calm() {
	now, _ := d.in.now()
	if d.flood && now >= d.lullAt {
		d.flood, d.counted, d.window = false, 0, now
		d.rx.passPidfd(true)
	}
	d.lullAt = 0
	d.gate.woken()
}
