package query

import (
	"context"
	"runtime"
	"sync"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// A scan of many entries is shared: this goroutine finds the entries, in their
// order, and hands them out in batches; workers read them, look for the pattern
// and format what is shown; this goroutine writes the batches in order. The first
// batch, and all of them when there is one processor, it does itself.

const (
	// batchEntries is the number of entries in a batch.
	batchEntries = 256
	// maxWorkers bounds the workers, and with them memory: each keeps some MB.
	maxWorkers = 8
	// keepBatch bounds the text of a batch that is kept for the next, in bytes.
	keepBatch = 4 << 20
)

// Formatter formats entries for one goroutine: it appends an entry, whose fields
// have the numbers ids, to b. Fields returns the names of the only fields it looks
// at; nil: all.
type Formatter interface {
	AppendKnown(b []byte, e *entry.Entry, ids []uint64) ([]byte, error)
	Fields() []string
}

// batch is entries that follow one another.
type batch struct {
	places  []journal.Place
	anyBoot bool     // boot is set
	boot    entry.ID // of the entry before

	text  []byte
	shown int
	err   error
	done  chan struct{} // has room for one; nil error or not, the batch is formatted
}

// crowd is a scan that is shared.
type crowd struct {
	s     *shower
	todo  chan *batch
	busy  []*batch // handed out, oldest first
	idle  []*batch
	own   *worker
	count int // workers that may run

	started []*worker
	joined  sync.WaitGroup
}

// worker formats batches.
type worker struct {
	s *shower
	r *journal.Reader
	f Formatter

	judged []verdict // by number
}

// canShare reports whether all there is is to be shown, by printers of which there
// can be several.
func (s *shower) canShare() bool {
	return s.out.Fork != nil && !s.q.o.Follow && s.q.o.Lines < 0
}

// passShared is pass, with the work shared.
func (s *shower) passShared(ctx context.Context) (err error) {
	c := &crowd{s: s, count: min(runtime.GOMAXPROCS(0), maxWorkers)}
	defer func() { c.end() }()
	for first := true; ; first = false {
		if !first && ctx.Err() != nil {
			return ctx.Err()
		}
		b := c.fresh()
		last, err := s.gather(b)
		if err != nil && !last {
			return err
		}
		if first {
			reader := s.q.j.NewReader
			if last {
				reader = s.q.j.ReaderSoFar
			}
			var werr error
			if c.own, werr = c.newWorker(reader()); werr != nil {
				return werr
			}
		}
		if first || c.count < 2 {
			c.own.run(b)
			if werr := c.write(b); werr != nil {
				return werr
			}
		} else if werr := c.hand(b); werr != nil {
			return werr
		}
		if last {
			if werr := c.writeAll(); werr != nil {
				return werr
			}
			return err
		}
	}
}

// gather fills a batch. It reports the last one, and with it perhaps why.
func (s *shower) gather(b *batch) (last bool, err error) {
	b.boot, b.anyBoot = s.boot, s.anyBoot
	b.places, err = s.q.nextPlaces(b.places, batchEntries)
	n := len(b.places)
	if n > 0 {
		s.boot, s.anyBoot = b.places[n-1].Entry().BootID, true
	}
	return n < batchEntries || err != nil, err
}

func (c *crowd) newWorker(r *journal.Reader) (*worker, error) {
	f, err := c.s.out.Fork()
	if err != nil {
		r.Close()
		return nil, err
	}
	return &worker{s: c.s, r: r, f: f}, nil
}

func (c *crowd) fresh() *batch {
	n := len(c.idle)
	if n == 0 {
		return &batch{done: make(chan struct{}, 1)}
	}
	b := c.idle[n-1]
	c.idle = c.idle[:n-1]
	b.places, b.text, b.shown, b.err = b.places[:0], b.text[:0], 0, nil
	return b
}

// hand gives a batch to the workers, and writes the oldest first when all have
// enough to do.
func (c *crowd) hand(b *batch) error {
	if c.todo == nil {
		c.todo = make(chan *batch, 2*c.count)
	}
	if len(c.started) < c.count {
		w := c.own // it has seen the first batch
		if len(c.started) > 0 {
			var err error
			if w, err = c.newWorker(c.s.q.j.NewReader()); err != nil {
				return err
			}
		}
		c.started = append(c.started, w)
		c.joined.Go(func() {
			for b := range c.todo {
				w.run(b)
				b.done <- struct{}{}
			}
		})
	}
	if len(c.busy) == cap(c.todo) {
		if err := c.writeOldest(); err != nil {
			return err
		}
	}
	c.busy = append(c.busy, b)
	c.todo <- b
	return nil
}

func (c *crowd) writeOldest() error {
	b := c.busy[0]
	c.busy = append(c.busy[:0], c.busy[1:]...)
	<-b.done
	return c.write(b)
}

func (c *crowd) writeAll() error {
	for len(c.busy) > 0 {
		if err := c.writeOldest(); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) write(b *batch) error {
	c.s.shown += b.shown
	if len(b.text) > 0 {
		if _, err := c.s.out.W.Write(b.text); err != nil {
			return err
		}
	}
	if cap(b.text) > keepBatch {
		b.text = nil
	}
	c.idle = append(c.idle, b)
	return b.err
}

// end joins the workers.
func (c *crowd) end() {
	if c.todo != nil {
		close(c.todo)
	}
	c.joined.Wait()
	if c.own != nil && len(c.started) == 0 {
		c.own.r.Close()
	}
	for _, w := range c.started {
		w.r.Close()
	}
}

// run formats a batch, up to the first error.
func (w *worker) run(b *batch) {
	for i := range b.places {
		p := &b.places[i]
		e, wanted := w.read(b, p)
		if !wanted {
			continue
		}
		text, err := w.f.AppendKnown(b.text, e, w.r.FieldIDs())
		if err != nil {
			b.err = err
			return
		}
		b.text = text
		b.shown++
	}
}

// read reads the entry at p and appends the line between boots before it to the
// text. It reports whether the entry is to be shown. With a pattern only the message
// is read of those that are not.
func (w *worker) read(b *batch, p *journal.Place) (e *entry.Entry, wanted bool) {
	pattern := w.s.q.o.Pattern
	if pattern == nil {
		if e, wanted = w.r.Read(p); wanted {
			w.separate(b, e)
		}
		return e, wanted
	}
	text, id, found, ok := w.r.Value(p, messagePrefix[:])
	if !ok {
		return nil, false
	}
	head := p.Entry()
	w.separate(b, &head)
	if !found || !w.judge(pattern, text, id) {
		return nil, false
	}
	return w.r.Read(p)
}

func (w *worker) separate(b *batch, e *entry.Entry) {
	b.text = w.s.appendSeparator(b.text, e, b.anyBoot, b.boot)
	b.boot, b.anyBoot = e.BootID, true
}

var messagePrefix = [...]byte{'M', 'E', 'S', 'S', 'A', 'G', 'E', '='}

// verdict is what came of looking for the pattern in the value with a number.
type verdict struct {
	id    uint64 // 0: none
	match bool
}

// verdicts is how many a worker remembers.
const verdicts = 1 << 12

// judge reports whether the pattern is found in a message, whose number is id. One
// that occurs again and again is searched once.
func (w *worker) judge(pattern *Pattern, message []byte, id uint64) bool {
	if id == 0 {
		return pattern.Match(message)
	}
	if w.judged == nil {
		w.judged = make([]verdict, verdicts)
	}
	v := &w.judged[id>>3%verdicts]
	if v.id != id {
		*v = verdict{id, pattern.Match(message)}
	}
	return v.match
}
