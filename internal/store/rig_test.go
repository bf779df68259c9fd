package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// smallFile is journald's smallest file: 1,536 distinct fields fill it.
const smallFile = 512 << 10

// said collects what is said to the operator.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *said) has(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lines, func(l string) bool { return strings.Contains(l, part) })
}

// testConfig is that of a store in dir with small files.
func testConfig(dir string, fsys vfs.FS) Config {
	return Config{
		FS: fsys, Dir: dir, MachineID: testMachine, BootID: testBoot,
		Settings: Settings{Limits: Limits{MaxFileSize: smallFile, KeepFree: 1, MaxUse: 1 << 30}},
	}
}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// line is an entry with a field of its own.
func line(owner uint32, text string) entry.Entry {
	return entry.Entry{Owner: owner, Fields: []entry.Field{entry.Field("MESSAGE=" + text), entry.Field("_UID=" + fmt.Sprint(owner))}}
}

// stored returns the messages of the files whose names begin with one of
// prefixes, in their order; tidemark's own entries only with own. Each file must
// verify.
func storedIn(t *testing.T, dir string, own bool, prefixes ...string) []string {
	t.Helper()
	dir = filepath.Join(dir, testMachine.String())
	var paths []string
	for _, name := range names(t, dir) {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				paths = append(paths, filepath.Join(dir, name))
			}
		}
	}
	j, err := journal.Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if skipped := j.Skipped(); len(skipped) > 0 {
		t.Fatalf("not readable: %v", skipped)
	}
	var out []string
	for {
		e, err := j.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		m, _ := e.Get("MESSAGE")
		if transport, _ := e.Get("_TRANSPORT"); own || string(transport) != "driver" {
			out = append(out, string(m))
		}
	}
}

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// verifyAll checks every file of the store and returns their names.
func verifyAll(t *testing.T, dir string) []string {
	t.Helper()
	dir = filepath.Join(dir, testMachine.String())
	all := names(t, dir)
	for _, name := range all {
		verifyOne(t, filepath.Join(dir, name))
	}
	return all
}

// verifyOne checks a file.
func verifyOne(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	report, err := journal.Verify(t.Context(), f, info.Size(), path, journal.VerifyOptions{})
	if err != nil || !report.OK() {
		t.Errorf("verify %s: %v %v", path, err, report.Problems)
	}
}

// numbered returns the messages from..to-1.
func numbered(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("message %d", i))
	}
	return out
}

// appendNumbered appends those messages, some at a time, and waits for them.
func appendNumbered(t *testing.T, s *Store, from, to int) {
	t.Helper()
	var all journal.Ticket
	for i := from; i < to; i += 7 {
		var batch []entry.Entry
		for k := i; k < min(i+7, to); k++ {
			batch = append(batch, line(0, fmt.Sprintf("message %d", k)))
		}
		ticket, err := s.Append(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		all.Join(ticket)
	}
	if err := s.Wait(t.Context(), all, settle.Synced); err != nil {
		t.Fatal(err)
	}
}
