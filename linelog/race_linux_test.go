package linelog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rotations of the log's own, renames by others, Reopen and Sync at the same time:
// each line is in one of the files, once.
func TestRotateBesideOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, Options{Watch: true, Rotate: Rotation{Size: 20_000, Compression: Plain}})
	if err != nil {
		t.Fatal(err)
	}
	const callers, each = 6, 2000
	var all sync.WaitGroup
	for g := range callers {
		all.Go(func() {
			for i := range each {
				if _, err := w.Append(t.Context(), fmt.Appendf(nil, "%d/%d", g, i)); err != nil {
					t.Error(err)
				}
				if i%500 == 0 {
					if err := w.Sync(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Go(func() {
		for i := range 20 {
			os.Rename(path, fmt.Sprintf("%s.moved%d", path, i)) //nolint:errcheck // it may be away
			time.Sleep(time.Millisecond)
			if i%3 == 0 {
				if err := w.Reopen(); err != nil {
					t.Error(err)
				}
			}
			if err := w.Rotate(); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	seen := map[string]int{}
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			seen[line]++
		}
	}
	for g := range callers {
		for i := range each {
			if n := seen[fmt.Sprintf("%d/%d\n", g, i)]; n != 1 {
				t.Fatalf("line %d/%d is there %d times", g, i, n)
			}
		}
	}
}
