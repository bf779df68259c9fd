package journal

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// wFollow starts the real journalctl -f on a directory and sends its lines.
func wFollow(t *testing.T, dir string, args ...string) <-chan string {
	t.Helper()
	cmd := exec.Command(wNeedTool(t, "journalctl"), append([]string{"-D", dir, "-m", "-f", "-n", "all", "-o", "cat"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1<<16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
		if s := strings.TrimSpace(stderr.String()); s != "" {
			t.Errorf("journalctl -f: %s", s)
		}
	})
	return lines
}

// wExpect takes lines until the last one that is wanted, and wants exactly
// those, in their order.
func wExpect(t *testing.T, lines <-chan string, want []string) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for i, w := range want {
		select {
		case got, ok := <-lines:
			if !ok {
				t.Fatalf("journalctl ended after %d of %d lines", i, len(want))
			}
			if got != w {
				t.Fatalf("line %d: got %q, want %q", i, got, w)
			}
		case <-timeout:
			t.Fatalf("%d of %d lines within 30 s; %q is missing", i, len(want), w)
		}
	}
}

// A real journalctl -f sees every entry of bursts once and in order, also with
// matches, the last ones before a quiet spell included, and a lone one.
func TestWriterFeedsJournalctlFollow(t *testing.T) {
	tests := []struct {
		name string
		args []string
		sees func(i int) bool
	}{
		{"all", nil, func(int) bool { return true }},
		{"or match", []string{"K=1", "+", "J=2"}, func(i int) bool { return i%3 == 1 || i%5 == 2 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w, err := Create(filepath.Join(dir, "system.journal"), Options{BootID: entry.ID{1}})
			if err != nil {
				t.Fatal(err)
			}
			lines := wFollow(t, dir, tt.args...)
			var want []string
			n := 0
			add := func(count int) {
				for range count {
					m := fmt.Sprintf("message %d", n)
					e := wFields("MESSAGE="+m, fmt.Sprintf("K=%d", n%3), fmt.Sprintf("J=%d", n%5), fmt.Sprintf("N=%d", n))
					if _, _, err := w.Append(t.Context(), []entry.Entry{e}); err != nil {
						t.Fatal(err)
					}
					if tt.sees(n) {
						want = append(want, m)
					}
					n++
				}
			}
			for _, burst := range []int{1, 2, 3000, 1, 500, 2000} {
				add(burst)
				for !tt.sees(n - 1) {
					add(1)
				}
				wExpect(t, lines, want)
				want = want[:0]
			}
			// Several bursts inside one window, none waited for.
			for range 20 {
				add(200)
				if err := w.Wait(t.Context(), Pos(n), settle.Appended); err != nil {
					t.Fatal(err)
				}
			}
			wExpect(t, lines, want)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// wNumbers are those of the messages of wGen in what journalctl has exported.
func wNumbers(t *testing.T, out []byte) (numbers []int) {
	t.Helper()
	for line := range bytes.Lines(out) {
		var n int
		if k, _ := fmt.Sscanf(string(line), "MESSAGE=message %d", &n); k == 1 {
			numbers = append(numbers, n)
		}
	}
	if n := bytes.Count(out, []byte("__CURSOR=")); n != len(numbers) {
		t.Errorf("%d entries, %d messages", n, len(numbers))
	}
	for i, n := range numbers {
		if n != numbers[0]+i {
			t.Fatalf("message %d is in place %d behind message %d", n, i, numbers[0])
		}
	}
	return numbers
}

// While entries are written, journalctl -o export and -n never fail, never show
// half of one, and show each once and in order.
func TestWriterIsReadWhileItWrites(t *testing.T) {
	wNeedTool(t, "journalctl")
	path := filepath.Join(t.TempDir(), "a.journal")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// A fast writer would make each look longer than the one before.
	const perLook = 3000
	grow := func() { // as who follows NeedGrow: space that is told of as it is made can make journalctl fail
		select {
		case <-w.NeedGrow():
			if err := w.GrowAhead(); err != nil {
				t.Error(err)
			}
		default:
		}
	}
	stop, done := make(chan struct{}), make(chan int)
	look := make(chan struct{}, 4)
	go func() {
		g := newWGen(9)
		n, until := 0, 0
		for {
			if n >= until {
				select {
				case <-stop:
					done <- n
					return
				case <-look:
					until += perLook
				}
			}
			_, k, err := w.Append(t.Context(), g.batch(1+g.r.IntN(20)))
			n += k
			if err != nil { // full
				done <- n
				return
			}
			if w.Wait(t.Context(), Pos(n), settle.Appended) != nil {
				done <- n
				return
			}
			grow()
		}
	}()
	last := 0
	for range 4 {
		look <- struct{}{}
		tail := wNumbers(t, wExport(t, path, "-n", "20"))
		all := wNumbers(t, wExport(t, path))
		if len(all) > 0 && all[0] != 1 || len(all) < last {
			t.Errorf("%d entries from number %d, %d before", len(all), all[0], last)
		}
		if len(tail) > 20 || len(tail) < min(20, last) || len(tail) > 0 && tail[len(tail)-1] > len(all) {
			t.Errorf("-n 20 shows %d of %d entries", tail, len(all))
		}
		last = len(all)
	}
	close(stop)
	total := <-done
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(wNumbers(t, wExport(t, path))); n != total {
		t.Errorf("%d entries at the end, want %d", n, total)
	}
}

// A lone append raises IN_MODIFY by itself, at once, and has then all its links.
func TestWriterNotifiesOfALoneAppendAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.journal")
	w, err := Create(path, Options{Index: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	in := os.NewFile(uintptr(fd), "inotify")
	defer in.Close()
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Append(t.Context(), []entry.Entry{wFields("A=1", "B=2")}); err != nil {
		t.Fatal(err)
	}
	// The index window lasts an hour: what is seen comes with the first write.
	b := make([]byte, 4096)
	for {
		if _, err := in.Read(b); err != nil { // blocks until there is an event
			t.Fatal(err)
		}
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := f.Header().NEntries
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			break
		}
	}
	wVerifyFile(t, path)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func wVerifyFile(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wVerifyBytes(t, b)
}
