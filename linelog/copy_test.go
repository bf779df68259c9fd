package linelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
)

// reads gives out one text a Read, and calls before first.
type reads struct {
	texts  []string
	before func(n int) // of read n = 0, 1, …
	n      int
}

func (r *reads) Read(p []byte) (int, error) {
	if r.before != nil {
		r.before(r.n)
	}
	if r.n == len(r.texts) {
		return 0, io.EOF
	}
	r.n++
	return copy(p, r.texts[r.n-1]), nil
}

// copyFrom copies all of r by a stream of its own.
func (r *rig) copyFrom(from io.Reader) (n int64, err error) {
	s := r.Stream()
	n, err = s.CopyFrom(context.Background(), from)
	if cerr := s.Close(); cerr != nil {
		r.t.Error(cerr)
	}
	return n, err
}

// TestCopyFrom has lines in all sizes of reads, of blocks and of longest lines, and
// takes the same for the text as Write does.
func TestCopyFrom(t *testing.T) {
	text := []byte("short\n\n" + strings.Repeat("long and ", 40) + "\n" + strings.Repeat("ü", 50) + "\nlast, unterminated")
	for _, o := range []Options{{}, {Buffer: 7}, {Buffer: 64, MaxLine: 30}, {Buffer: 64, MaxLine: 30, Full: Drop}, {MaxLine: 100}, {Rotate: Rotation{Size: 50, Compression: Plain}, MaxLine: 40}} {
		for _, size := range []int{1, 3, 50, 1000} {
			synctest.Test(t, func(t *testing.T) {
				written := newRig(t, o, nil)
				written.put(string(text))
				written.close()
				r := newRig(t, o, nil)
				pieces := &reads{}
				for rest := text; len(rest) > 0; {
					n := min(size, len(rest), r.o.Buffer)
					pieces.texts, rest = append(pieces.texts, string(rest[:n])), rest[n:]
				}
				if n, err := r.copyFrom(pieces); n != int64(len(text)) || err != nil {
					t.Fatalf("CopyFrom = %d, %v", n, err)
				}
				r.close()
				r.want(string(written.fs.Bytes(logPath)))
				for name, b := range contents(t, r.fs) {
					if n := len(strings.Join(b, "\n")) + 1; o.Rotate.Size > 0 && int64(n) > o.Rotate.Size {
						t.Errorf("%s has %d bytes", name, n)
					}
				}
				if a, b := r.Stats(), written.Stats(); a.Lines != b.Lines || a.Bytes != b.Bytes || a.Cut != b.Cut {
					t.Errorf("counted %d lines, %d bytes, %d cuts; Write counts %d, %d, %d", a.Lines, a.Bytes, a.Cut, b.Lines, b.Bytes, b.Cut)
				}
			})
		}
	}
}

// Lines are in the file before more is read, whatever the window; a rest when its
// newline comes.
func TestCopyFromIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Window: time.Hour}, nil)
		want := []string{"", "one\n", "one\ntwo\n", "one\ntwo\n", "one\ntwo\nthree\n"}
		_, err := r.copyFrom(&reads{
			texts: []string{"one\n", "two\nth", "re", "e\n"},
			before: func(n int) {
				if got := string(r.fs.Bytes(logPath)); got != want[n] {
					t.Errorf("before read %d the log holds %q, want %q", n, got, want[n])
				}
			},
		})
		if err != nil {
			t.Error(err)
		}
		r.close()
	})
}

// While the disk is full it goes on to read until the buffer is full, then waits for
// room, or for the end of its context, which loses nothing that was read.
func TestCopyFromFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Buffer: 100, Limit: 300}, nil)
		var full atomic.Bool
		full.Store(true)
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if full.Load() && op.Name == "write" {
				return syscall.ENOSPC
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		s := r.Stream()
		line := strings.Repeat("x", 99) + "\n"
		n, err := int64(0), error(nil)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			n, err = s.CopyFrom(ctx, &reads{texts: []string{line, line, line, line, line}})
		}()
		synctest.Wait()
		if st := r.Stats(); st.Buffered != 300 || st.Blocked == 0 {
			t.Errorf("%d bytes wait, blocked %d times", st.Buffered, st.Blocked)
		}
		cancel()
		<-ended
		if n != 300 || !errors.Is(err, context.Canceled) {
			t.Errorf("CopyFrom = %d, %v", n, err)
		}
		full.Store(false)
		if n, err := s.CopyFrom(t.Context(), &reads{texts: []string{"after\n"}}); n != 6 || err != nil {
			t.Errorf("with space again: %d, %v", n, err)
		}
		r.close()
		r.want(line, line, line, "after\n")
	})
}

// While the disk is full lines that come one by one share chunks.
func TestCopyFromFullDiskMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Buffer: 1000}, nil)
		var full atomic.Bool
		full.Store(true)
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if full.Load() && op.Name == "write" {
				return syscall.ENOSPC
			}
			return nil
		})
		lines := &reads{}
		for i := range 1000 {
			lines.texts = append(lines.texts, fmt.Sprintf("line %04d\n", i))
		}
		if _, err := r.copyFrom(lines); err != nil {
			t.Fatal(err)
		}
		r.Writer.mu.Lock()
		if n := len(r.q.parts); n > 12 {
			t.Errorf("%d chunks of 1000 bytes for 10 bytes a line, 1000 lines", n)
		}
		r.Writer.mu.Unlock()
		full.Store(false)
		r.close()
		r.want(lines.texts...)
	})
}

// An error of the reader is returned, and what came before it is there.
func TestCopyFromErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		broken := errors.New("broken")
		n, err := r.copyFrom(io.MultiReader(strings.NewReader("one\ntwo"), iotest.ErrReader(broken)))
		if n != 7 || !errors.Is(err, broken) {
			t.Errorf("CopyFrom = %d, %v", n, err)
		}
		s := r.Stream()
		r.close()
		if _, err := s.CopyFrom(t.Context(), strings.NewReader("three\n")); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		r.want("one\n", "two\n")
	})
}

// What was copied and not synced is written again after a failed sync, from memory, or
// read back and compared.
func TestCopyFromSyncFails(t *testing.T) {
	for _, keep := range []int64{1, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{Buffer: 4096, Keep: keep}, nil)
			var text bytes.Buffer
			for i := range 2000 {
				fmt.Fprintf(&text, "line %d\n", i)
			}
			failed := false
			r.fs.Hook(func(_ int, op crashfs.Op) error {
				if op.Name == "sync" && !failed {
					failed = true
					return syscall.EIO
				}
				return nil
			})
			if _, err := r.copyFrom(bytes.NewReader(text.Bytes())); err != nil {
				t.Fatal(err)
			}
			if err := r.Sync(t.Context()); !errors.Is(err, ErrSync) {
				t.Fatal(err)
			}
			r.close()
			r.want(text.String())
			if st := r.Stats(); st.Again != 2000 || st.Lost != 0 {
				t.Errorf("%d lines again, %d lost", st.Again, st.Lost)
			}
		})
	}
}

// A flood allocates nothing: the chunks take turns.
func TestCopyFromAllocatesNothing(t *testing.T) {
	w, err := Open(filepath.Join(t.TempDir(), "log"), Options{Keep: 1, Buffer: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	s := w.Stream()
	block := loop(strings.Repeat(strings.Repeat("x", 99)+"\n", 81))
	flood := func(reads int) {
		if _, err := s.CopyFrom(t.Context(), io.LimitReader(block, int64(reads*len(block)))); err != nil {
			t.Fatal(err)
		}
		if err := w.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	flood(50)
	few := testing.AllocsPerRun(5, func() { flood(1) })
	if many := testing.AllocsPerRun(5, func() { flood(50) }); many > few {
		t.Errorf("50 reads allocate %v times, 1 read %v times", many, few)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// loop is a reader of the same block again and again.
type loop []byte

func (l loop) Read(p []byte) (int, error) { return copy(p, l), nil }

// TestStressCopyFrom has several streams at a time, in pieces of any size, with a
// rotation: each line of each is there, whole and in order.
func TestStressCopyFrom(t *testing.T) {
	r := newRig(t, Options{Buffer: 512, MaxLine: 300, Rotate: Rotation{Size: 8 << 10, Compression: Plain}}, nil)
	const streams, lines = 4, 500
	done := make(chan error, streams)
	for i := range streams {
		go func() {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			all := &reads{}
			for n := range lines {
				line := fmt.Sprintf("%d %d %s\n", i, n, strings.Repeat("x", random.IntN(200)))
				cut := random.IntN(len(line))
				all.texts = append(all.texts, line[:cut], line[cut:])
			}
			_, err := r.copyFrom(all)
			done <- err
		}()
	}
	for range streams {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	r.close()
	var next [streams]int
	files := contents(t, r.fs)
	archives, err := r.archives(logPath)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range archives {
		all = append(all, files[filepath.Base(a.path)]...)
	}
	all = append(all, files[filepath.Base(logPath)]...)
	for _, line := range all {
		var i, n int
		if _, err := fmt.Sscanf(line, "%d %d ", &i, &n); err != nil || n != next[i] {
			t.Fatalf("%q, want line %d of stream %d: %v", line, next[i], i, err)
		}
		next[i]++
	}
	if next != [streams]int{lines, lines, lines, lines} {
		t.Errorf("lines of each stream: %v, want %d", next, lines)
	}
}
