package linelog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/settle"
)

// Many goroutines, rests, acks, reopens and a reader of the stats at once: each line
// is there once, those of one goroutine in order.
func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	w, err := Open(path, Options{Sync: settle.All(), Buffer: 1000})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 300
	var wg sync.WaitGroup
	for g := range writers {
		s := w.Stream()
		wg.Go(func() {
			for i := range each {
				line := fmt.Sprintf("%d/%d %s\n", g, i, strings.Repeat("w", i%40))
				switch i % 10 {
				case 0:
					pos, err := w.Append(context.Background(), []byte(line))
					if err == nil {
						err = w.Wait(context.Background(), pos, settle.Synced)
					}
					if err != nil {
						t.Error(err)
					}
				default:
					for _, part := range []string{line[:i%5], line[i%5:]} {
						if _, err := s.Write([]byte(part)); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			if err := os.Rename(path, fmt.Sprintf("%s.%d", path, i)); err != nil {
				t.Error(err)
			}
			if err := w.Reopen(); err != nil {
				t.Error(err)
			}
			w.Stats()
		}
	})
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names := []string{path}
	for i := 19; i >= 0; i-- {
		names = append([]string{fmt.Sprintf("%s.%d", path, i)}, names...)
	}
	next := map[string]int{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			who, rest, _ := strings.Cut(line, "/")
			if want := fmt.Sprintf("%d %s\n", next[who], strings.Repeat("w", next[who]%40)); rest != want {
				t.Fatalf("%s: %q, want %s/%q", name, line, who, want)
			}
			next[who]++
		}
	}
	for g := range writers {
		if n := next[fmt.Sprint(g)]; n != each {
			t.Errorf("writer %d: %d lines, want %d", g, n, each)
		}
	}
}

// Each write is one write(2), whole lines, to a descriptor with O_APPEND; a short
// one, here by RLIMIT_FSIZE, is repaired in place, and its line comes when there is
// room.
func TestFileSizeLimit(t *testing.T) {
	if os.Getenv("LINELOG_CHILD") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFileSizeLimit$", "-test.v")
		cmd.Env = append(os.Environ(), "LINELOG_CHILD=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "log")
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1000, Max: old.Max}); err != nil {
		t.Skipf("setrlimit: %v", err)
	}
	w, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 299) + "\n"
	if _, err := w.Write([]byte(strings.Repeat(line, 5))); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(context.Background()); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Sync beyond the limit: %v", err)
	}
	marked := strings.Repeat(line, 3) + strings.Repeat("#", 99) + "\n"
	if b, err := os.ReadFile(path); string(b) != marked {
		t.Errorf("at the limit: %q, %v", b, err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: old.Cur, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != marked+strings.Repeat(line, 2) {
		t.Errorf("at the end: %q, %v", b, err)
	}
}

// A pipe is written as it takes it; there is nothing to sync.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skipf("mkfifo: %v", err)
	}
	r, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := Open(path, Options{Sync: settle.All()}); !errors.Is(err, ErrNoSync) {
		t.Errorf("Open with the policy all: %v", err)
	}
	w, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 20000 { // more than the pipe holds: writes are short and fail
		fmt.Fprintf(&want, "line %d of the pipe\n", i)
	}
	if _, err := w.Write([]byte(want.String())); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(r)
	var got strings.Builder
	for got.Len() < want.Len() && scan.Scan() {
		got.WriteString(scan.Text() + "\n")
	}
	if got.String() != want.String() {
		t.Error("the reader got something else")
	}
	ctx := context.Background()
	if err := w.Sync(ctx); err != nil {
		t.Errorf("Sync of a pipe: %v", err)
	}
	if err := w.Wait(ctx, w.Pos(), settle.Synced); !errors.Is(err, ErrNoSync) {
		t.Errorf("Wait for a sync of a pipe: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// Reopen and failed opens leave no descriptor.
func TestDescriptors(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("count descriptors: %v", err)
		}
		return len(list)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	before := count()
	w, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	open := count()
	for range 5 {
		if _, err := w.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		if err := w.Reopen(); err != nil {
			t.Fatal(err)
		}
		if err := w.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != open {
		t.Errorf("%d descriptors after 5 reopens, %d before", n, open)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none", "log")} {
		if _, err := Open(bad, Options{}); err == nil {
			t.Errorf("Open(%s) succeeded", bad)
		}
	}
	if n := count(); n != before {
		t.Errorf("%d descriptors at the end, %d before", n, before)
	}
}

// copytruncate under the writer leaves no NULs: the next line is at the new end.
func TestTruncatedByOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(line string) {
		t.Helper()
		pos, err := w.Append(context.Background(), []byte(line))
		if err == nil {
			err = w.Wait(context.Background(), pos, settle.Appended)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("one\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	put("two\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "two\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// Calls that end with a newline and are longer than the longest line do not mix.
func TestLongWritesDoNotMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, Options{MaxLine: 1000, Window: -1, Limit: 4000})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	const each = 20
	for g := range 4 {
		group.Go(func() {
			line := strings.Repeat(string(rune('a'+g)), 70) + "\n"
			text := strings.Repeat(line, 60) + strings.Repeat(line[:70], 40) + "\n" // the last is cut
			for range each {
				if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
			}
		})
	}
	group.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	short := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "…")
		if line != strings.Repeat(line[:1], len(line)) {
			t.Fatalf("a line of two calls: %q", line)
		}
		if len(line) == 70 {
			short++
		}
	}
	if short != 4*each*60 {
		t.Errorf("%d lines, want %d", short, 4*each*60)
	}
}

// What waits while writes fail takes about the memory of its lines, however small the
// reads are that have brought them.
func TestCopyFromHoldsLittleWhileWritesFail(t *testing.T) {
	w, err := Open("/dev/full", Options{})
	if err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	s := w.Stream()
	if _, err := s.CopyFrom(t.Context(), iotest.OneByteReader(strings.NewReader(strings.Repeat("x\n", 500)))); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	held := 0
	for _, c := range w.q.parts {
		held += cap(c.buf)
	}
	w.mu.Unlock()
	if held > 3*DefaultBuffer {
		t.Errorf("1000 bytes take %d", held)
	}
	if err := w.Close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "lines lost: 500 (1000 bytes)") {
		t.Errorf("Close = %v", err)
	}
}
