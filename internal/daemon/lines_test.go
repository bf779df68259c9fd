package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// linesVar makes the test binary a client of AppendLines: its value is a lineClient,
// in JSON.
const linesVar = "TIDEMARK_TEST_LINES"

// lineClient is a process that appends lines for as long as it lives, and prints the
// number of each batch when it is in the file.
type lineClient struct{ Socket, Path, ID string }

func (c lineClient) run() error {
	o := linelog.Options{Trailing: crc32.ChecksumIEEE([]byte(c.ID))%2 == 0} // some pass one descriptor
	w, err := linelog.Dial(context.Background(), c.Socket, c.Path, o)
	if err != nil {
		return err
	}
	for n := 0; ; n += batchLines {
		if err := appendBatch(w, c.ID, n); err != nil {
			return err
		}
		fmt.Println(n + batchLines)
	}
}

// batchLines is how many lines are appended with one call: more than a page has.
const batchLines = 100

// appendBatch appends lines from number n on and waits for them.
func appendBatch(w *linelog.Writer, id string, n int) error {
	var b []byte
	for k := range batchLines {
		b = append(b, checked(id, n+k)...)
	}
	pos, err := w.Append(context.Background(), b)
	if err != nil {
		return err
	}
	return w.Wait(context.Background(), pos, settle.Appended)
}

// checked is a line that says who wrote it, its number, and whether it is whole.
func checked(id string, n int) string {
	text := fmt.Sprintf("%s %d %s", id, n, strings.Repeat("x", n%90))
	return fmt.Sprintf("%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// readChecked returns how often each line of each client is in the file, in order.
// Any other line is torn: those that a repair has marked are left out.
func readChecked(t *testing.T, path string) map[string][]int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]int{}
	for line := range strings.Lines(string(b)) {
		var id string
		var n int
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%s %d", &id, &n); err != nil || line != checked(id, n) {
			t.Errorf("torn line %q", line)
			continue
		}
		seen[id] = append(seen[id], n)
	}
	return seen
}

func socketOf(p place) string { return filepath.Join(p.Run, config.ControlSocket) }

func dialLines(t *testing.T, p place, path string, o linelog.Options) *linelog.Writer {
	t.Helper()
	w, err := linelog.Dial(t.Context(), socketOf(p), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// TestDial: a Writer whose file the daemon writes does what any Writer does.
func TestDial(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	path := filepath.Join(t.TempDir(), "log")
	w := dialLines(t, p, path, linelog.Options{MaxLine: 20})
	fmt.Fprint(w, "first\nre")
	fmt.Fprint(w, "st\n\xff\n")
	s := w.Stream()
	fmt.Fprint(s, strings.Repeat("long", 6)+"\nend")
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := r.daemon.funnel.Stats(); st.Files != 1 || st.Clients != 1 || st.Lines != 5 || st.Syncs != 1 || st.Unsynced != 0 {
		t.Errorf("funnel: %+v", st)
	}
	if st := w.Stats(); st.Lines != 5 || st.Unsynced != 0 || st.Cut != 1 || st.Err != nil {
		t.Errorf("writer: %+v", st)
	}
	if err := errors.Join(os.Rename(path, path+".1"), w.Reopen()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path + ".1": "first\nrest\n\xff\nlonglonglonglong…\nlonglong\n", path: "end\n"} {
		b, err := os.ReadFile(name)
		if err != nil || string(b) != want {
			t.Errorf("%s has %q %v, want %q", filepath.Base(name), b, err, want)
		}
	}
	raw := command(t, p, control.MethodStatus)
	if want := `{"name":"funnel","reason":"lines","n":6}`; !strings.Contains(string(raw), want) {
		t.Errorf("the status lacks %s: %s", want, raw)
	}
	for _, want := range []string{"tidemark_funnel_lines_total 6\n", `tidemark_effect_duration_seconds_count{effect="sync",log="funnel"} `} {
		if page := get(t, url(r.lines)+"metrics"); !strings.Contains(page, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestDialOpensOnce: of short processes only the first opens the log a second time, for
// the daemon; when the daemon has closed it the next one does.
func TestDialOpensOnce(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() (n int) { // by the clients and the daemon, which is this process
		links, err := filepath.Glob("/proc/self/fd/*")
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && to == path {
				n++
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	brief := linelog.Options{Trailing: true, CloseUnsynced: true}
	// Two for the daemon and two of the first; then one each, and its second in the daemon,
	// which closes it when the client goes.
	for i, want := range []int{4, 6, 8} {
		w := dialLines(t, p, path, brief)
		fmt.Fprintln(w, i)
		if got := open(); got != want {
			t.Errorf("client %d: %d descriptors, want %d", i, got, want)
		}
		defer w.Close()
	}
	other := dialLines(t, p, path, linelog.Options{})
	fmt.Fprintln(other, "3")
	if err := other.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if st := r.daemon.funnel.Stats(); st.Files != 1 || st.Clients != 4 {
		t.Errorf("funnel: %+v", st)
	}
}

// TestDialSaysWhatIsWrong at once.
func TestDialSaysWhatIsWrong(t *testing.T) {
	p := newPlace(t)
	start(t, p)
	dir := t.TempDir()
	for _, tt := range []struct {
		socket, path string
		o            linelog.Options
		want         string
	}{
		{filepath.Join(dir, "nobody"), filepath.Join(dir, "a"), linelog.Options{}, "nobody: connect: no such file"},
		{socketOf(p), filepath.Join(dir, "no/dir"), linelog.Options{}, "no such file or directory"},
		{socketOf(p), os.DevNull, linelog.Options{}, "not a regular file"},
		{socketOf(p), filepath.Join(dir, "b"), linelog.Options{MaxLine: 9 << 20}, "MaxLine or Buffer above"},
		{socketOf(p), filepath.Join(dir, "c"), linelog.Options{Rotate: linelog.Rotation{Size: 1000}}, "rotate"},
	} {
		w, err := linelog.Dial(t.Context(), tt.socket, tt.path, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Dial(%s, %s) = %v %v, want %s", tt.socket, tt.path, w, err, tt.want)
		}
	}
}

// TestManyClients: every line of 64 clients, half of them by another name of the
// file, is there once, whole, in its order; acknowledged ones while all write.
func TestManyClients(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, path+".other"); err != nil {
		t.Fatal(err)
	}
	const clients, batches = 64, 10
	var all sync.WaitGroup
	for n := range clients {
		name := path
		if n%2 == 1 {
			name += ".other"
		}
		w := dialLines(t, p, name, linelog.Options{CloseUnsynced: n%8 != 0})
		all.Go(func() {
			for k := range batches {
				if err := appendBatch(w, fmt.Sprint("c", n), k*batchLines); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if st := r.daemon.funnel.Stats(); st.Files != 1 || st.Clients > clients {
		t.Errorf("%+v", st)
	}
	all.Wait()
	seen := readChecked(t, path)
	for n := range clients {
		got := seen[fmt.Sprint("c", n)]
		for k, number := range got {
			if k != number {
				t.Fatalf("client %d: line %d stands at place %d", n, number, k)
			}
		}
		if len(got) != batches*batchLines {
			t.Errorf("client %d has %d lines", n, len(got))
		}
	}
}

// killClients starts client processes, kills them when each has had some batches
// acknowledged, and returns how many lines were of each.
func killClients(t *testing.T, p place, path string, round, clients int) map[string]int {
	t.Helper()
	acked := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range clients {
		c := lineClient{socketOf(p), path, fmt.Sprintf("r%d.c%d", round, n)}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), linesVar+"="+string(b), "GOMAXPROCS=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			last, lines := 0, bufio.NewScanner(out)
			for k := 0; lines.Scan(); k++ {
				if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
					t.Errorf("client says %q", lines.Text())
				}
				if k == 3+n {
					_ = cmd.Process.Kill() // in the middle of the next call
				}
			}
			_ = cmd.Wait() // killed: that is its error
			mu.Lock()
			defer mu.Unlock()
			acked[c.ID] = last
		})
	}
	all.Wait()
	return acked
}

// TestClientsAreKilled in the middle of calls: nothing is torn, what was acknowledged
// is there, the rest in its order, and the daemon has let go of all of them.
func TestClientsAreKilled(t *testing.T) {
	rounds := 1
	if os.Getenv("TIDEMARK_FULL") != "" {
		rounds = 50
	}
	p := newPlace(t)
	r := start(t, p)
	path := filepath.Join(t.TempDir(), "log")
	acked := map[string]int{}
	for n := range rounds {
		for id, last := range killClients(t, p, path, n, 6) {
			acked[id] = last
		}
	}
	for r.daemon.funnel.Stats().Clients > 0 {
	}
	if err := r.stop(); err != nil { // writes what was taken
		t.Fatal(err)
	}
	seen := readChecked(t, path)
	for id, last := range acked {
		if last == 0 || len(seen[id]) < last {
			t.Errorf("client %s: %d lines of %d that were acknowledged", id, len(seen[id]), last)
		}
		for k, number := range seen[id] {
			if k != number {
				t.Fatalf("client %s: line %d stands at place %d", id, number, k)
			}
		}
	}
	if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "#") {
		t.Errorf("something was to be repaired (%v)", err)
	}
}

// TestDaemonIsKilled while clients append: what was acknowledged is there, once, what
// was not is told by an error, and is there at most once; the next daemon goes on.
func TestDaemonIsKilled(t *testing.T) {
	rounds := 2
	if os.Getenv("TIDEMARK_FULL") != "" {
		rounds = 100
	}
	p := newPlace(t)
	path := filepath.Join(t.TempDir(), "log")
	d := spawn(t, p)
	const clients = 4
	type outcome struct{ acked, unsure map[int]bool }
	results := make([]outcome, clients)
	progress := make(chan struct{}, clients*1000)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range clients {
		w := dialLines(t, p, path, linelog.Options{Say: func(text string) {
			if !strings.HasPrefix(text, "line log") {
				t.Errorf("said %q", text)
			}
		}})
		results[n] = outcome{map[int]bool{}, map[int]bool{}}
		all.Go(func() {
			for k := 0; ctx.Err() == nil; k += batchLines {
				err := appendBatch(w, fmt.Sprint("c", n), k)
				for err != nil && !errors.Is(err, linelog.ErrUnanswered) {
					err = w.Wait(context.Background(), w.Pos(), settle.Appended) // the lines wait for the next daemon
				}
				if err == nil {
					results[n].acked[k] = true
				} else {
					results[n].unsure[k] = true
				}
				select {
				case progress <- struct{}{}:
				default:
				}
			}
			if err := w.Close(); err != nil && !errors.Is(err, linelog.ErrUnanswered) {
				t.Error(err)
			}
		})
	}
	for range rounds {
		for range 20 {
			<-progress
		}
		if err := d.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = d.Wait() // killed: that is its error
		d = spawn(t, p)
		for len(progress) > 0 {
			<-progress
		}
	}
	for range 20 {
		<-progress
	}
	stop()
	all.Wait()
	seen := readChecked(t, path)
	unsure := 0
	for n, r := range results {
		count := map[int]int{}
		last := -1
		for _, number := range seen[fmt.Sprint("c", n)] {
			count[number]++
			if number < last {
				t.Errorf("client %d: line %d behind %d", n, number, last)
			}
			last = number
		}
		for k := range r.acked {
			for i := range batchLines {
				if count[k+i] != 1 {
					t.Fatalf("client %d: acknowledged line %d is there %d times", n, k+i, count[k+i])
				}
			}
		}
		for k := range r.unsure {
			unsure++
			for i := range batchLines {
				if count[k+i] > 1 {
					t.Fatalf("client %d: line %d is there %d times", n, k+i, count[k+i])
				}
			}
		}
	}
	t.Logf("batches without an answer: %d", unsure)
}

// TestSyncCoversTheDaemonBefore: lines that a daemon has written, and not synced, are
// synced by the next one, whose own they are not.
func TestSyncCoversTheDaemonBefore(t *testing.T) {
	p := newPlace(t)
	d := spawn(t, p)
	w := dialLines(t, p, filepath.Join(t.TempDir(), "log"), linelog.Options{})
	if err := appendBatch(w, "c", 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait() // killed: that is its error
	r := start(t, p)
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := r.daemon.funnel.Stats(); st.Syncs != 1 {
		t.Errorf("%d syncs: the answer was too early", st.Syncs)
	}
}

// TestStopWritesLines: what clients have brought is in the file, and synced, when the
// daemon has ended, and clients are told that it has.
func TestStopWritesLines(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	path := filepath.Join(t.TempDir(), "log")
	w := dialLines(t, p, path, linelog.Options{})
	if err := appendBatch(w, "c", 0); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if st := r.daemon.funnel.Stats(); st.Files != 0 || st.Unsynced != 0 || st.Syncs == 0 {
		t.Errorf("%+v", st)
	}
	fmt.Fprint(w, "one more\n")
	err := w.Close()
	if err == nil || !strings.Contains(err.Error(), "lines lost: 1 (9 bytes)") {
		t.Errorf("Close without a daemon: %v", err)
	}
	if n := len(readChecked(t, path)["c"]); n != batchLines {
		t.Errorf("%d lines", n)
	}
}
