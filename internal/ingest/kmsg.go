package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

const (
	// kmsgRecord is more than the kernel's longest record in bytes.
	kmsgRecord = 16 << 10
	// kmsgTurn is how many records are handed over at once.
	kmsgTurn = 64
	// kmsgPending bounds what a barrier waits for: more than the kernel's ring can
	// hold with records of a usual size.
	kmsgPending = 1 << 16
)

// kmsg is the source of the kernel's messages.
type kmsg struct {
	in    *Ingest
	file  *os.File
	gate  gate
	batch batch
	buf   []byte
	text  []byte

	state *os.File // nil: nothing is remembered
	next  uint64   // the sequence number expected
	known bool     // next is known
}

// openKmsg opens the kernel's log; nil if there is none or it may not be read.
func openKmsg(in *Ingest) (*kmsg, error) {
	fd, err := unix.Open(in.cfg.Kmsg, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", in.cfg.Kmsg, err)
	}
	k := &kmsg{in: in, file: os.NewFile(uintptr(fd), in.cfg.Kmsg), buf: make([]byte, kmsgRecord)}
	k.gate.deadline = k.file.SetReadDeadline
	if in.cfg.KmsgState == "" {
		return k, nil
	}
	if err := k.openState(); err != nil {
		k.closeFiles()
		return nil, err
	}
	return k, nil
}

// kmsgState is the layout of the state file: the boot, then the next sequence
// number, lowest byte first. It is written after what it counts is appended,
// with one write, and not synced: another boot begins anew.
const kmsgState = 16 + 8

func (k *kmsg) openState() error {
	f, err := os.OpenFile(k.in.cfg.KmsgState, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("open kernel log state: %w", err)
	}
	k.state = f
	var b [kmsgState]byte
	if n, _ := f.ReadAt(b[:], 0); n == len(b) && entry.ID(b[:16]) == k.in.cfg.BootID {
		k.next, k.known = binary.LittleEndian.Uint64(b[16:]), true
	}
	return nil
}

func (k *kmsg) closeFiles() {
	for _, f := range []*os.File{k.file, k.state} {
		if f != nil {
			f.Close() //nolint:errcheck // nothing that must be stored was written to it
		}
	}
}

func (k *kmsg) gateway() *gate { return &k.gate }

// run reads records until the gate's end.
func (k *kmsg) run(ctx context.Context) error {
	var waiting []*barrier
	defer func() { k.gate.close(waiting, ctx.Err() != nil) }()
	budget := -1 // records to read before the barriers are passed; -1: there are none
	for {
		before := len(waiting)
		var ending bool
		waiting, ending = k.gate.look(waiting)
		if len(waiting) > before || ending && budget < 0 {
			budget = kmsgPending
		}
		n, empty, err := k.turn(ctx, budget < 0)
		switch {
		case isTimeout(err):
			k.gate.woken()
		case errors.Is(err, os.ErrClosed), errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			// Everything else works without the kernel's log.
			k.in.counts.add(kmsgRead, 1)
			return nil
		}
		if budget < 0 {
			continue
		}
		if budget = max(budget-n, 0); empty || budget == 0 {
			for _, b := range waiting {
				b.arrive()
			}
			waiting, budget = waiting[:0], -1
			if ending {
				return nil
			}
		}
	}
}

// turn reads up to kmsgTurn records and hands them over. It sleeps for the first
// one if park is set.
func (k *kmsg) turn(ctx context.Context, park bool) (n int, empty bool, err error) {
	var begun time.Duration
	defer func() {
		if n > 0 {
			k.in.took(&k.in.turns.kmsg, begun)
		}
	}()
	for n < kmsgTurn {
		size, err := k.read(park && n == 0)
		if err != nil {
			k.send(ctx) //nolint:errcheck // the error at hand comes first
			return n, false, err
		}
		if size == 0 {
			empty = true
			break
		}
		if n++; n == 1 {
			begun, _ = k.in.now()
		}
		if size > 0 {
			k.record(k.buf[:size])
		}
	}
	return n, empty, k.send(ctx)
}

// read reads one record: its size, 0 if there is none, -1 if the kernel has
// overwritten some.
func (k *kmsg) read(park bool) (int, error) {
	raw, err := k.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	var errno error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, errno = unix.Read(int(fd), k.buf)
			if !errors.Is(errno, unix.EINTR) {
				return !errors.Is(errno, unix.EAGAIN) || !park
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(errno, unix.EAGAIN):
		return 0, nil
	case errors.Is(errno, unix.EPIPE):
		k.in.counts.add(kmsgOverrun, 1)
		return -1, nil
	case errors.Is(errno, unix.EINVAL):
		// Longer than the buffer: the kernel skips it only if it is read.
		return 0, fmt.Errorf("read %s: record longer than %d bytes: %w", k.file.Name(), len(k.buf), errno)
	case errno != nil:
		return 0, fmt.Errorf("read %s: %w", k.file.Name(), errno)
	case n == 0:
		return 0, io.EOF // it is no kernel's log
	}
	return n, nil
}

// record adds a record to the batch.
func (k *kmsg) record(line []byte) {
	r, ok := parseKmsg(line)
	if !ok {
		k.in.counts.add(kmsgMalformed, 1)
		return
	}
	if k.known && r.seq < k.next {
		return // stored before the restart
	}
	if k.known && r.seq > k.next {
		k.missed(r.seq - k.next)
	}
	k.next, k.known = r.seq+1, true
	b := &k.batch
	device := k.metadata(r.rest)
	if device != "" {
		b.fields = appendDeviceFields(b.fields, device)
	}
	b.addUint("_SOURCE_MONOTONIC_TIMESTAMP=", r.usec)
	b.add(k.in.words.kernel)
	b.add(k.in.words.priority[r.priority&levelMask])
	b.addUint("SYSLOG_FACILITY=", uint64(r.priority&facilityMask>>3))
	switch {
	case r.priority&facilityMask == 0:
		b.add(k.in.words.kernelName)
	case r.identifier != nil:
		b.addBytes("SYSLOG_IDENTIFIER=", r.identifier)
		if r.pid != nil {
			b.addBytes("SYSLOG_PID=", r.pid)
		}
	}
	k.text = unescape(k.text[:0], r.text)
	b.addBytes("MESSAGE=", k.text)
	if !k.in.passes(b, nil, uint8(r.priority&levelMask), 0, reasons{level: kmsgLevel}) {
		return
	}
	b.addAll(k.in.host.fields())
	b.end(0, r.priority&levelMask <= 2)
}

// missed says that records were overwritten before they could be read.
func (k *kmsg) missed(n uint64) {
	k.in.counts.add(kmsgMissed, n)
	k.in.say(levelWarning, messageMissed, "Missed "+strconv.FormatUint(n, 10)+" kernel messages")
}

// metadata adds the _KERNEL_ fields of a record and returns the device.
func (k *kmsg) metadata(rest []byte) (device string) {
	const most = 64 // fields, as journald
	for range most {
		var line []byte
		if line, rest = kmsgField(rest); line == nil {
			break
		}
		k.text = unescape(k.text[:0], line)
		k.batch.addBytes("_KERNEL_", k.text)
		f := k.batch.fields[len(k.batch.fields)-1]
		switch name := f.Name(); {
		case len(name) == len(f) || !entry.ValidName(name, true):
			k.batch.fields = k.batch.fields[:len(k.batch.fields)-1]
			k.in.counts.add(kmsgBadNames, 1)
		case string(name) == "_KERNEL_DEVICE":
			device = string(f.Value())
		}
	}
	return device
}

// send hands the records over, and remembers them once they are appended: a
// death in between repeats them instead of losing them.
func (k *kmsg) send(ctx context.Context) error {
	if len(k.batch.entries) == 0 {
		return nil
	}
	now, _ := k.in.now()
	k.in.host.refresh(now)
	ticket, err := k.in.hand(ctx, &k.batch, kmsgEntries, kmsgRefused)
	k.batch.reset()
	if err == nil && k.state != nil {
		if err = k.in.sink.Wait(ctx, ticket, settle.Appended); err == nil {
			k.remember()
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

func (k *kmsg) remember() {
	var b [kmsgState]byte
	copy(b[:], k.in.cfg.BootID[:])
	binary.LittleEndian.PutUint64(b[16:], k.next)
	k.state.WriteAt(b[:], 0) //nolint:errcheck // then a restart repeats some
}
