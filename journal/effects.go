package journal

import (
	"fmt"
	"time"
)

// writeEffect is the effect of the settler write. Those who wait for the sync of what it
// cannot write learn that, too.
func (w *Writer) writeEffect(upTo uint64) (uint64, error) {
	pos, err := w.put(upTo, false)
	if err != nil {
		w.sync.Fail(upTo, err)
	}
	return pos, err
}

// indexEffect is the effect of the settler index.
func (w *Writer) indexEffect(upTo uint64) (uint64, error) { return w.put(upTo, true) }

// syncEffect is the effect of the settler sync. What is in the file before the
// fdatasync begins is what it promises:
//
//	syncEffect                 writeEffect              forbidden
//	fdatasync begins
//	                           pwrite 7; written = 7
//	fdatasync ends
//	return written == 7                                 7 may not be on disk
func (w *Writer) syncEffect(uint64) (uint64, error) {
	p, end := w.beginSync()
	synced, err := w.secure()
	if !synced && err == nil {
		err = syncFailed(w.f.Datasync())
	}
	if err == nil {
		w.endSync(end)
	}
	return p, err
}

// syncFailed makes the error of a sync one that wraps ErrSync.
func syncFailed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrSync, err)
}

// put writes what was appended up to upTo, and with index also all the links, if
// the file lacks any of it. It returns how far it came with that. What an earlier
// call could not write goes first.
func (w *Writer) put(upTo uint64, index bool) (uint64, error) {
	w.io.Lock()
	defer w.io.Unlock()
	return w.putNow(upTo, index)
}

// putNow is put with io held.
func (w *Writer) putNow(upTo uint64, index bool) (uint64, error) {
	has := func() uint64 {
		if index {
			return w.indexed
		}
		return w.written.Load()
	}
	if w.stage.full {
		if err := w.putStage(); err != nil {
			return 0, err
		}
	}
	if p := has(); p >= upTo {
		return p, nil
	}
	w.order.turn(w)
	w.mu.Lock()
	w.order.show(w)
	w.m.take(&w.stage, index || w.indexNow())
	w.stage.pos = w.pos
	w.staged = w.stage.bytes()
	w.mu.Unlock()
	if err := w.putStage(); err != nil {
		return 0, err
	}
	return has(), nil
}

// putStage writes the stage and says so to everyone concerned. With an error the
// stage stays, and the next call goes on with it.
func (w *Writer) putStage() error {
	s := &w.stage
	err := w.reserve(s)
	begin := time.Now()
	if err == nil {
		err = s.write(w.f, w.noteWriteError)
	}
	if err != nil {
		w.noteWriteError(err)
		return err
	}
	pos, index := s.pos, s.index
	if index {
		w.indexed = pos
		w.due.pay(time.Since(begin))
	}
	w.written.Store(pos)
	s.reset()
	w.mu.Lock()
	w.staged = 0
	w.debt.written = s.end
	w.writeErr = nil
	w.stats.writes++
	if index {
		w.stats.indexes++
	}
	w.account()
	w.mu.Unlock()
	w.order.more()
	w.sync.Mark(pos)
	if w.urgent.Load() > w.sync.Settled() {
		w.sync.Urge()
	}
	if !index {
		w.index.Mark(pos)
	}
	if w.o.OnWrite != nil {
		w.o.OnWrite()
	}
	w.askForSpace(s.end)
	return nil
}

// noteWriteError remembers an error until a stage has been written.
func (w *Writer) noteWriteError(err error) {
	w.mu.Lock()
	w.writeErr = err
	w.stats.writeErrors++
	w.mu.Unlock()
}
