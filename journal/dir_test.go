package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// TestOpenDirAmongRenames rotates while a directory is opened: between its listing
// and the opening of its files, and once more. Nothing is missed, nor is it an
// error that a name is not there any more.
func TestOpenDirAmongRenames(t *testing.T) {
	dir, clock := t.TempDir(), newClock()
	path := func(name string) string { return filepath.Join(dir, name) }
	o := Options{Clock: clock.now, BootID: entry.ID{1}, MachineID: entry.ID{2}, Order: NewOrder()}
	one, two, three := create(t, path("system.journal"), o), create(t, path("upcoming@2.journal"), o), create(t, path("upcoming@3.journal"), o)
	for i, w := range []*Writer{one, two, three} {
		appendTo(t, w, "MESSAGE="+string(rune('1'+i)))
		readerMust(t, w.Settle(t.Context()))
	}
	rotations := []func(){
		func() {
			readerMust(t, one.Rename(path("system@1.journal")))
			readerMust(t, two.Rename(path("system.journal")))
		},
		func() {
			readerMust(t, two.Rename(path("system@2.journal")))
			readerMust(t, three.Rename(path("system.journal")))
		},
	}
	// Want is asked between a listing and the opening of what it has found.
	j, err := ReadOptions{Want: func(name string) bool {
		if filepath.Base(name) == "system.journal" && len(rotations) > 0 {
			rotations[0]()
			rotations = rotations[1:]
		}
		return true
	}}.OpenDir(dir)
	readerMust(t, err)
	if len(j.Skipped()) > 0 {
		t.Errorf("skipped: %v", j.Skipped())
	}
	wantMessages(t, "among renames", messages(t, j), "1", "2", "3")
	readerMust(t, j.Close())
	for _, w := range []*Writer{one, two, three} {
		readerMust(t, w.Close())
	}
}

// TestOpenDirTellsWhatIsMissing: a name that leads nowhere is one all the time.
func TestOpenDirTellsWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "a.journal")); err != nil {
		t.Skip(err)
	}
	j, err := OpenDir(dir)
	readerMust(t, err)
	if len(j.Skipped()) != 1 || !errors.Is(j.Skipped()[0], fs.ErrNotExist) {
		t.Errorf("skipped: %v", j.Skipped())
	}
	readerMust(t, j.Close())
	if _, err := OpenDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
