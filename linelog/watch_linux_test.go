package linelog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// watched is a log on the machine's file system whose Writer notices renames.
type watched struct {
	*Writer
	t    *testing.T
	path string

	mu   sync.Mutex
	said string
}

func openWatched(t *testing.T, o Options, grace time.Duration) *watched {
	t.Helper()
	r := &watched{t: t, path: filepath.Join(t.TempDir(), "log")}
	o.Say = func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said += text + "\n"
	}
	w, err := Open(r.path, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Writer = w
	t.Cleanup(func() { w.Close() })
	w.o.Watch = true
	w.startWatch(0, grace)
	return r
}

func (r *watched) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// until waits for what the goroutine does.
func (r *watched) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within 30 s; said: %s", what, r.said)
		}
	}
}

func (r *watched) line(text string) {
	r.t.Helper()
	_, err := r.Write([]byte(text + "\n"))
	r.must(err)
	r.must(r.Sync(r.t.Context()))
}

func (r *watched) want(name, text string) {
	r.t.Helper()
	if b, err := os.ReadFile(name); string(b) != text || err != nil {
		r.t.Errorf("%s holds %q, %v, want %q", filepath.Base(name), b, err, text)
	}
}

// What others do to the name is noticed: rename without a new file, rename with one,
// replacement, removal. No line is lost, none is twice.
func TestWatchNoticesTheName(t *testing.T) {
	r := openWatched(t, Options{}, 20*time.Millisecond)
	r.line("one")
	r.must(os.Rename(r.path, r.path+".1")) // nocreate
	r.until("rename", r.hasName)
	r.line("two")
	r.must(os.Rename(r.path, r.path+".2")) // create
	made, err := os.OpenFile(r.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	r.must(err)
	r.must(made.Close())
	r.until("create", r.hasName)
	r.line("three")
	r.must(os.WriteFile(r.path+".new", nil, 0o600))
	r.must(os.Rename(r.path+".new", r.path))
	r.until("replace", r.hasName)
	r.line("four")
	r.must(os.Remove(r.path))
	r.until("remove", r.hasName)
	r.line("five")
	r.must(r.Close())
	r.want(r.path+".1", "one\n")
	r.want(r.path+".2", "two\n")
	r.want(r.path, "five\n")
	if st, err := os.Stat(r.path + ".2"); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// logrotate's order: the new file is there at once, and is taken as it is, not made
// before it comes.
func TestWatchWaitsForTheNewFile(t *testing.T) {
	r := openWatched(t, Options{}, time.Hour)
	r.line("one")
	r.must(os.Rename(r.path, r.path+".1"))
	r.line("still there")
	made, err := os.OpenFile(r.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatalf("the writer was faster: %v", err)
	}
	r.must(made.Close())
	r.until("create", r.hasName)
	r.line("two")
	r.must(r.Close())
	r.want(r.path+".1", "one\nstill there\n")
	r.want(r.path, "two\n")
}

// A new file that is not for this process yet is taken when it is: until then lines go
// to the one before, and that is said once.
func TestWatchTriesAgain(t *testing.T) {
	r := openWatched(t, Options{}, 10*time.Millisecond)
	r.line("one")
	r.must(os.Rename(r.path, r.path+".1"))
	r.must(os.Mkdir(r.path, 0o700)) // as good as a file of another owner, for root too
	r.until("said", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Contains(r.said, "lines go to the file that had the name before")
	})
	r.line("two")
	r.must(os.Remove(r.path))
	r.must(os.WriteFile(r.path, nil, 0o600))
	r.until("create", r.hasName)
	r.line("three")
	r.must(r.Close())
	r.want(r.path+".1", "one\ntwo\n")
	r.want(r.path, "three\n")
	if n := strings.Count(r.said, "lines go to"); n != 1 {
		t.Errorf("said %d times: %s", n, r.said)
	}
}

// The writer's own rotations are no news to it.
func TestWatchAndRotate(t *testing.T) {
	r := openWatched(t, Options{Rotate: Rotation{Size: 10, Compression: Plain}}, time.Hour)
	for i := range 20 {
		r.line(fmt.Sprintf("line %02d", i))
	}
	r.until("name", r.hasName)
	r.must(os.Rename(r.path, r.path+".mine"))
	r.must(os.WriteFile(r.path, nil, 0o600))
	r.until("create", r.hasName)
	r.line("last")
	r.must(r.Close())
	if st := r.Stats(); st.Rotations != 19 {
		t.Errorf("%+v", st)
	}
	r.want(r.path+".mine", "line 19\n")
	r.want(r.path, "last\n")
}

// logrotate's copytruncate under a writer: no NULs, and no line is lost of those that
// come before the copy and after the truncation, which is all that a copy can have.
func TestCopyTruncate(t *testing.T) {
	for _, watch := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "log")
		w, err := Open(path, Options{Watch: watch, Torn: Spaces})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		copied := ""
		for round := range 20 {
			for i := range 50 {
				want = append(want, fmt.Sprintf("%d.%d %s\n", round, i, strings.Repeat("x", i)))
				if _, err := w.Write([]byte(want[len(want)-1])); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if copied += string(b); os.Truncate(path, 0) != nil {
				t.Fatal("truncate")
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if got := slices.Collect(strings.Lines(copied)); !slices.Equal(got, want) {
			t.Errorf("%d lines, want %d", len(got), len(want))
		}
	}
}

// A process that lives for a few lines makes no inotify instance, whose end the kernel
// takes 20 ms for; what is done to the name before the watch begins is noticed when it
// does.
func TestWatchBeginsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.o.Watch = true
	w.startWatch(time.Hour, time.Hour)
	if err := w.Close(); err != nil { // it waits for the goroutine, and not for the hour
		t.Error(err)
	}
	if w.watcher.Watch != nil {
		t.Error("an inotify instance was made")
	}
	r := &watched{t: t, path: path}
	if r.Writer, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.line("one")
	r.must(os.Rename(path, path+".1"))
	r.must(os.WriteFile(path, nil, 0o600))
	r.o.Watch = true
	r.startWatch(time.Millisecond, time.Hour)
	r.until("rename", r.hasName)
	r.line("two")
	r.want(path+".1", "one\n")
	r.want(path, "two\n")
}
