package linelog

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCrashRotation kills writers with -9 that rotate all the time, one after the
// other in one directory: what was acknowledged is in one of the files, whole and once
// and in its order, no .zst is half, and the next writer leaves none unfinished.
func TestCrashRotation(t *testing.T) {
	const inOne = 10 // kills in one directory
	for round := range (rounds(2) + inOne - 1) / inOne * 2 {
		naming := []Naming{ByTime, Numbered}[round%2]
		p := process{Path: filepath.Join(t.TempDir(), "log"), Size: 200, Batch: 20, Owned: true, Rotate: Rotation{Size: 8 << 10, Naming: naming}}
		r := rand.New(rand.NewPCG(uint64(round), 2))
		acked := map[int]int{}
		for p.ID = range min(rounds(2), inOne) {
			v := p.start(t, nil)
			for v.acked.Load() == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(time.Duration(r.IntN(10_000)) * time.Microsecond)
			if err := v.Process.Kill(); err != nil {
				t.Error(err)
			}
			v.end() //nolint:errcheck // it was killed
			acked[p.ID] = int(v.acked.Load())
		}
		w, err := Open(p.Path, Options{Rotate: p.Rotate})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), rest(w, p.Path)); err != nil {
			t.Error(err)
		}
		text, files := inAll(t, w, p.Path)
		f := examine(t, text)
		f.check(t, acked, true)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		if files < 2 {
			t.Errorf("%d files before: nothing was tested", files)
		}
	}
}

// rest returns an error if something is left to do.
func rest(w *Writer, path string) error {
	list, err := w.archives(path)
	for _, a := range list {
		if a.plain || !a.packed || (a.number > 0) != (w.o.Rotate.Naming == Numbered) {
			err = errors.Join(err, errors.New(a.path+" is not finished"))
		}
	}
	parts, globErr := filepath.Glob(filepath.Join(filepath.Dir(path), ".*.part"))
	if len(parts) > 0 {
		err = errors.Join(err, errors.New(strings.Join(parts, ", ")+" is left"))
	}
	return errors.Join(err, globErr)
}

// inAll is the text of all files before, the oldest first, and of the log.
func inAll(t *testing.T, w *Writer, path string) (text []byte, files int) {
	t.Helper()
	list, err := w.archives(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		b, err := os.ReadFile(a.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, unpacked(t, a.path+suffix, b)...)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return append(text, b...), len(list)
}
