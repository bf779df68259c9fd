package journal

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
	"github.com/tidemark-log/tidemark/settle"
)

// tapFS is the machine's file system with a tape of the calls that change
// journal files. In front of each sync stands what a reader finds then, and
// whether inotify has told of a change since the sync before.
type tapFS struct {
	vfs.OS
	t       *testing.T
	inotify int

	mu   sync.Mutex
	tape []string
}

func newTapFS(t *testing.T, dir string) *tapFS {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return &tapFS{t: t, inotify: fd}
}

func (s *tapFS) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tape = append(s.tape, fmt.Sprintf(format, args...))
}

// take returns the tape since the last call, in which a run of writes to one
// file is one.
func (s *tapFS) take() []string {
	s.changed("")
	s.mu.Lock()
	defer s.mu.Unlock()
	tape := slices.Compact(s.tape)
	s.tape = nil
	return tape
}

// changed takes the events of the directory and tells whether one is a change of
// the file called name.
func (s *tapFS) changed(name string) (modified bool) {
	b := make([]byte, 64<<10)
	n, err := unix.Read(s.inotify, b)
	if err != nil {
		return false // EAGAIN: none
	}
	for b = b[:n]; len(b) >= unix.SizeofInotifyEvent; {
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		of := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
		modified = modified || of == name && binary.NativeEndian.Uint32(b[4:])&unix.IN_MODIFY != 0
		b = b[end:]
	}
	return modified
}

func (s *tapFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := s.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &tapFile{File: f, fs: s, path: name}, nil
}

func (s *tapFS) Rename(from, to string) error {
	s.note("rename %s", filepath.Base(from))
	return s.OS.Rename(from, to)
}

// tapFile is called on the tape what it was called when it was opened.
type tapFile struct {
	vfs.File
	fs   *tapFS
	path string
}

func (f *tapFile) note(call string) { f.fs.note("%s: %s", filepath.Base(f.path), call) }

func (f *tapFile) WriteAt(p []byte, off int64) (int, error) {
	call := "write"
	if off == 0 && len(p) > object.HdrState && State(p[object.HdrState]) != StateOnline {
		call = "state " + State(p[object.HdrState]).String()
	}
	f.note(call)
	return f.File.WriteAt(p, off)
}

func (f *tapFile) Truncate(n int64) error {
	f.note("truncate")
	return f.File.Truncate(n)
}

// Datasync is what the sync settler calls.
func (f *tapFile) Datasync() error {
	r, err := OpenFile(f.path)
	if err != nil {
		f.fs.t.Errorf("open before the sync: %v", err)
		return f.File.Datasync()
	}
	h := r.Header()
	if err := r.Close(); err != nil {
		f.fs.t.Error(err)
	}
	told := "readers are not told"
	if f.fs.changed(filepath.Base(f.path)) {
		told = "readers are told"
	}
	f.note(fmt.Sprintf("%d entries, %s, %s; datasync", h.NEntries, h.State, told))
	return f.File.Datasync()
}

func (f *tapFile) Sync() error {
	f.note("sync")
	return f.File.Sync()
}

func (f *tapFile) Close() error {
	f.note("close")
	return f.File.Close()
}

// ends are the ways a writer's file comes to its end, and what they do after
// the pending entries were written.
var ends = []struct {
	name string
	end  func(*Writer) error
	want []string
}{
	{"close", (*Writer).Close, []string{"sync", "state OFFLINE", "sync", "close"}},
	{
		"archive", func(w *Writer) error { return w.Archive(w.fs.(*tapFS).t.Context()) },
		[]string{"write", "truncate", "sync", "state ARCHIVED", "sync", "close"},
	},
}

// Close and Archive write what is pending, which notifies, then settle the sync,
// then change the state; whether data is pending or only links.
func TestEndWritesThenSyncsThenChangesState(t *testing.T) {
	for _, tt := range ends {
		for _, data := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s data=%v", tt.name, data), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := t.TempDir()
					tap := newTapFS(t, dir)
					w, err := Create(filepath.Join(dir, "a.journal"), Options{FS: tap, Index: time.Hour})
					if err != nil {
						t.Fatal(err)
					}
					wHoldIndex(w)
					append3 := func() {
						for range 3 {
							if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1", "B=2")}); err != nil {
								t.Fatal(err)
							}
						}
						synctest.Wait()
					}
					if !data {
						append3()
					}
					w.io.Lock() // nothing is written meanwhile
					tap.take()
					if data {
						append3()
					}
					done := make(chan error, 1)
					go func() { done <- tt.end(w) }()
					synctest.Wait()
					if tape := tap.take(); len(tape) > 0 {
						t.Errorf("before what is pending could be written: %q", tape)
					}
					w.io.Unlock()
					if err := <-done; err != nil {
						t.Error(err)
					}
					want := []string{"a.journal: write", "a.journal: 3 entries, ONLINE, readers are told; datasync"}
					for _, call := range tt.want {
						want = append(want, "a.journal: "+call)
					}
					if d := cmp.Diff(want, tap.take()); d != "" {
						t.Errorf("calls (-want +got):\n%s", d)
					}
					wVerifyFile(t, w.Path())
				})
			})
		}
	}
}

// A rotation is a pointer swap: the successor takes over the sequence and is
// appended to while the old file still holds entries in memory. Those are
// written before anything of the successor, though both wait for the disk; then
// the old file is synced, and only then archived.
func TestRotationSettlesTheOldFileFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		tap := newTapFS(t, dir)
		o := Options{FS: tap, Index: time.Hour, Order: NewOrder()}
		var w [2]*Writer
		for i, name := range []string{"old.journal", "new.journal"} {
			var err error
			if w[i], err = Create(filepath.Join(dir, name), o); err != nil {
				t.Fatal(err)
			}
			wHoldIndex(w[i])
		}
		w[0].io.Lock() // that of both
		tap.take()
		var tk Ticket
		add := func(w *Writer, n int) {
			for range n {
				pos, _, err := w.TryAppend([]entry.Entry{wFields("A=1", "B=2")})
				if err != nil {
					t.Fatal(err)
				}
				tk.Add(w, pos)
			}
		}
		add(w[0], 3)
		w[1].Succeed(w[0])
		add(w[1], 2)
		synctest.Wait()
		if tape := tap.take(); len(tape) > 0 {
			t.Errorf("an append, or the swap, calls %q", tape)
		}
		w[0].io.Unlock()
		if err := w[0].Archive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := tk.Wait(t.Context(), settle.Synced); err != nil {
			t.Fatal(err)
		}
		if err := w[1].Close(); err != nil {
			t.Fatal(err)
		}
		tape := tap.take()
		first := func(call string) int { return slices.Index(tape, call) }
		order := []string{
			"old.journal: write", "old.journal: 3 entries, ONLINE, readers are told; datasync",
			"old.journal: truncate", "old.journal: state ARCHIVED", "old.journal: close",
		}
		at := -1
		for _, call := range order {
			if i := first(call); i <= at {
				t.Fatalf("%q is not where it belongs in %q", call, tape)
			} else {
				at = i
			}
		}
		if i := first("new.journal: write"); i < first("old.journal: write") {
			t.Errorf("the successor was written first: %q", tape)
		}
		h := w[1].m.hdr
		if h.HeadEntrySeqnum != 4 || h.TailEntrySeqnum != 5 {
			t.Errorf("the successor has %d … %d, want 4 … 5", h.HeadEntrySeqnum, h.TailEntrySeqnum)
		}
	})
}
