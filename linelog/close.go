package linelog

import (
	"errors"
	"fmt"
)

// Close accepts nothing more, terminates the rests of all streams, writes what is
// there and syncs it, in two attempts at most, and closes the file. It blocks as
// long as that takes. nil says that everything that was accepted is synced (on a pipe
// or a device, and with Options.CloseUnsynced: written); an error says that it is not,
// and how much was not written. A second call, also a concurrent one, waits and returns
// the same.
func (w *Writer) Close() error {
	w.finish.Do(func() { w.finished = w.shut() })
	return w.finished
}

// settle closes both settlers: what was accepted, up to pos, is synced, or written if
// that is to do.
func (w *Writer) settle(pos uint64) error {
	if w.o.CloseUnsynced {
		err := w.write.Close()
		if err != nil {
			_, err = w.writeEffect(pos)
		}
		w.io.Lock()
		w.noSync = true
		w.io.Unlock()
		w.sync.Close() //nolint:errcheck // nothing is synced any more
		return err
	}
	err := w.sync.Close()
	if err != nil {
		// After a failed sync the fresh file has the lines, and is to be synced too; a
		// write that was cut short may have more luck.
		_, err = w.syncEffect(pos)
	}
	w.write.Close() //nolint:errcheck // its effect has been run by the sync's, or has failed there
	return err
}

// shut is Close.
func (w *Writer) shut() error {
	w.endWatch()
	w.mu.Lock()
	for _, s := range w.streams {
		s.end()
	}
	w.closing = true
	w.q.wake() // those who wait for room learn ErrClosed
	w.sayDropped()
	w.mu.Unlock()
	// A Rotate or Reopen that has seen closing unset ends first, and has its position:
	// marked later it would sync a file that is closed meanwhile.
	w.io.Lock()
	w.mu.Lock()
	w.io.Unlock()
	pos := w.mark()
	err := errors.Join(w.settle(pos), w.tellLost())
	w.tell()
	w.endRotation()
	w.joinWatch()
	w.io.Lock()
	defer w.io.Unlock()
	files := w.old
	if w.f != nil {
		files = append(files, w.f)
	}
	for _, f := range files {
		err = errors.Join(err, f.close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case w.q.held > 0:
		return fmt.Errorf("close line log: %w: lines lost: %d (%d bytes)", err, w.unwritten(), w.q.held)
	}
	return fmt.Errorf("close line log: %w", err)
}

// unwritten counts the lines that are accepted and not written. Called with io and mu
// held.
func (w *Writer) unwritten() (lines uint64) {
	if w.stage != nil {
		lines = w.stage.lines
	}
	for _, c := range w.q.parts {
		lines += c.lines
	}
	return lines
}
