package linelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// source is a stream and the text that goes into it, in pieces of any size.
type source struct {
	*Stream
	name string
	text string // all lines it will ever have
	done int    // bytes written
}

func newSource(w *Writer, n int) *source {
	s := &source{Stream: w.Stream(), name: fmt.Sprint(n)}
	for i := range 400 {
		s.text += fmt.Sprintf("%s:%d.%s\n", s.name, i, strings.Repeat("é", i*n%23))
	}
	return s
}

// lines are those written so far; the last one was terminated by Close.
func (s *source) lines() []string {
	text := strings.TrimSuffix(s.text[:s.done], "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// fuzzRun does what script says and checks that each line is whole and there once.
func fuzzRun(t *testing.T, script []byte) {
	r := newRig(t, Options{Buffer: 128, Keep: 256, Window: 3 * time.Millisecond, Sync: settle.Every(20 * time.Millisecond)}, nil)
	sources := []*source{newSource(r.Writer, 1), newSource(r.Writer, 2), newSource(r.Writer, 3)}
	h := &history{synced: map[string]bool{}}
	next := func() int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b)
	}
	kinds := []crashfs.Kind{crashfs.NotDone, crashfs.DoneButFailed, crashfs.Short}
	for renames := 0; len(script) > 0; {
		switch op := next(); op % 8 {
		case 0: // a call some steps ahead fails
			r.fs.FailAt(1+next()%4, kinds[op/8%3], syscall.EIO)
		case 1:
			err := r.Sync(context.Background())
			if err == nil && r.Stats().Lost == 0 {
				for _, s := range sources {
					for i, line := range s.lines() {
						if i < strings.Count(s.text[:s.done], "\n") {
							h.synced[line] = true
						}
					}
				}
				h.powerCuts(t, r.fs)
			} else if err != nil && !errors.Is(err, ErrSync) && !errors.Is(err, syscall.EIO) && !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("Sync: %v", err)
			}
		case 2: // logrotate
			renames++
			r.fs.Rename(logPath, fmt.Sprintf("%s.%d", logPath, renames)) //nolint:errcheck // it may be the one that fails
			r.Reopen()                                                   //nolint:errcheck // then lines go on to the file before
		case 3:
			time.Sleep(time.Duration(next()) * time.Millisecond)
		default: // a piece of text
			s := sources[op/8%3]
			n := min(next(), len(s.text)-s.done)
			if _, err := s.Write([]byte(s.text[s.done : s.done+n])); err != nil {
				t.Errorf("Write: %v", err)
			}
			s.done += n
		}
	}
	time.Sleep(3 * time.Minute) // faults that are left hit, and what failed is tried again
	for range 4 {
		if r.Sync(context.Background()) == nil {
			break
		}
		time.Sleep(2 * time.Minute)
	}
	err := r.Close()
	if err != nil && !errors.Is(err, ErrSync) && !errors.Is(err, syscall.EIO) && !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close: %v", err)
	}
	for _, s := range sources {
		h.accepted = append(h.accepted, s.lines()...)
	}
	if r.Stats().Lost > 0 {
		clear(h.synced) // what was synced before is not told apart here
	}
	h.check(t, contents(t, r.fs), r.Stats().Again, err == nil && r.Stats().Lost == 0)
}

// FuzzWriter writes random pieces of lines through three streams, with faults,
// renames and pauses in between.
func FuzzWriter(f *testing.F) {
	f.Add([]byte{4, 10, 12, 200, 20, 30, 1, 4, 255, 12, 1})
	f.Add([]byte{4, 90, 1, 0, 1, 4, 90, 1, 2, 12, 90, 8, 0, 20, 90, 16, 1, 4, 255})
	f.Add([]byte{4, 250, 16, 0, 3, 10, 12, 250, 8, 0, 3, 20, 2, 20, 250, 0, 2, 1, 1})
	f.Add([]byte("\x04C\x10x0#0201C0200000000"))          // a torn piece in a file that was renamed
	f.Add([]byte{4, 250, 4, 48, 3, 10, 0, 0, 0, 2, 1, 1}) // lines that cannot be read back
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			t.Skip("longer scripts find nothing more")
		}
		synctest.Test(t, func(t *testing.T) { fuzzRun(t, script) })
	})
}
