package journal

import (
	"fmt"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// growMargin is the allocated and unused space in bytes at which NeedGrow
// rings.
const growMargin = 4 << 20

// NeedGrow rings when the allocated space runs short. Its reader calls
// GrowAhead; without one the writing goroutine allocates when it must.
func (w *Writer) NeedGrow() <-chan struct{} { return w.needGrow }

// GrowAhead allocates space for what is to come, so that writing need not. It
// blocks no append. After an error (the disk is full) the file is as it was. A
// crash leaves a file that is longer than its header says, which is no damage.
func (w *Writer) GrowAhead() error {
	w.mu.Lock()
	end := w.m.end()
	w.mu.Unlock()
	if err := w.growTo(end+growMargin+1, true); err != nil {
		return fmt.Errorf("grow journal: %w", err)
	}
	return nil
}

// askForSpace rings NeedGrow if the space behind end is short and may grow.
func (w *Writer) askForSpace(end uint64) {
	w.mu.Lock()
	have := w.m.hdr.HeaderSize + w.m.hdr.ArenaSize
	limit := w.m.limit
	w.mu.Unlock()
	if have < limit && have < end+growMargin {
		select {
		case w.needGrow <- struct{}{}:
		default:
		}
	}
}

// growTo allocates the file up to at least end, but not beyond its limit unless
// end is: in steps of 8 MiB, as journald does, and when there is no space for
// that, what is needed in whole pages. Ahead of need it does nothing once the file
// is being closed, which gives space back.
func (w *Writer) growTo(end uint64, ahead bool) error {
	w.growing.Lock()
	defer w.growing.Unlock()
	w.mu.Lock()
	have := w.m.hdr.HeaderSize + w.m.hdr.ArenaSize
	limit := w.m.limit
	closing := w.noMore
	w.mu.Unlock()
	const step = object.AllocationStep
	want := min((end+step-1)/step*step, limit)
	if want <= have || !ahead && end <= have || closing && ahead {
		return nil
	}
	err := w.f.Allocate(int64(have), int64(want-have))
	if least := (end + pageSize - 1) &^ (pageSize - 1); err != nil && !ahead && least < want {
		want = least
		err = w.f.Allocate(int64(have), int64(want-have))
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.m.hdr.ArenaSize = want - w.m.hdr.HeaderSize
	w.mu.Unlock()
	return nil
}

// reserve makes sure that what s writes has its place, and puts the size into
// its header: a reader finds all of it inside the file.
func (w *Writer) reserve(s *wStage) error {
	if err := w.growTo(s.end, false); err != nil {
		return err
	}
	// The header tells of new space no sooner than it must: a reader that has
	// looked at the size before the file grew, and then at the header, would take
	// the file for one that was cut.
	if s.end > w.told {
		w.mu.Lock()
		told := w.m.hdr.HeaderSize + w.m.hdr.ArenaSize
		w.mu.Unlock()
		// Before anything that lies there, such as where the last object is.
		var b [8]byte
		object.PutU64(b[:], 0, told-uint64(s.hdrLen))
		if _, err := w.f.WriteAt(b[:], object.HdrArenaSize); err != nil {
			return err
		}
		w.told = told
	}
	object.PutU64(s.header[:], object.HdrArenaSize, w.told-uint64(s.hdrLen))
	return nil
}
