package linelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// unpacked is what a file holds, uncompressed if it has the name of such a one.
func unpacked(t *testing.T, name string, b []byte) []byte {
	t.Helper()
	if !strings.HasSuffix(name, suffix) {
		return b
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	out, err := d.DecodeAll(b, nil)
	if err != nil {
		t.Errorf("%s, under its final name: %v", name, err)
	}
	return out
}

// inOrder are the lines of all archives, and then of the log.
func inOrder(t *testing.T, files map[string][]string, archives ...string) (lines []string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(files))
	if want := slices.Sorted(slices.Values(append([]string{"access.log"}, archives...))); !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q", names, want)
	}
	for _, name := range append(archives, "access.log") {
		lines = append(lines, files[name]...)
	}
	return lines
}

// By size: no file is larger, no line is in two, the names tell the order, also
// within a second; what was rotated is compressed.
func TestRotateBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Size: 100}}, nil)
		var want []string
		for i := range 12 {
			line := fmt.Sprintf("%02d %s", i, strings.Repeat("x", 30))
			want = append(want, line)
			r.put(line + "\n")
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		got := inOrder(t, contents(t, r.fs),
			"access.log.20000101T000000.zst", "access.log.20000101T000000_0002.zst", "access.log.20000101T000001.zst",
			"access.log.20000101T000001_0002.zst", "access.log.20000101T000002.zst")
		if !slices.Equal(got, want) {
			t.Errorf("the files have %q", got)
		}
		for name, lines := range contents(t, r.fs) {
			if len(lines) != 2 {
				t.Errorf("%s has %d lines of 34 bytes, want 2", name, len(lines))
			}
		}
		r.close()
		if st := r.Stats(); st.Rotations != 5 || st.Compressed != 5 || st.RotateErrors != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A line that is longer than Size has a file of its own, whole.
func TestRotateLongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Size: 100, Compression: Plain}}, nil)
		long := strings.Repeat("y", 250)
		r.put("one\n" + long + "\nthree\n")
		synctest.Wait()
		got := inOrder(t, contents(t, r.fs), "access.log.20000101T000000", "access.log.20000101T000000_0002")
		if !slices.Equal(got, []string{"one", long, "three"}) {
			t.Errorf("the files have %q", got)
		}
		r.close()
	})
}

// By age: it counts from the first line of the file, an idle log is left alone, and
// a writer that begins anew goes on with the age of what is there.
func TestRotateByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Age: time.Hour, Compression: Plain}}, nil)
		time.Sleep(10 * time.Hour)
		r.put("one\n")
		time.Sleep(59 * time.Minute)
		r.put("two\n")
		time.Sleep(30 * time.Hour)
		if st := r.Stats(); st.Rotations != 0 {
			t.Errorf("an idle log: %+v", st)
		}
		r.put("three\n")
		time.Sleep(40 * time.Minute)
		r.close()
		w, err := Open(logPath, r.o)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(21 * time.Minute)
		if _, err := w.Append(context.Background(), []byte("four")); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		got := inOrder(t, contents(t, r.fs), "access.log.20000102T165900", "access.log.20000102T180000")
		if !slices.Equal(got, []string{"one", "two", "three", "four"}) {
			t.Errorf("the files have %q", got)
		}
	})
}

// Keep counts files, whichever writer has made them; what is no archive is left alone.
func TestRotateKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		for round := range 3 {
			fs := r
			r = newRig(t, Options{Rotate: Rotation{Size: 10, Keep: 3}}, func(new *crashfs.FS) {
				for _, name := range []string{"access.log.old", "access.log.1", "access.log.20000101T000000~", "other.log.20000101T000000"} {
					if f, err := new.OpenFile("/var/log/"+name, 0x42, 0o600); err != nil || f.Close() != nil {
						t.Fatal(err)
					}
				}
			})
			if fs != nil {
				r.close()
				o := r.o
				o.FS, r.fs = fs.fs, fs.fs
				w, err := Open(logPath, o)
				if err != nil {
					t.Fatal(err)
				}
				r.Writer = w
			}
			for i := range 4 {
				r.put(fmt.Sprintf("line %d.%d\n", round, i))
				time.Sleep(time.Second)
			}
			r.close()
		}
		files := contents(t, r.fs)
		for _, name := range []string{"access.log.old", "access.log.1", "access.log.20000101T000000~", "other.log.20000101T000000"} {
			if _, ok := files[name]; !ok {
				t.Errorf("%s is gone", name)
			}
			delete(files, name)
		}
		got := inOrder(t, files, "access.log.20000101T000009.zst", "access.log.20000101T000010.zst", "access.log.20000101T000011.zst")
		if !slices.Equal(got, []string{"line 2.0", "line 2.1", "line 2.2", "line 2.3"}) {
			t.Errorf("the files have %q", got)
		}
	})
}

// As logrotate names them.
func TestRotateNumbered(t *testing.T) {
	for _, c := range []Compression{Zstd, Plain} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{Rotate: Rotation{Size: 10, Keep: 3, Naming: Numbered, Compression: c}}, nil)
			for i := range 6 {
				r.put(fmt.Sprintf("line %d\n", i))
				time.Sleep(time.Second)
			}
			r.close()
			end := map[Compression]string{Zstd: ".zst"}[c]
			got := inOrder(t, contents(t, r.fs), "access.log.3"+end, "access.log.2"+end, "access.log.1"+end)
			if !slices.Equal(got, []string{"line 2", "line 3", "line 4", "line 5"}) {
				t.Errorf("the files have %q", got)
			}
		})
	}
}

// Nothing that is done with the file before holds up the next lines: not its sync
// and not its compression, and so not its removal.
func TestRotateWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Size: 10, Keep: 1}}, nil)
		held, gate := map[string]bool{}, make(chan struct{})
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" || strings.HasSuffix(op.Path, ".part") {
				r.mu.Lock()
				held[op.Name] = true
				r.mu.Unlock()
				<-gate
			}
			return nil
		})
		var want []string
		for i := range 20 {
			if i == 5 { // the first sync of an archive ends, and its compression begins
				gate <- struct{}{}
			}
			want = append(want, fmt.Sprintf("line %02d", i))
			r.append1(want[i])
			r.appended()
		}
		synctest.Wait()
		if st := r.Stats(); st.Rotations != 19 || st.Buffered != 0 || st.Compressed != 0 {
			t.Errorf("%+v", st)
		}
		close(gate)
		r.close()
		if !held["sync"] || !held["open"] {
			t.Errorf("held: %v", held)
		}
		got := inOrder(t, contents(t, r.fs), "access.log.20000101T000000_0019.zst")
		if !slices.Equal(got, want[18:]) {
			t.Errorf("the files have %q", got)
		}
	})
}

// Files that are not synced hold descriptors: while there are too many, the log grows.
func TestRotateBoundsUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Size: 10, Compression: Plain}}, nil)
		gate := make(chan struct{})
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" {
				<-gate
			}
			return nil
		})
		for range maxUnsynced + 10 {
			r.append1("12345678")
			r.appended()
		}
		if st := r.Stats(); st.Rotations != maxUnsynced || st.RotateErrors != 0 {
			t.Errorf("%+v", st)
		}
		close(gate)
		synctest.Wait()
		r.append1("last")
		r.close()
		r.want("last\n")
	})
}

// A position in a file that was rotated is synced with that file, and stays so when
// it is compressed.
func TestRotateKeepsPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Size: 10}}, nil)
		h := &history{synced: map[string]bool{}}
		var all []Pos
		for i := range 5 {
			line := fmt.Sprintf("line %d", i)
			h.accepted = append(h.accepted, line)
			all = append(all, r.append1(line))
		}
		for i, pos := range all {
			if err := r.Wait(context.Background(), pos, settle.Synced); err != nil {
				t.Error(err)
			}
			h.synced[h.accepted[i]] = true
			h.powerCuts(t, r.fs)
		}
		r.close()
		h.powerCuts(t, r.fs)
		h.check(t, contents(t, r.fs), 0, true)
	})
}

// A file whose sync fails after it was rotated is kept aside: not compressed, not
// counted by Keep, and the log takes over what it has.
func TestRotateAndFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Size: 10, Keep: 1}}, nil)
		failed := false
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" && !failed {
				failed = true
				return syscall.EIO
			}
			return nil
		})
		for i := range 5 {
			r.put(fmt.Sprintf("line %d\n", i))
			time.Sleep(time.Minute)
		}
		r.close()
		files := contents(t, r.fs)
		if st := r.Stats(); st.SetAside != 1 || st.Lost != 0 {
			t.Errorf("%+v", st)
		}
		if got := files["access.log.20000101T000100~"]; !slices.Equal(got, []string{"line 0"}) {
			t.Errorf("the files are %v", files)
		}
	})
}

// What cannot be renamed, opened, compressed or removed is said and counted; the
// log goes on, and the next rotation makes up for it.
func TestRotateFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails func(op crashfs.Op) bool
		files []string // after one rotation
	}{
		{"rename", func(op crashfs.Op) bool { return op.Name == "rename" && op.Path == logPath }, nil},
		{"open", func(op crashfs.Op) bool { return op.Name == "open" && op.Path == logPath }, nil},
		{"compress", func(op crashfs.Op) bool { return op.Name == "write" && strings.HasSuffix(op.Path, ".part") }, []string{"access.log.20000101T000001"}},
		{"remove", func(op crashfs.Op) bool { return op.Name == "remove" }, []string{"access.log.20000101T000001", "access.log.20000101T000001.zst"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Rotate: Rotation{Size: 10}}, nil)
				fail := true
				r.fs.Hook(func(_ int, op crashfs.Op) error {
					if fail && tt.fails(op) {
						return syscall.EACCES
					}
					return nil
				})
				want := []string{}
				put := func(n int) {
					for range n {
						want = append(want, fmt.Sprintf("line %d", len(want)))
						r.put(want[len(want)-1] + "\n")
						time.Sleep(time.Second)
					}
				}
				put(2)
				got := inOrder(t, contents(t, r.fs), tt.files...)
				if tt.name == "remove" { // for a while it is there in both forms
					got = slices.Compact(got)
				}
				if !slices.Equal(got, want) {
					t.Errorf("the files have %q", got)
				}
				if st := r.Stats(); st.RotateErrors == 0 || st.Buffered != 0 || !strings.Contains(r.words(), "permission denied") {
					t.Errorf("said %q, %+v", r.words(), st)
				}
				fail = false
				put(3)
				r.close()
				files := contents(t, r.fs)
				h := &history{accepted: want}
				h.check(t, files, 0, true)
				for name := range files {
					if name != "access.log" && !strings.HasSuffix(name, suffix) {
						t.Errorf("%s is left", name)
					}
				}
			})
		})
	}
}

// Each call fails in turn, in each way, over rotations with all that follows them.
func TestRotateFaultLoop(t *testing.T) {
	for _, naming := range []Naming{ByTime, Numbered} {
		kinds := []crashfs.Kind{crashfs.NotDone, crashfs.DoneButFailed, crashfs.Short}
		if naming == ByTime {
			kinds = kinds[:1] // the rest of it is a part of what Numbered does
		}
		for _, kind := range kinds {
			n, done := 1, false
			for ; !done && !t.Failed(); n++ {
				synctest.Test(t, func(t *testing.T) { done = rotateFaultRun(t, naming, kind, n) })
			}
			if n < 25 {
				t.Errorf("only %d calls", n)
			}
		}
	}
}

// rotateFaultRun tells whether there was no call n.
func rotateFaultRun(t *testing.T, naming Naming, kind crashfs.Kind, n int) (none bool) {
	fs := crashfs.New(uint64(n))
	if err := fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	fs.FailAt(n, kind, syscall.EIO)
	w, err := Open(logPath, Options{FS: fs, Rotate: Rotation{Size: 100, Naming: naming}})
	if err != nil {
		return false
	}
	h := &history{synced: map[string]bool{}}
	for i := range 6 {
		line := fmt.Sprintf("%02d %s", i, strings.Repeat("x", 40))
		h.accepted = append(h.accepted, line)
		pos, err := w.Append(context.Background(), []byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 && w.Wait(context.Background(), pos, settle.Synced) == nil {
			for _, line := range h.accepted {
				h.synced[line] = true
			}
			h.powerCuts(t, fs)
		}
	}
	if err := w.Close(); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close: %v", err)
	}
	if fs.Calls() < n {
		return true
	}
	h.powerCuts(t, fs)
	again := w.Stats().Again
	if w, err = Open(logPath, Options{FS: fs, Rotate: Rotation{Size: 100, Naming: naming}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	files := contents(t, fs)
	h.check(t, files, again, true)
	for name := range files {
		if name != "access.log" && !strings.HasSuffix(name, suffix) && !strings.HasSuffix(name, "~") {
			t.Errorf("%s is left", name)
		}
	}
	if t.Failed() {
		t.Fatalf("call %d, kind %d, naming %d", n, kind, naming)
	}
	return false
}

// TestRotateCrashAtEachCall kills the writer in call 1, 2, 3 … of a run with rotations:
// no line that was appended is lost or twice, nothing that is not whole has a final
// name, and the next writer leaves no trace of it.
func TestRotateCrashAtEachCall(t *testing.T) {
	for _, naming := range []Naming{ByTime, Numbered} {
		n, done := 1, false
		for ; !done && !t.Failed(); n++ {
			synctest.Test(t, func(t *testing.T) { done = rotateCrashRun(t, naming, n) })
		}
		if n < 25 {
			t.Errorf("only %d calls", n)
		}
	}
}

// rotateCrashRun tells whether there was no call n.
func rotateCrashRun(t *testing.T, naming Naming, n int) (none bool) {
	fs := crashfs.New(uint64(n))
	if err := fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	fs.StopAt(n)
	o := Options{FS: fs, Rotate: Rotation{Size: 100, Naming: naming}}
	w, err := Open(logPath, o)
	if err != nil {
		return false
	}
	h := &history{synced: map[string]bool{}}
	synced := &history{synced: map[string]bool{}}
	for i := range 6 {
		line := fmt.Sprintf("%02d %s", i, strings.Repeat("x", 40))
		h.accepted = append(h.accepted, line)
		pos, err := w.Append(context.Background(), []byte(line))
		if err != nil {
			t.Fatal(err)
		}
		level := []settle.Level{settle.Appended, settle.Synced}[i%2]
		if w.Wait(context.Background(), pos, level) == nil {
			for _, line := range h.accepted {
				h.synced[line] = true
				if level == settle.Synced {
					synced.synced[line] = true
				}
			}
		}
	}
	w.Close() // it was killed
	none = fs.Calls() < n
	left := fs.Survivors()
	rotateAfter(t, left, o, h)
	synced.accepted = h.accepted
	for seed := range uint64(2) {
		rotateAfter(t, fs.PowerCut(seed), o, synced)
	}
	if t.Failed() {
		t.Fatalf("call %d, naming %d", n, naming)
	}
	return none
}

// rotateAfter opens and closes what a crash has left, and holds it against h.
func rotateAfter(t *testing.T, fs *crashfs.FS, o Options, h *history) {
	t.Helper()
	o.FS = fs
	w, err := Open(logPath, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if st := w.Stats(); st.RotateErrors > 0 {
		t.Errorf("%+v", st)
	}
	files := contents(t, fs)
	for name := range files {
		if name != "access.log" && !strings.HasSuffix(name, suffix) {
			t.Errorf("%s is left", name)
		}
		for i, line := range files[name] { // a page that was not synced may be all zeros
			files[name][i] = strings.TrimLeft(line, "\x00")
		}
		files[name] = slices.DeleteFunc(files[name], func(line string) bool { return line == "" || line[0] == '#' })
	}
	h.check(t, files, 0, false)
}

// A pipe has no older files.
func TestRotateNeedsAFile(t *testing.T) {
	if _, err := Open("/dev/null", Options{Rotate: Rotation{Size: 1}}); !errors.Is(err, ErrNoRotation) {
		t.Errorf("Open = %v", err)
	}
}
