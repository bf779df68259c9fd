package journal

import (
	"time"
)

// writeEffect is the effect of the settler write.
func (w *Writer) writeEffect(upTo uint64) (uint64, error) { return w.put(upTo, false) }

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
	p := w.written.Load()
	return p, w.f.Datasync()
}

// put writes what was appended up to upTo, and with index also all the links, if
// the file lacks any of it. What an earlier call could not write goes first.
func (w *Writer) put(upTo uint64, index bool) (uint64, error) {
	w.io.Lock()
	defer w.io.Unlock()
	if w.stage.full {
		if err := w.putStage(); err != nil {
			return 0, err
		}
	}
	if p := w.written.Load(); p >= upTo && (!index || !w.indexOwed) {
		return p, nil
	}
	w.mu.Lock()
	index = index || w.indexNow()
	w.m.take(&w.stage, index)
	w.stage.pos = w.pos
	w.staged = w.stage.bytes()
	w.mu.Unlock()
	if err := w.putStage(); err != nil {
		return 0, err
	}
	return w.written.Load(), nil
}

// How often a write includes the index though nobody asked for it: such writes
// take at most one part in indexShare of the time, and come at least a window
// divided by indexBurst apart. So a few lines a second are each written whole,
// and a flood pays for the index once a window.
const (
	indexShare = 50
	indexBurst = 8
)

// indexNow tells whether a write should include the index: always without a
// window; when notes for it take a large part of the buffer; else when the last
// one was long enough ago.
func (w *Writer) indexNow() bool {
	if w.o.Index < 0 || w.m.owedIndex() > w.o.Buffer/4 || w.lastIndex.IsZero() {
		return true
	}
	gap := min(max(indexShare*w.indexTook, w.o.Index/indexBurst), w.o.Index)
	return time.Since(w.lastIndex) >= gap
}

// putStage writes the stage and says so to everyone concerned. With an error the
// stage stays as it is.
func (w *Writer) putStage() error {
	s := &w.stage
	begin := time.Now()
	err := w.reserve(s)
	if err == nil {
		err = s.write(w.f)
	}
	if err != nil {
		w.mu.Lock()
		w.writeErr = err
		w.stats.writeErrors++
		w.mu.Unlock()
		return err
	}
	pos, index := s.pos, s.index
	w.indexOwed = !index
	if index {
		w.lastIndex = time.Now()
		w.indexTook = w.lastIndex.Sub(begin)
	}
	w.written.Store(pos)
	s.reset()
	w.mu.Lock()
	w.staged = 0
	w.writeErr = nil
	w.stats.writes++
	if index {
		w.stats.indexes++
	}
	room := w.room
	w.room = nil
	w.mu.Unlock()
	if room != nil {
		close(room)
	}
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
