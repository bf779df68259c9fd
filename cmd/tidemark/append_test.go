package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

func TestStampForms(t *testing.T) {
	at := time.Date(2026, 11, 30, 10, 15, 0, 1002003, time.FixedZone("", 3600))
	for _, tt := range []struct{ form, want string }{
		{"iso", "2026-11-30T09:15:00.001002Z "},
		{"tai64n", "@400000006b0d3e9e000f4a13 "}, // tai64nlocal: 2026-11-30 09:15:00.001002003
		{"unix", "1796030100.001002 "},
	} {
		form, err := parseStampForm(tt.form)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(form(nil, at)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.form, got, tt.want)
		}
	}
}

// Each line has its prefix, however it is cut on the way in and out.
func TestPrefixer(t *testing.T) {
	const text = "one\n\nthree\nfour"
	stamp := func(b []byte, _ time.Time) []byte { return append(b, "TIME "...) }
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
	} {
		for _, size := range []int{1, 2, 7, 100} {
			var got bytes.Buffer
			r := newPrefixer(cut(strings.NewReader(text)), stamp, "E: ")
			if _, err := io.CopyBuffer(&got, struct{ io.Reader }{r}, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if want := "TIME E: one\nTIME E: \nTIME E: three\nTIME E: four"; got.String() != want {
				t.Errorf("%s, %d bytes at a time: %q, want %q", name, size, got.String(), want)
			}
		}
	}
}

// pipe is a pipe whose ends are closed with the test.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// blocking is a pipe as a shell hands it on: without deadlines.
func blocking(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := blockingPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if r.SetReadDeadline(time.Time{}) == nil {
		t.Fatal("it has deadlines")
	}
	return r, w
}

// socketPair is the same of sockets that block, which have no deadlines.
func socketPair(t *testing.T) (r, w *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var f [2]*os.File
	for i, fd := range fds {
		f[i] = os.NewFile(uintptr(fd), "socket")
		t.Cleanup(func() { f[i].Close() })
	}
	return f[0], f[1]
}

// inputs are what lines come from.
var inputs = map[string]func(*testing.T) (r, w *os.File){"pipe": pipe, "pipe that blocks": blocking, "socket": socketPair}

// pipeWith returns the reader of an input with text in it, the other end, and what stops
// the reader.
func pipeWith(t *testing.T, ends func(*testing.T) (r, w *os.File), text string) (r *pipeReader, out *os.File, stop func()) {
	t.Helper()
	in, out := ends(t)
	ctx, stop := context.WithCancel(t.Context())
	r, err := newPipeReader(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	if _, err := io.WriteString(out, text); err != nil {
		t.Fatal(err)
	}
	return r, out, stop
}

// A stop ends a read that waits.
func TestPipeReaderStops(t *testing.T) {
	for name, ends := range inputs {
		t.Run(name, func(t *testing.T) {
			r, _, stop := pipeWith(t, ends, "first")
			b := make([]byte, 100)
			if n, err := r.Read(b); string(b[:n]) != "first" || err != nil {
				t.Fatalf("%q, %v", b[:n], err)
			}
			got := make(chan error)
			go func() {
				_, err := r.Read(b)
				got <- err
			}()
			stop()
			if err := <-got; !errors.Is(err, io.EOF) {
				t.Errorf("a read that waits: %v", err)
			}
		})
	}
}

// A stop takes what is in the pipe before, and no more.
func TestPipeReaderTakesWhatIsLeft(t *testing.T) {
	for name, ends := range inputs {
		if name == "socket" {
			continue // it cannot tell what is left
		}
		t.Run(name, func(t *testing.T) {
			r, out, stop := pipeWith(t, ends, "there before")
			stop()
			b := make([]byte, 5)
			n, err := r.Read(b)
			if string(b[:n]) != "there" || err != nil {
				t.Errorf("%q, %v", b[:n], err)
			}
			if _, err := io.WriteString(out, ", and after"); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(r); string(rest) != " before" || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

// What comes while a read waits is read, and the end is told.
func TestPipeReaderWaits(t *testing.T) {
	for name, ends := range inputs {
		t.Run(name, func(t *testing.T) {
			in, out := ends(t)
			r, err := newPipeReader(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			got := make(chan string)
			go func() {
				b, err := io.ReadAll(r)
				if err != nil {
					t.Error(err)
				}
				got <- string(b)
			}()
			for _, text := range []string{"one\n", "two\n", "rest"} {
				if _, err := io.WriteString(out, text); err != nil {
					t.Fatal(err)
				}
			}
			out.Close()
			if text := <-got; text != "one\ntwo\nrest" {
				t.Errorf("%q", text)
			}
		})
	}
}

// A sender's write wakes nobody who does not wait for it: a pipe that Go's poller watches
// would have each write wake a thread.
func TestPipeReaderIsNotPolled(t *testing.T) {
	in, out := blocking(t)
	r, err := newPipeReader(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if r.wake == nil || r.size == 0 {
		t.Errorf("read with deadlines: %t, size %d", r.wake == nil, r.size)
	}
	if _, err := io.WriteString(out, "line\n"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := r.readThere(b); n != 5 || err != nil {
		t.Errorf("what is there: %d, %v", n, err)
	}
	if n, err := r.readThere(b); n > 0 || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("what is not there: %d, %v", n, err)
	}
}

// In a flood lines gather before they are read, for a bounded time; none is left behind.
func TestPipeReaderGathers(t *testing.T) {
	in, out := pipe(t)
	r, err := newPipeReader(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	b := make([]byte, 4096)
	for range 100 {
		if _, err := io.WriteString(out, "line\n"); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Read(b); string(b[:n]) != "line\n" || err != nil {
			t.Fatalf("%q, %v", b[:n], err)
		}
	}
	if r.size == 0 {
		t.Error("it is not known to be a pipe")
	}
	r.rate, r.last = 1, time.Now() // so slow that it would take minutes
	r.gather(len(b))               // and yet it comes back
	out.Close()
	if n, err := r.Read(b); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// A shared log is opened as by a process of a few lines, for what it asks of a network
// file system; one that is rotated has its second descriptor from the beginning.
func TestAppendOpensOnce(t *testing.T) {
	for size, want := range map[string]bool{"": true, "10M": false} {
		o := appendOptions{sync: "auto", lock: "auto", lockTimeout: time.Second, rotateSize: size, torn: "comment", maxLine: "1M"}
		l, err := o.options("log", nil)
		if err != nil || l.Trailing != want || l.Shared != want {
			t.Errorf("--rotate-size %q: Trailing %t, Shared %t, %v", size, l.Trailing, l.Shared, err)
		}
	}
}

// The lock of a log that is rotated lies beside what a link leads to.
func TestOwnByWayOfALink(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "logs"), 0o700), os.WriteFile(filepath.Join(dir, "logs", "log"), nil, 0o600),
		os.Symlink(filepath.Join("logs", "log"), filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	release, err := own(filepath.Join(dir, "link"), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join("logs", "log"), "link"} {
		if _, err := own(filepath.Join(dir, name), false); err == nil {
			t.Errorf("%s is for others, too", name)
		}
	}
	release()
	if _, err := own(filepath.Join(dir, "link"), false); err != nil {
		t.Error(err)
	}
}
