package query

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// numbers formats the message of each entry, and fails at one of them.
type numbers struct{ fail string }

var errBadNumber = errors.New("a number that cannot be printed")

func (f numbers) AppendKnown(b []byte, e *entry.Entry, ids []uint64) ([]byte, error) {
	v, _ := e.Get("MESSAGE")
	b = append(append(b, v...), '\n')
	if len(ids) != len(e.Fields) {
		return b, fmt.Errorf("%d ids of %d fields", len(ids), len(e.Fields))
	}
	if string(v) == f.fail {
		return b, errBadNumber
	}
	return b, nil
}

func (numbers) Fields() []string { return nil }

// manyBoots is a file of 3,000 entries, a boot for each 700.
func manyBoots(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "many.journal")
	w, err := journal.Create(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []entry.Entry
	for i := range 3000 {
		boot := entry.ID{byte(1 + i/700)}
		all = append(all, entry.Entry{
			Realtime: start + uint64(i)*usecPerSec, Monotonic: 1 + uint64(i)*usecPerSec, BootID: boot,
			Fields: []entry.Field{entry.Field(fmt.Sprintf("MESSAGE=m%d", i)), entry.Field("_BOOT_ID=" + boot.String()), entry.Field(fmt.Sprintf("PRIORITY=%d", i%8))},
		})
	}
	if _, _, err := w.Append(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A scan that is shared prints what one goroutine prints, in the same order.
func TestSharedScan(t *testing.T) {
	path := manyBoots(t)
	pattern, err := CompilePattern("m.*7$", CaseAuto)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"all":      func(*Options) {},
		"backward": func(o *Options) { o.Reverse = true },
		"quiet":    func(o *Options) { o.Quiet = true },
		"pattern":  func(o *Options) { o.Pattern = pattern },
		"match":    func(o *Options) { o.Matches = []string{"PRIORITY=3"} },
		"range": func(o *Options) {
			o.Since, o.SinceSet, o.Until, o.UntilSet = start+100*usecPerSec, true, start+2000*usecPerSec, true
		},
		"back from": func(o *Options) { o.Reverse, o.Since, o.SinceSet = true, start+2500*usecPerSec, true },
		"few":       func(o *Options) { o.Since, o.SinceSet = start+2990*usecPerSec, true },
		"none":      func(o *Options) { o.Since, o.SinceSet = start+5000*usecPerSec, true },
		"cursor":    func(o *Options) { o.ShowCursor = true },
	} {
		t.Run(name, func(t *testing.T) {
			o := Defaults()
			o.Lines = LinesAll
			change(&o)
			want, err := show(t, openJournal(t, path), o, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, procs := range []int{1, 2, 5} {
				got, err := showShared(t, path, o, procs, "")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%d processors (-one goroutine +shared):\n%s", procs, diff)
				}
			}
		})
	}
}

func showShared(t *testing.T, path string, o Options, procs int, fail string) (string, error) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	if err := o.Complete(); err != nil {
		return "", err
	}
	q, err := New(openJournal(t, path), o)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	err = Show(context.Background(), q, Output{W: w, Printer: messages{w}, Fork: func() (Formatter, error) { return numbers{fail}, nil }})
	return out.String(), err
}

// An entry that cannot be printed ends the output behind what stands before it.
func TestSharedScanFails(t *testing.T) {
	path := manyBoots(t)
	o := Defaults()
	o.Lines, o.Quiet = LinesAll, true
	for _, at := range []int{0, 100, 255, 256, 1500, 2999} {
		for _, procs := range []int{1, 2} {
			got, err := showShared(t, path, o, procs, fmt.Sprintf("m%d", at))
			if !errors.Is(err, errBadNumber) {
				t.Errorf("%d: %v", at, err)
			}
			if n := strings.Count(got, "\n"); n != at {
				t.Errorf("%d: %d lines", at, n)
			}
		}
	}
}

// A context that is done, and an output that nobody reads, end a scan.
func TestSharedScanEnds(t *testing.T) {
	path := manyBoots(t)
	o := Defaults()
	o.Lines = LinesAll
	for _, procs := range []int{1, 2} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			q, err := New(openJournal(t, path), o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			w := bufio.NewWriter(&bytes.Buffer{})
			fork := func() (Formatter, error) { return numbers{}, nil }
			if err := Show(ctx, q, Output{W: w, Printer: messages{w}, Fork: fork}); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			if q, err = New(openJournal(t, path), o); err != nil {
				t.Fatal(err)
			}
			w = bufio.NewWriterSize(fullWriter{}, 16)
			if err := Show(t.Context(), q, Output{W: w, Printer: messages{w}, Fork: fork}); !errors.Is(err, errFull) {
				t.Errorf("nobody reads: %v", err)
			}
		}()
	}
}

type fullWriter struct{}

var errFull = errors.New("full")

func (fullWriter) Write(p []byte) (int, error) {
	if slices.Contains(p, '9') {
		return 0, errFull
	}
	return len(p), nil
}
