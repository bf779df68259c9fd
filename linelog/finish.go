package linelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// finishEffect is the effect of the settler finisher: it brings what was rotated,
// and what an earlier writer has left, into its final form. What fails is told, and
// tried again after the next rotation; so it returns no error.
//
// It looks at the directory only, so that it goes on wherever a crash has ended it.
// An archive is FILE.TIME, then FILE.TIME.zst, then with Numbered FILE.1.zst; each
// step is a rename of something whole.
func (w *Writer) finishEffect(upTo uint64) (uint64, error) {
	w.finishAll()
	w.rotateFailed(w.rot.failures...)
	clear(w.rot.failures)
	w.rot.failures = w.rot.failures[:0]
	w.tell()
	return upTo, nil
}

// finishAll is the effect, whose errors are gathered.
func (w *Writer) finishAll() {
	w.io.Lock()
	path := w.rot.path
	w.io.Unlock()
	list, err := w.archives(path)
	if err != nil {
		w.rot.failures = append(w.rot.failures, fmt.Errorf("look for rotated files: %w", err))
		return
	}
	// First the list, then who is not synced yet: one that is rotated in between is in
	// neither.
	busy := w.unsynced()
	done := list[:0]
	for _, a := range list {
		if !busy[a.path] {
			done = append(done, a)
		}
	}
	list = done
	if !w.rot.swept {
		w.rot.swept = true
		w.sweep(path)
		w.mend(list)
	}
	// First what is not to be compressed any more.
	list = w.prune(list, len(busy))
	for i := range list {
		w.pack(&list[i])
	}
	if w.o.Rotate.Naming == Numbered {
		w.renumber(path, list)
	}
}

// unsynced are the paths of archives that are still in use.
func (w *Writer) unsynced() map[string]bool {
	w.io.Lock()
	defer w.io.Unlock()
	busy := map[string]bool{}
	for _, f := range w.old {
		if f.archive != "" {
			busy[f.archive] = true
		}
	}
	if w.f != nil && w.f.archive != "" {
		busy[w.f.archive] = true
	}
	return busy
}

// try calls f and takes note of its error. Called by the effect.
func (w *Writer) try(what string, f func() error) bool {
	err := f()
	if err != nil {
		w.rot.failures = append(w.rot.failures, fmt.Errorf("%s: %w", what, err))
	}
	return err == nil
}

// partName is where an archive of the log path is compressed to: no glob for the log
// or its archives finds it.
func partName(path, archive string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(archive)+suffix+".part")
}

// sweep removes what a killed compression has left.
func (w *Writer) sweep(path string) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	entries, err := w.o.FS.ReadDir(dir)
	if err != nil {
		return // it was readable a moment ago, and the next Open sweeps again
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".part")
		if !ok || name[:min(1, len(name))] != "." {
			continue
		}
		if a, ok := parseArchive(base, name[1:]); ok && a.packed { // else that of another log, whose name begins like this one
			w.try("remove what a compression has left", func() error { return w.o.FS.Remove(filepath.Join(dir, e.Name())) })
		}
	}
}

// mend marks the end of a line that a power cut has torn.
func (w *Writer) mend(list []archive) {
	for _, a := range list {
		if a.plain {
			w.try("look at the end", func() error {
				_, err := repairEnd(a.path, vfs.NoFollow, &w.o)
				if errors.Is(err, fs.ErrNotExist) {
					err = nil // removed meanwhile
				}
				return err
			})
		}
	}
}

// pack compresses an archive, if it is to be. When it is there in both forms a
// compression was not finished: the plain one is whole in any case.
func (w *Writer) pack(a *archive) {
	if !a.plain {
		return
	}
	if w.o.Rotate.Compression == Plain {
		if a.packed && w.try("compress", func() error { return w.o.FS.Remove(a.path + suffix) }) {
			a.packed = false
		}
		return
	}
	if !w.try("compress", func() error { return w.compress(a.path) }) {
		a.packed = a.packed || !w.free(a.path+suffix) // its name may not be synced
		return
	}
	a.packed = true
	if w.try("compress", func() error { return w.o.FS.Remove(a.path) }) {
		a.plain = false
		w.count(&w.counts.compressed)
	}
}

// count adds one to a count.
func (w *Writer) count(c *uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*c++
}

// compress makes path.zst from path: when it returns nil that survives a power cut,
// and else there is none.
func (w *Writer) compress(path string) (err error) {
	st, err := w.o.FS.Stat(path)
	if err != nil {
		return err
	}
	from, err := w.o.FS.OpenFile(path, os.O_RDONLY|vfs.NoFollow, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	size, err := from.Size()
	if err != nil || !from.Regular() {
		return errors.Join(err, fmt.Errorf("%s: not a regular file any more", path))
	}
	part := partName(path, path)
	to, err := w.openPart(part, st.Mode().Perm())
	if err != nil {
		return err
	}
	if err = own(to, st); err == nil {
		err = encode(&offsetWriter{f: to}, io.NewSectionReader(from, 0, size))
	}
	if err == nil {
		err = unused(from, size)
	}
	if err == nil {
		err = to.Datasync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = w.o.FS.Rename(part, path+suffix)
	}
	if err != nil {
		w.o.FS.Remove(part) //nolint:errcheck // the next Open sweeps it away
		return err
	}
	return w.o.FS.SyncDir(filepath.Dir(path))
}

// openPart opens a file that was not there: what has its name, perhaps a link, is
// removed and not written to.
func (w *Writer) openPart(part string, perm fs.FileMode) (vfs.File, error) {
	f, err := w.o.FS.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := w.o.FS.Remove(part); err != nil {
		return nil, err
	}
	return w.o.FS.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

// unused returns an error if somebody still writes to an archive, as far as that can be
// known: who was not told of the rotation, or rotates the log as well. To remove it would
// lose that one's lines.
func unused(f vfs.File, size int64) error {
	now, err := f.Size()
	if err == nil && now != size {
		err = ErrInUse
	}
	if used := f.NoWriter(); err == nil && errors.Is(used, vfs.ErrInUse) {
		err = ErrInUse
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// encode writes one zstd frame.
func encode(to io.Writer, from io.Reader) error {
	// One at a time, in this goroutine: it is to be a quiet neighbour.
	z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	_, err = io.Copy(z, from)
	return errors.Join(err, z.Close())
}

// offsetWriter writes to a file from its beginning on. A write that is cut short
// goes on: nobody reads the file before it is whole.
type offsetWriter struct {
	f interface {
		WriteAt(p []byte, off int64) (int, error)
	}
	off int64
}

func (o *offsetWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := o.f.WriteAt(p[done:], o.off)
		done += n
		o.off += int64(n)
		if err != nil && (n == 0 || !errors.Is(err, io.ErrShortWrite)) {
			return done, err
		}
	}
	return done, nil
}

// rename gives an archive another name. One that is there in both forms keeps its
// own until that is mended: else they could part, and its lines would be there twice.
func (w *Writer) rename(a *archive, to string) bool {
	form := ""
	if a.packed {
		form = suffix
	}
	if a.packed && a.plain || !w.try("number", func() error { return w.o.FS.RenameNew(a.path+form, to+form) }) {
		return false
	}
	a.path = to
	return true
}

// renumber gives numbers to the archives that have none, the oldest first. Those
// with numbers make room: up to the first that is free each takes the next. A crash
// in between leaves one free, and nothing twice. An error ends it, since the order is
// to stay.
func (w *Writer) renumber(path string, list []archive) {
	for i := range list {
		if list[i].number > 0 {
			continue
		}
		// Before i, from 1 upwards, the newest last.
		first, n := i, 1
		for first > 0 && list[first-1].number == n {
			first, n = first-1, n+1
		}
		for j := first; j <= i; j++ {
			number := i - j + 1
			if !w.rename(&list[j], fmt.Sprintf("%s.%d", path, number)) {
				return
			}
			list[j].number, list[j].stamp = number, stamp{}
		}
	}
}

// prune removes the oldest archives above Keep, and returns the others. Those that are
// in use count, and are not removed.
func (w *Writer) prune(list []archive, busy int) []archive {
	if w.o.Rotate.Keep <= 0 {
		return list
	}
	remove := func(name string) bool {
		return w.try("remove", func() error {
			err := w.o.FS.Remove(name)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	}
	more := max(0, min(len(list), len(list)+busy-w.o.Rotate.Keep))
	left := []archive{}
	for _, a := range list[:more] {
		a.packed = a.packed && !remove(a.path+suffix)
		a.plain = a.plain && !remove(a.path)
		if a.packed || a.plain {
			left = append(left, a)
		} else {
			w.count(&w.counts.pruned)
		}
	}
	return append(left, list[more:]...)
}
