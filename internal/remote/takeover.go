package remote

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/tidemark-log/tidemark/journal"
)

// takeOver brings the files that an earlier run has left into order. What an
// archive lacks is the store's to see to, which does it for all archives.
func (f *Files) takeOver() error {
	entries, err := f.fs.ReadDir(f.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".journal")
		if !ok || !strings.HasPrefix(base, "remote-") || strings.Contains(base, "@") {
			continue
		}
		p := f.add(base)
		if state, err := f.state(p); err == nil && state == journal.StateOffline {
			continue // opened when its peer says something
		}
		if err := p.takeCurrent(); err != nil { // its peer's next append tries again
			f.event(3, "%s.journal: %v", base, err)
		}
		p.close() //nolint:errcheck // told as an event
	}
	return nil
}

// state is that of the peer's current file, by its header.
func (f *Files) state(p *peer) (journal.State, error) {
	file, err := f.fs.OpenFile(f.path(p.base+".journal"), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	jf, err := journal.NewFile(file, func() int64 {
		n, err := file.Size()
		if err != nil {
			return 0
		}
		return n
	}, file.Name())
	if err != nil {
		return 0, err
	}
	return jf.Header().State, nil
}

// takeCurrent opens the peer's current file to go on with it. It leaves the peer
// without one when there is none, or when it could not be gone on with and has got
// another name.
func (p *peer) takeCurrent() error {
	path := p.files.path(p.base + ".journal")
	info, err := p.files.fs.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &os.PathError{Op: "open", Path: path, Err: errors.New("is not a regular file: remove it")}
	}
	w, err := journal.OpenWriter(path, p.goOnOptions())
	switch {
	case err == nil:
		p.goOn(w)
		return nil
	case errors.Is(err, journal.ErrUnclean):
		if foreign, ferr := p.files.foreign(path); ferr == nil && !foreign {
			return p.repair(path)
		}
		err = fmt.Errorf("another program's: %w", err)
	case p.files.unborn(path):
		return p.files.fs.Remove(path)
	case diskFailed(err):
		return err
	}
	return p.putAside(path, err)
}

// goOn makes w, a file that was closed, the current one.
func (p *peer) goOn(w *journal.Writer) {
	if w.Stats().Entries == 0 && !p.seqnumID.IsZero() {
		w.Adopt(p.seqnumID, p.seqnum)
	}
	p.have(w)
}

// repair makes a file that was not closed an archive.
func (p *peer) repair(path string) error {
	report, err := journal.Repair(path, journal.RepairOptions{FS: p.files.cfg.FS})
	if err != nil {
		if diskFailed(err) {
			return err
		}
		return p.putAside(path, fmt.Errorf("repair: %w", err))
	}
	w, err := journal.OpenWriter(path, p.goOnOptions())
	if err != nil {
		if diskFailed(err) {
			return err
		}
		return p.putAside(path, fmt.Errorf("open after repair: %w", err))
	}
	p.goOn(w)
	if report.Entries == 0 {
		return p.discard()
	}
	reason := fmt.Sprintf("it was not closed: repaired, entries: %d", report.Entries)
	if report.Lost > 0 {
		reason += fmt.Sprintf(", %d lost", report.Lost)
	}
	return p.rotate(reason)
}

// putAside gives a file that is not gone on with a name of its own.
func (p *peer) putAside(path string, why error) error {
	kept := disposed(p.base)
	if err := p.files.fs.Rename(path, p.files.path(kept)); err != nil {
		return err
	}
	if err := p.files.fs.SyncDir(p.files.cfg.Dir); err != nil {
		return err
	}
	p.files.event(4, "%s.journal cannot be gone on with, kept as %s: %v", p.base, kept, why)
	return nil
}

// foreign reports whether another program has created the file.
func (f *Files) foreign(path string) (bool, error) {
	file, err := f.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return journal.Foreign(file), nil
}

// unborn reports whether the file is one whose creation was cut short: its header
// is written last.
func (f *Files) unborn(path string) bool {
	file, err := f.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	var head [8]byte
	n, err := file.ReadAt(head[:], 0)
	return head == [8]byte{} && (err == nil || errors.Is(err, io.EOF) && n < len(head))
}

// diskFailed reports whether err says that the file system refused something, and
// nothing about what is in a file.
func diskFailed(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok || errors.Is(err, io.ErrShortWrite)
}
