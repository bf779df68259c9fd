package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// Stay says which archives a Vacuum leaves; zero values limit nothing.
type Stay struct {
	// Bytes is what all files may occupy; current ones count, and stay.
	Bytes uint64
	// Age is how old the first entry of an archive may be.
	Age time.Duration
	// Files is how many files there may be, current ones included.
	Files uint64
}

// Gone is an archive that was removed, or would be.
type Gone struct {
	Name  string
	Bytes uint64 // that it occupied
	Empty bool   // it held no entry
}

// Vacuum removes archives from dir, and files that were set aside, as journalctl
// --vacuum-size, --vacuum-time and --vacuum-files do: those without entries, and
// then the oldest until the rest may stay. dry removes nothing. Any process may
// call it, whether a daemon writes there or not: a file that is being written,
// by its name or by the state in its header, is never removed. Removals survive a
// power cut when it returns nil; a crash leaves some of them done. What was
// removed before an error is returned with it.
func Vacuum(fsys vfs.FS, dir string, stay Stay, now time.Time, dry bool) ([]Gone, error) {
	v := vacuum{fs: fsys, dir: dir, dry: dry}
	files, err := v.list()
	if err != nil {
		return nil, err
	}
	sum := v.size
	nowUsec := uint64(max(now.UnixMicro(), 0)) //nolint:gosec // not negative
	for i, f := range files {
		left := uint64(v.current + len(files) - i) //nolint:gosec // a count
		old := stay.Age > 0 && since(f.realtime, nowUsec) > stay.Age
		if !old && (stay.Bytes == 0 || sum <= stay.Bytes) && (stay.Files == 0 || left <= stay.Files) {
			break
		}
		if err := v.remove(f, false); err != nil {
			return v.gone, err
		}
		sum -= f.size
	}
	if len(v.gone) > 0 && !dry {
		return v.gone, fsys.SyncDir(dir)
	}
	return v.gone, nil
}

// vacuum is a run of Vacuum.
type vacuum struct {
	fs   vfs.FS
	dir  string
	dry  bool
	gone []Gone

	current int    // files that are no archives
	size    uint64 // of all files that hold entries, in bytes
}

// list returns the archives that hold entries, the oldest first, having removed
// those that hold none.
func (v *vacuum) list() (files []stored, err error) {
	entries, err := v.fs.ReadDir(v.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !isJournal(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		f, archived := parseStored(e.Name())
		f.size = blocks(info)
		if !archived {
			v.keep(f)
			continue
		}
		f.realtime = min(f.realtime, uint64(max(info.ModTime().UnixMicro(), 0))) //nolint:gosec // not negative
		empty, busy, err := v.look(f.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case busy && !f.aside():
			v.keep(f)
		case empty:
			if err := v.remove(f, true); err != nil {
				return nil, err
			}
		default:
			files = append(files, f)
			v.size += f.size
		}
	}
	slices.SortStableFunc(files, older)
	return files, nil
}

// keep counts a file that stays.
func (v *vacuum) keep(f stored) {
	v.current++
	v.size += f.size
}

// isJournal reports whether a file of this name is one of journald's kinds.
func isJournal(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".journal" || ext == ".journal~"
}

// Where the header says what is going on, in bytes (JOURNAL_FILE_FORMAT).
const (
	stateAt       = 16
	nEntriesAt    = 152
	headerAtLeast = 208
	stateOnline   = 1
)

// look reads whether a file has no entries, and whether it is being written.
func (v *vacuum) look(name string) (empty, busy bool, err error) {
	f, err := v.fs.OpenFile(filepath.Join(v.dir, name), os.O_RDONLY, 0)
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	var h [headerAtLeast]byte
	_, err = f.ReadAt(h[:], 0)
	switch {
	case errors.Is(err, io.EOF):
		return true, false, nil
	case err != nil:
		return false, false, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return binary.LittleEndian.Uint64(h[nEntriesAt:]) == 0, h[stateAt] == stateOnline, nil
}

func (v *vacuum) remove(f stored, empty bool) error {
	if !v.dry {
		if err := v.fs.Remove(filepath.Join(v.dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	v.gone = append(v.gone, Gone{Name: f.name, Bytes: f.size, Empty: empty})
	return nil
}
