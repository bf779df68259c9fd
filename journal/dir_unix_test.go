//go:build unix

package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

func TestWhichDirectoriesAreRead(t *testing.T) {
	const id = "3d1219c7c4c5404aaa1f6d2a48adfda4"
	for name, want := range map[string]bool{
		id: true, id + ".a": true, id + ".my-name_1.x": true, id + `.a@b:c\d`: true,
		"": false, "remote": false, id[1:]: false, id + "0": false,
		id + ".": false, id + ".a b": false, id + ".a/b": false, id + ".é": false, "a." + id: false,
	} {
		if got := IsSubdirName(name); got != want {
			t.Errorf("IsSubdirName(%q) = %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		"system.journal": true, "user-1@x.journal~": true,
		"system.journal~~": false, "journal": false, "system.journal.zst": false, ".next-1": false,
	} {
		if got := IsFileName(name); got != want {
			t.Errorf("IsFileName(%q) = %v, want %v", name, got, want)
		}
	}
}

// OpenDir reads the files of a directory, those of its machines and namespaces,
// and what links lead to; it says what it could not read.
func TestOpenDirReadsSubdirectories(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	const machine = "3d1219c7c4c5404aaa1f6d2a48adfda4"
	c := newClock()
	write := func(path, message string) {
		t.Helper()
		readerMust(t, os.MkdirAll(filepath.Dir(path), 0o755))
		w := create(t, path, Options{MaxSize: MinMaxSize, Clock: c.now})
		appendTo(t, w, "MESSAGE="+message)
		readerMust(t, w.Close())
	}
	write(filepath.Join(dir, "system.journal"), "top")
	write(filepath.Join(dir, machine, "system.journal"), "machine")
	write(filepath.Join(dir, machine+".ns", "a.journal~"), "namespace")
	write(filepath.Join(outside, "x"), "link")
	readerMust(t, os.Symlink(filepath.Join(outside, "x"), filepath.Join(dir, "linked.journal")))
	// None of these is read.
	write(filepath.Join(dir, "remote", "system.journal"), "another directory")
	write(filepath.Join(dir, machine, machine, "system.journal"), "deeper")
	write(filepath.Join(dir, "system.journal.bak"), "another name")
	readerMust(t, os.Mkdir(filepath.Join(dir, "dir.journal"), 0o755))
	readerMust(t, syscall.Mkfifo(filepath.Join(dir, "fifo.journal"), 0o600))
	readerMust(t, os.WriteFile(filepath.Join(dir, "text.journal"), make([]byte, 4096), 0o600))

	j, err := OpenDir(dir, filepath.Join(outside, "missing"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	wantMessages(t, "entries", messages(t, j), "top", "machine", "namespace", "link")
	var notJournal, missing int
	for _, err := range j.Skipped() {
		switch {
		case errors.Is(err, ErrNotJournal):
			notJournal++
		case errors.Is(err, fs.ErrNotExist):
			missing++
		default:
			t.Errorf("skipped: %v", err)
		}
	}
	if notJournal != 1 || missing != 1 {
		t.Errorf("skipped %v, want text.journal and the directory that is missing", j.Skipped())
	}
	if _, err := OpenDir(filepath.Join(outside, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenDir of nothing: %v", err)
	}
}

// What a file says of itself, and how much of the disk it takes.
func TestFileTellsOfItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.journal")
	c := newClock()
	w := create(t, path, Options{MaxSize: MinMaxSize, Clock: c.now})
	if w.TailRealtime() != 0 || w.HeadRealtime() != 0 {
		t.Errorf("times %d … %d of no entries", w.HeadRealtime(), w.TailRealtime())
	}
	appendTo(t, w, "MESSAGE=1")
	first := c.realtime
	appendTo(t, w, "MESSAGE=2")
	if w.HeadRealtime() != first || w.TailRealtime() != c.realtime {
		t.Errorf("times %d … %d, want %d … %d", w.HeadRealtime(), w.TailRealtime(), first, c.realtime)
	}
	id, tail := w.Seqnum()
	readerMust(t, w.Close())
	rep, err := Repair(path, RepairOptions{})
	readerMust(t, err)
	if gotID, got := rep.Seqnum(); gotID != id || got != tail || tail != 2 {
		t.Errorf("sequence after a repair %s %d, want %s %d", gotID, got, id, tail)
	}
	f, err := OpenFile(path)
	readerMust(t, err)
	defer f.Close()
	st, err := os.Stat(path)
	readerMust(t, err)
	if got := f.DiskUsage(); f.Name() != path || got < 4096 || got%512 != 0 || got > st.Size()+1<<20 {
		t.Errorf("%s takes %d bytes on disk, and has %d", f.Name(), got, st.Size())
	}
	if _, _, ok := f.Salvaged(); ok {
		t.Error("a good file is salvaged")
	}
	h := f.Header()
	if h.MachineID != (entry.ID{1}) || !h.Has(HasTailEntryArray) || h.Has(HasTailEntry) || h.Sealed() {
		t.Errorf("header %+v", h)
	}
	h.HeaderSize, h.CompatibleFlags = 224, h.CompatibleFlags|1
	has := map[HeaderField]bool{}
	for _, f := range []HeaderField{HasNData, HasNFields, HasNTags, HasNEntryArrays, HasDataDepth, HasFieldDepth, HasTailEntryArray, HasTailEntry} {
		has[f] = h.Has(f)
	}
	want := map[HeaderField]bool{
		HasNData: true, HasNFields: true, HasNTags: false, HasNEntryArrays: false,
		HasDataDepth: false, HasFieldDepth: false, HasTailEntryArray: false, HasTailEntry: false,
	}
	if d := cmp.Diff(want, has); d != "" || !h.Sealed() {
		t.Errorf("sealed %v; a header of 224 bytes has (-want +got):\n%s", h.Sealed(), d)
	}
}
