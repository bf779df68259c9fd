package compat

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// stalled is how long a program may say nothing until it is taken to hang. No
// test that passes comes near it.
const stalled = time.Minute

// tail is a program that follows a flood.
type tail struct {
	name   string
	match  func(k int) bool // which entries of each sender it is to show
	cmd    *exec.Cmd
	stderr bytes.Buffer
	moved  chan struct{} // has one when something has changed
	ended  chan struct{} // closed with the program's output

	mu   sync.Mutex // guards what follows
	next []int      // by sender, the next entry to be shown
	err  error      // the first entry that was not the next
}

// startTail starts a program that prints messages, or with -o export entries.
func startTail(t *testing.T, name string, senders int, match func(k int) bool, args ...string) *tail {
	t.Helper()
	f := &tail{name: name, match: match, cmd: exec.Command(args[0], args[1:]...), moved: make(chan struct{}, 1), ended: make(chan struct{}), next: make([]int, senders)}
	for s := range f.next {
		f.next[s] = f.after(-1)
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.cmd.Stderr = &f.stderr
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.ended)
		if slices.Contains(args, "export") {
			f.readEntries(out)
		} else {
			f.readLines(out)
		}
	}()
	t.Cleanup(func() {
		f.stop()
		if f.stderr.Len() > 0 {
			t.Errorf("%s said: %s", f.name, f.stderr.Bytes())
		}
	})
	return f
}

// stop ends the program.
func (f *tail) stop() {
	_ = f.cmd.Process.Kill() // it may have ended
	<-f.ended
	_ = f.cmd.Wait() // killed
}

// after is the first entry after k that is to be shown.
func (f *tail) after(k int) int {
	for k++; f.match != nil && !f.match(k); k++ {
	}
	return k
}

func (f *tail) readLines(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		f.heard(lines.Text())
	}
}

func (f *tail) readEntries(out io.Reader) {
	r := entry.NewExportReader(out, entry.ExportOptions{})
	for {
		e, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.fail(err)
			}
			return
		}
		message, _ := e.Get("MESSAGE")
		f.heard(string(message))
	}
}

func (f *tail) heard(message string) {
	s, k, ok := floodNumber(message)
	if !ok || s >= len(f.next) {
		return // the daemon's own
	}
	f.mu.Lock()
	want := f.next[s]
	f.next[s] = f.after(max(k, want))
	f.mu.Unlock()
	if k != want {
		f.fail(fmt.Errorf("sender %d: entry %d where %d is next", s, k, want))
	}
	f.wake()
}

func (f *tail) wake() {
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

func (f *tail) fail(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	f.wake()
}

// state tells whether everything that the senders have sent was shown.
func (f *tail) state(sent []int) (all bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all = true
	for s, n := range sent {
		all = all && f.next[s] >= n
	}
	return all, f.err
}

// await waits until every entry that was sent was shown, once and in order.
func (f *tail) await(t *testing.T, senders []*sender) {
	t.Helper()
	var sent []int
	for _, s := range senders {
		sent = append(sent, s.next)
	}
	for {
		all, err := f.state(sent)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		if all {
			return
		}
		select {
		case <-f.moved:
		case <-f.ended:
			t.Fatalf("%s ended: %s", f.name, f.stderr.Bytes())
		case <-time.After(stalled):
			t.Fatalf("%s hangs: next %v, sent %v", f.name, f.next, sent)
		}
	}
}

// tail starts a program that follows the daemon's files from their beginning.
func (d *served) tail(t *testing.T, name string, senders int, match func(int) bool, program []string, args ...string) *tail {
	t.Helper()
	return startTail(t, name, senders, match, append(append(program, "-D", d.data, "-f", "-n", "all"), args...)...)
}

// theirTails are followers of the real journalctl.
func (d *served) theirTails(t *testing.T, senders int) []*tail {
	t.Helper()
	program := []string{"journalctl"}
	return []*tail{
		d.tail(t, "journalctl -f", senders, nil, program, "-o", "cat"),
		d.tail(t, "journalctl -f -o export", senders, nil, program, "-o", "export"),
	}
}

// theirMatchingTails are followers of the real journalctl that are not to show
// everything. None has an OR in its match: journalctl looks at one value after
// the other, and what is linked in between it may pass over, whoever writes the
// file. FORMAT.md says what is done to keep that rare, and the tests of journal
// look at every moment of a write.
func (d *served) theirMatchingTails(t *testing.T, senders int) []*tail {
	t.Helper()
	program := []string{"journalctl"}
	return []*tail{
		d.tail(t, "journalctl -f with a match", senders, func(k int) bool { return k%3 == 0 }, program, "-o", "cat", "TAG=a"),
		d.tail(t, "journalctl -f with two matches", senders, func(k int) bool { return k%21 == 0 }, program, "-o", "cat", "TAG=a", "OTHER=x"),
	}
}

// ourTails are followers of tidemark query.
func (d *served) ourTails(t *testing.T, senders int) []*tail {
	t.Helper()
	program := []string{d.bin, "query"}
	return []*tail{
		d.tail(t, "tidemark query -f", senders, nil, program, "-o", "cat"),
		d.tail(t, "tidemark query -f with a match", senders, floodMatch, program, append([]string{"-o", "export"}, floodTerms()...)...),
	}
}

// shown counts the entries that were shown.
func (f *tail) shown() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, next := range f.next {
		n += next
	}
	return n
}
