package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A listing stands as long as no name has come, gone or changed, in the directory or
// one below; and where a change was so recent that the next might have its time, that
// is not known.
func TestListingStandsUntilChanged(t *testing.T) {
	const machine = "3d1219c7c4c5404aaa1f6d2a48adfda4"
	dir := t.TempDir()
	sub := filepath.Join(dir, machine)
	a, b := filepath.Join(dir, "a.journal"), filepath.Join(sub, "b.journal")
	readerMust(t, errors.Join(os.Mkdir(sub, 0o700), os.WriteFile(a, nil, 0o600), os.WriteFile(b, nil, 0o600)))
	list := func(at time.Time) *listing {
		l := &listing{at: at}
		readerMust(t, l.add(dir))
		return l
	}
	later := time.Now().Add(time.Hour)
	if list(time.Now()).stillSo() {
		t.Error("stands though it was changed just now")
	}
	for _, c := range []struct { // one after the other
		name   string
		change func() error
	}{
		{"a file comes", func() error { return os.WriteFile(filepath.Join(dir, "c.journal"), nil, 0o600) }},
		{"a file goes", func() error { return os.Remove(a) }},
		{"another name", func() error { return os.Rename(b, filepath.Join(sub, "d.journal")) }},
		{"another directory", func() error { return errors.Join(os.Rename(sub, sub+".x"), os.Mkdir(sub, 0o700)) }},
		{"the directory itself", func() error { return errors.Join(os.Rename(dir, dir+".x"), os.Rename(dir+".x", dir)) }},
	} {
		name, change := c.name, c.change
		l := list(later)
		before := append([]dirMark(nil), l.marks...)
		if !l.stillSo() {
			t.Errorf("%s: does not stand before", name)
		}
		readerMust(t, change())
		for dirMarkOf(dir) == before[0] && dirMarkOf(sub) == before[1] { // until the clock of the file system has moved
			tmp := filepath.Join(dir, "x")
			readerMust(t, errors.Join(os.WriteFile(tmp, nil, 0o600), os.Remove(tmp)))
		}
		if l.stillSo() {
			t.Errorf("%s: stands", name)
		}
	}
	if l := (&listing{at: later}); l.add(filepath.Join(dir, "none")) == nil || l.stillSo() {
		t.Error("a directory that is not there stands")
	}
}

// A directory that is at rest is listed once, another until two listings are equal.
func TestOpenDirListsOnce(t *testing.T) {
	dir, _ := aheadDir(t, []uint64{10, 20, 30, 40})
	for want, ahead := range map[int]time.Duration{2: time.Hour, 4: 0} {
		asked := 0
		j, err := ReadOptions{
			Want: func(string) bool { asked++; return true },
			now:  func() time.Time { return time.Now().Add(ahead) },
		}.OpenDir(dir)
		readerMust(t, err)
		if asked != want || len(j.Files()) != 2 {
			t.Errorf("changed %s before: %d names asked for, want %d; %d files", ahead, asked, want, len(j.Files()))
		}
		readerMust(t, j.Close())
	}
}
