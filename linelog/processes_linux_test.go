package linelog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/settle"
)

// process is what a process of a test does: it appends lines that tell who wrote them,
// which one it is and whether they are whole.
type process struct {
	Path   string
	ID     int
	Lines  int  // 0: many, and then it waits for its end
	Size   int  // of a line's text, about
	Batch  int  // lines per call; it waits for each call
	Owned  bool // it is the only one
	Lock   Lock
	Rotate Rotation
	Buffer int
	Reopen bool // it opens its path again after each call
	Short  int  // every so many writes keep one byte
	Fail   int  // every so many writes and repairs fail
}

// TestMain is a process of a test if it is told so, else it runs the tests.
func TestMain(m *testing.M) {
	text := os.Getenv("LINELOG_PROCESS")
	if text == "" {
		os.Exit(m.Run())
	}
	var p process
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// line appends line n of p to b.
func (p *process) line(b []byte, n int) []byte {
	begin := len(b)
	b = fmt.Appendf(b, "%d %d ", p.ID, n)
	for size := p.Size/2 + (n*7919+p.ID*104729)%(p.Size+1); size > 0; size -= 32 {
		b = append(b, "abcdefghijklmnopqrstuvwxyz012345"[:min(size, 32)]...)
	}
	return fmt.Appendf(b, " %08x\n", crc32.ChecksumIEEE(b[begin:]))
}

// run appends, and tells after each call on its output how many lines were
// acknowledged. Writes that fail are tried again; the lines stay in order.
func (p *process) run() error {
	w, err := Open(p.Path, Options{FS: &faulty{short: p.Short, fail: p.Fail}, Shared: !p.Owned, Lock: p.Lock, Rotate: p.Rotate, Buffer: p.Buffer, Window: -1})
	if err != nil {
		return err
	}
	// All is prepared, so that it writes most of the time.
	lines, endless := p.Lines, p.Lines == 0
	if endless {
		lines = max(p.Batch*8, 2000)
	}
	var calls [][]byte
	for n := 0; n < lines; {
		var call []byte
		for range p.Batch {
			call = p.line(call, n)
			n++
		}
		calls = append(calls, call)
	}
	for i, call := range calls {
		pos, err := w.Append(context.Background(), call)
		if err != nil {
			return err
		}
		for err := w.Wait(context.Background(), pos, settle.Appended); err != nil; err = w.Wait(context.Background(), pos, settle.Appended) {
			fmt.Println(err)
			time.Sleep(time.Millisecond)
		}
		fmt.Println((i + 1) * p.Batch)
		if p.Reopen {
			if err := w.Reopen(); err != nil {
				return err
			}
		}
	}
	if endless {
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until it is killed, or told to end
			return err
		}
	}
	return w.Close()
}

// running is a process that was started.
type running struct {
	*exec.Cmd
	acked  atomic.Int64 // lines that it was told to be there
	failed atomic.Int64 // errors that it was told instead
	in     io.Closer
	read   chan struct{} // closed when all it has said is read
}

// start starts p. dir is its descriptor 3.
func (p process) start(t *testing.T, dir *os.File) *running {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Cmd: exec.Command(os.Args[0]), read: make(chan struct{})}
	r.Env = append(os.Environ(), "LINELOG_PROCESS="+string(text))
	if dir != nil {
		r.ExtraFiles = []*os.File{dir}
	}
	r.Stderr = os.Stderr
	out, err := r.StdoutPipe()
	if err == nil {
		r.in, err = r.StdinPipe()
	}
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.read)
		for s := bufio.NewScanner(out); s.Scan(); {
			if n, err := strconv.ParseInt(s.Text(), 10, 64); err == nil {
				r.acked.Store(n)
			} else {
				r.failed.Add(1)
			}
		}
	}()
	return r
}

// reached waits until it was told that n lines are there, and does work meanwhile.
func (r *running) reached(t *testing.T, n int, work func()) {
	t.Helper()
	for r.acked.Load() < int64(n) {
		select {
		case <-r.read:
			if r.acked.Load() < int64(n) {
				t.Fatalf("a process has ended after %d of %d lines", r.acked.Load(), n)
			}
			return
		case <-time.After(time.Millisecond):
			work()
		}
	}
}

// end has it end, if it has not, and tells how.
func (r *running) end() error {
	err := r.in.Close()
	<-r.read
	return errors.Join(err, r.Wait())
}

// found is what is in a log.
type found struct {
	torn   []string
	lines  map[int]map[int]int // process, line: how often
	acked  map[int]int
	marks  int
	blank  int
	chaos  int // lines that do not follow the one before of the same process
	notice int
}

// whole takes a line of a process apart.
func whole(text string) (id, n int, ok bool) {
	var word string
	var sum uint32
	line, ended := strings.CutSuffix(text, "\n")
	k, err := fmt.Sscanf(line, "%d %d %s %x", &id, &n, &word, &sum)
	return id, n, ended && k == 4 && err == nil && crc32.ChecksumIEEE([]byte(line[:len(line)-9])) == sum
}

// examine looks at each line of a log.
func examine(t *testing.T, b []byte) found {
	t.Helper()
	f := found{lines: map[int]map[int]int{}}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		t.Errorf("a NUL at %d", i)
	}
	last := map[int]int{}
	for text := range strings.Lines(string(b)) {
		var id, n int
		switch line := strings.TrimSuffix(text, "\n"); {
		case line == "" && text != "":
			f.blank++
			continue
		case strings.HasPrefix(text, "# linelog"):
			f.notice++
			continue
		case strings.HasPrefix(text, "#") && text != line:
			f.marks++
			continue
		default:
			var ok bool
			if id, n, ok = whole(text); !ok {
				f.torn = append(f.torn, text)
				continue
			}
		}
		if f.lines[id] == nil {
			f.lines[id] = map[int]int{}
			last[id] = -1
		}
		f.lines[id][n]++
		if n != last[id]+1 {
			f.chaos++
		}
		last[id] = n
	}
	return f
}

// check wants no torn line, and of each process the first so many lines.
func (f *found) check(t *testing.T, want map[int]int, once bool) {
	t.Helper()
	if len(f.torn) > 0 {
		t.Errorf("%d torn lines, the first is %.300q", len(f.torn), f.torn[0])
	}
	for id, n := range want {
		lost, twice := 0, 0
		for i := range n {
			switch c := f.lines[id][i]; {
			case c == 0:
				lost++
			case c > 1:
				twice++
			}
		}
		if lost > 0 {
			t.Errorf("process %d: %d of %d acknowledged lines are lost", id, lost, n)
		}
		if once && twice > 0 {
			t.Errorf("process %d: %d lines are there twice", id, twice)
		}
	}
	if once && f.chaos > 0 {
		t.Errorf("%d lines out of order", f.chaos)
	}
}

// faulty is the machine's file system, but some writes fail.
type faulty struct {
	vfs.OS
	short, fail int
	appends     int
	any         atomic.Int64 // calls; what was rotated is compressed by another goroutine
}

func (f *faulty) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f}, nil
}

type faultyFile struct {
	vfs.File
	fs *faulty
}

// fails tells whether this call does.
func (f *faultyFile) fails() error {
	if n := f.fs.any.Add(1); f.fs.fail > 0 && n%int64(f.fs.fail) == 0 {
		return syscall.EIO
	}
	return nil
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fails(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) Append(p []byte) (int, int64, error) {
	if err := f.fails(); err != nil {
		return 0, 0, err
	}
	if f.fs.appends++; f.fs.short > 0 && f.fs.appends%f.fs.short == 0 && len(p) > 1 {
		n, end, err := f.File.Append(p[:1])
		if err == nil {
			err = io.ErrShortWrite
		}
		return n, end, err
	}
	return f.File.Append(p)
}

// together runs processes at a time until each has ended, and examines the log.
func together(t *testing.T, n int, p process) (f found, text []byte) {
	t.Helper()
	p.Path = filepath.Join(t.TempDir(), "log")
	all := make([]*running, n)
	for i := range n {
		p.ID = i
		all[i] = p.start(t, nil)
	}
	want := map[int]int{}
	for i, r := range all {
		if err := r.end(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		want[i] = p.Lines
	}
	text, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	f = examine(t, text)
	f.check(t, want, true)
	return f, text
}

// ownProcesses skips a test whose writers are processes of their own: the race
// detector sees nothing of them, and they take ten times as long. make race sets -short.
func ownProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("processes of their own, nothing to race with (-short)")
	}
}

// Many processes at a time, without a lock and with each kind: each line is there,
// whole, once, and in the order of its process.
func TestProcesses(t *testing.T) {
	ownProcesses(t)
	n, lines := 8, 300
	if os.Getenv("TIDEMARK_FULL") != "" {
		n, lines = 64, 1000
	}
	for _, l := range []Lock{LockAuto, LockFlock, LockFcntl} {
		t.Run(l.String(), func(t *testing.T) {
			f, _ := together(t, n, process{Lines: lines, Size: 100, Batch: 10, Lock: l})
			if f.marks > 0 {
				t.Errorf("%d lines are marked, and nothing has failed", f.marks)
			}
		})
	}
}

// Each 50th write of each process keeps one byte; in the second round writes and
// repairs fail beside.
func TestProcessesWithShortWrites(t *testing.T) {
	ownProcesses(t)
	for _, fail := range []int{0, 7} {
		f, _ := together(t, 8, process{Lines: 800, Size: 100, Batch: 4, Short: 50, Fail: fail})
		if f.blank+f.marks == 0 {
			t.Error("no write was short")
		}
	}
}

// The log is renamed again and again under processes that reopen it: each line is in
// one of the files.
func TestProcessesAndRenames(t *testing.T) {
	ownProcesses(t)
	dir := t.TempDir()
	p := process{Path: filepath.Join(dir, "log"), Size: 100, Batch: 10, Reopen: true}
	all := make([]*running, 4)
	for i := range all {
		p.ID = i
		all[i] = p.start(t, nil)
	}
	names := []string{p.Path}
	rename := func() {
		name := fmt.Sprintf("%s.%d", p.Path, len(names))
		if os.Rename(p.Path, name) == nil {
			names = append(names, name)
		}
	}
	all[0].reached(t, 10, rename)
	rename()
	want := map[int]int{}
	for i, r := range all {
		want[i] = 2000
		r.reached(t, want[i], rename)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	}
	var text []byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil && (name != p.Path || !errors.Is(err, fs.ErrNotExist)) {
			t.Error(err)
		}
		if len(b) > 0 && b[len(b)-1] != '\n' {
			t.Errorf("%s ends in a part of a line", name)
		}
		text = append(text, b...)
	}
	if len(names) < 2 {
		t.Error("it was not renamed")
	}
	f := examine(t, text)
	f.chaos = 0 // two processes do not reopen at the same time
	f.check(t, want, true)
}

// The log is cut to nothing again and again under processes that write to it, as
// copytruncate does: no NULs, and every line that is there is whole.
func TestProcessesAndTruncation(t *testing.T) {
	ownProcesses(t)
	p := process{Path: filepath.Join(t.TempDir(), "log"), Size: 100, Batch: 30, Short: 5}
	all := make([]*running, 4)
	for i := range all {
		p.ID = i
		all[i] = p.start(t, nil)
	}
	for i, r := range all {
		r.reached(t, 2000, func() {
			if err := os.Truncate(p.Path, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
		if err := r.end(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	p.ID, p.Lines = 5, 30
	if err := p.start(t, nil).end(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	f := examine(t, b)
	if f.chaos = 0; len(f.lines[5]) != 30 {
		t.Errorf("%d lines of the last process, want 30", len(f.lines[5]))
	}
	f.check(t, nil, false)
}

// rounds is how many rounds of kills a test makes: TIDEMARK_SEEDS, or few.
func rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_SEEDS")); err == nil {
		return n
	}
	return few
}

// TestCrashWriters kills writers with -9 in the middle of what they write: no line is
// torn after the next write or open, and what was acknowledged is there. Where all are
// killed that append without a lock, one of them may have come behind the part of a
// line that another has left, and have had no time to mark it: such a line may be torn,
// and is none that was acknowledged.
func TestCrashWriters(t *testing.T) {
	ownProcesses(t)
	// One line a write, and 64 KiB a write.
	lines, batches := process{Size: 200, Batch: 50, Buffer: 250}, process{Size: 200, Batch: 3000}
	for _, tt := range []struct {
		name    string
		writers int
		victims int
		lock    Lock
		owned   bool
		glued   bool
	}{
		{name: "owned", writers: 1, victims: 1, owned: true},
		{name: "one of three", writers: 3, victims: 1},
		{name: "all, flock", writers: 3, victims: 3, lock: LockFlock},
		{name: "all, fcntl", writers: 3, victims: 3, lock: LockFcntl},
		{name: "all", writers: 3, victims: 3, glued: true},
	} {
		for size, p := range map[string]process{"lines": lines, "batches": batches} {
			if rounds(1) == 1 && (size == "lines" || tt.glued || tt.lock == LockFcntl) {
				continue // the default run has few
			}
			t.Run(tt.name+", "+size, func(t *testing.T) {
				p.Lock, p.Owned = tt.lock, tt.owned
				marks, glued := 0, 0
				for round := range rounds(1) {
					f := crashRound(t, p, tt.writers, tt.victims, uint64(round))
					if tt.glued {
						glued += len(f.torn)
						f.explain(t)
					}
					f.check(t, f.acked, true)
					if marks += f.marks; t.Failed() {
						t.Fatalf("round %d", round)
					}
				}
				t.Logf("%d torn ends were marked, %d were not", marks, glued)
			})
		}
	}
}

// explain takes away the torn lines that end in a whole one which nobody was told of.
func (f *found) explain(t *testing.T) {
	for _, text := range f.torn {
		var id, n int
		ok := false
		for i := range text {
			if id, n, ok = whole(text[i:]); ok && i > 0 {
				break
			}
		}
		if !ok || n < f.acked[id] {
			t.Errorf("torn: %.300q", text)
		}
	}
	f.torn, f.chaos = nil, 0
}

// crashRound returns what is in the log after a round.
func crashRound(t *testing.T, p process, writers, victims int, seed uint64) found {
	r := rand.New(rand.NewPCG(seed, 1))
	p.Path = filepath.Join(t.TempDir(), "log")
	all := make([]*running, writers)
	for i := range all {
		p.ID = i
		all[i] = p.start(t, nil)
	}
	for _, v := range all {
		v.reached(t, 1, func() {})
	}
	time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
	for _, v := range all[:victims] {
		if err := v.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	acked := map[int]int{}
	for i, v := range all {
		if err := v.end(); err != nil && i >= victims {
			t.Error(err)
		}
		acked[i] = int(v.acked.Load())
	}
	if r.IntN(3) == 0 {
		if _, err := Repair(p.Path, Options{}); err != nil {
			t.Error(err)
		}
	} else {
		next := process{Path: p.Path, ID: writers, Lines: 1, Size: 10, Batch: 1, Owned: p.Owned, Lock: p.Lock}
		if err := next.start(t, nil).end(); err != nil {
			t.Error(err)
		}
		acked[writers] = 1
	}
	b, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.Path); err != nil {
		t.Error(err)
	}
	f := examine(t, b)
	f.acked = acked
	return f
}
