package compat

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/store"
)

// TestDaemon runs the daemon among systemd's programs.
func TestDaemon(t *testing.T) {
	needJournalctl(t)
	bin := tidemarkBinary(t)
	for name, test := range map[string]func(t *testing.T, bin string){
		"flood": testFlood, "users": testUsers, "small files": testSmallFiles, "kill": testKill, "senders": testSenders, "commands": testCommands, "round trip": testRoundTrip,
		"continued by journald": testContinuedByJournald, "continued by journal-remote": testContinuedByRemote,
		"after journald": testAfterJournald, "after a sealing journald": testAfterSealingJournald, "after a killed journald": testAfterKilledJournald, "demo": testDemo,
	} {
		t.Run(name, func(t *testing.T) { test(t, bin) })
	}
}

// served is a running `tidemark serve`.
type served struct {
	bin, data, run string
	log            string // a file with what it printed for the operator
	cmd            *exec.Cmd
}

// serve starts a daemon in dir, a short one, with lines of configuration, and waits until it
// says that it is ready. It ends with the test at the latest.
func serve(t *testing.T, bin, dir string, config ...string) *served {
	t.Helper()
	d, _ := serveAt(t, bin, dir, "off", config...)
	return d
}

// serveHTTP is serve with an HTTP port, whose URL it returns.
func serveHTTP(t *testing.T, bin, dir string) (d *served, url string) {
	t.Helper()
	return serveAt(t, bin, dir, "127.0.0.1:0")
}

func serveAt(t *testing.T, bin, dir, http string, config ...string) (d *served, url string) {
	t.Helper()
	d = &served{bin: bin, data: filepath.Join(dir, "journal"), run: filepath.Join(dir, "run"), log: filepath.Join(dir, "log")}
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// The kernel's lines come when they like, also while a file is verified.
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte("[Journal]\nReadKMsg=no\n"+strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.Command(bin, "serve", "--config", conf, "--data", d.data, "--run", d.run, "--http", http)
	d.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // it may have ended
		_ = d.cmd.Wait()         // likewise
		if t.Failed() {
			t.Logf("the daemon in %s printed:\n%s", dir, d.printed(t))
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, address, ok := strings.Cut(lines.Text(), "http://"); ok {
			url = "http://" + strings.TrimSuffix(address, "/")
		}
		if lines.Text() == "ready" {
			return d, url
		}
	}
	t.Fatalf("the daemon ended before it was ready: %s", d.printed(t))
	return nil, ""
}

func (d *served) printed(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(d.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// end ends the daemon by a signal. After SIGTERM it must exit well.
func (d *served) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil && sig != syscall.SIGKILL {
		t.Errorf("the daemon ended with %v: %s", err, d.printed(t))
	}
}

// command runs a verb that needs the daemon, and returns what it prints.
func (d *served) command(t *testing.T, verb string, args ...string) []byte {
	t.Helper()
	return succeed(t, d.bin, append([]string{verb, "--run", d.run}, args...)...)
}

func (d *served) status(t *testing.T) (st control.Status) {
	t.Helper()
	if err := json.Unmarshal(d.command(t, "status", "--json"), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// succeed runs a command that must exit 0 and say nothing on stderr.
func succeed(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	o := runCommand(t, nil, name, args...)
	if o.code != 0 || len(o.stderr) > 0 {
		t.Errorf("%s %q: exit code %d, stderr %q", filepath.Base(name), args, o.code, o.stderr)
	}
	return o.stdout
}

// files are the journal files of the daemon, by their names.
func (d *served) files(t *testing.T) map[string]string {
	t.Helper()
	return journalFiles(t, d.data)
}

// journalFiles are the journal files below dir, but for the empty ones that wait to
// become current: names and paths.
func journalFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.journal*"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, p := range paths {
		if name := filepath.Base(p); !store.IsPrepared(name) {
			files[name] = p
		}
	}
	return files
}

// verify runs the real journalctl --verify on every file, of which there must
// be n, and tidemark's as well.
func (d *served) verify(t *testing.T, when string, n int) {
	t.Helper()
	files := d.files(t)
	if len(files) != n {
		t.Errorf("%s: files %q, want %d", when, slices.Sorted(maps.Keys(files)), n)
	}
	for name, path := range files {
		o := runCommand(t, nil, "journalctl", "--verify", "--file", path)
		if o.code != 0 || !bytes.Contains(append(o.stdout, o.stderr...), []byte("PASS: ")) {
			t.Errorf("%s: journalctl --verify of %s: exit code %d\n%s%s", when, name, o.code, o.stdout, o.stderr)
		}
		if o := runCommand(t, nil, d.bin, "verify", path); o.code != 0 {
			t.Errorf("%s: tidemark verify of %s: exit code %d\n%s%s", when, name, o.code, o.stdout, o.stderr)
		}
	}
}

// export returns what the real journalctl finds in dir.
func export(t *testing.T, dir string, args ...string) []entry.Entry {
	t.Helper()
	return parseExport(t, succeed(t, "journalctl", append([]string{"-D", dir, "-o", "export"}, args...)...))
}

// parseExport reads entries with their cursors.
func parseExport(t *testing.T, b []byte) (all []entry.Entry) {
	t.Helper()
	r := entry.NewExportReader(bytes.NewReader(b), entry.ExportOptions{})
	for cursor := range cursorLines(b) {
		e, err := r.Next()
		if err != nil {
			t.Fatalf("entry %d of an export: %v", len(all), err)
		}
		all = append(all, keep(e, cursor))
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("an export of %d entries ends with %v", len(all), err)
	}
	return all
}

// cursorLines finds the cursors in an export whose values have no lines of
// that kind.
func cursorLines(b []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range bytes.SplitSeq(b, []byte("\n")) {
			if text, ok := bytes.CutPrefix(line, []byte("__CURSOR=")); ok && !yield(string(text)) {
				return
			}
		}
	}
}

// keep copies an entry that is borrowed, and gives it what its cursor says.
func keep(e *entry.Entry, cursor string) entry.Entry {
	k := *e
	k.Fields = nil
	for _, f := range e.Fields {
		k.Fields = append(k.Fields, bytes.Clone(f))
	}
	if c, err := entry.ParseCursor(cursor); err == nil {
		k.SeqnumID, k.Seqnum, k.XorHash = c.SeqnumID, c.Seqnum, c.XorHash
	}
	return k
}

// sender sends numbered native datagrams, like a program that logs.
type sender struct {
	id          int
	next        int
	conn        *net.UnixConn
	credentials []byte // a control message for the kernel; nil: the test's own
}

// floodField are the fields of a sender's kth entry that matches look at.
func floodFields(k int) string {
	s := "TAG=" + string("abc"[k%3]) + "\n"
	if k%7 == 0 {
		s += "OTHER=x\n"
	}
	return s
}

// floodMatch is true for the entries that floodTerms select.
func floodMatch(k int) bool { return k%3 != 2 || k%7 == 0 }

// floodTerms are a match with an OR between terms and one between values.
func floodTerms() []string { return []string{"TAG=a", "TAG=b", "+", "OTHER=x"} }

// send sends n entries at full speed, and fewer only when the daemon is gone.
func (s *sender) send(n int) error {
	for range n {
		b := fmt.Appendf(nil, "MESSAGE=flood %d %d\nPRIORITY=%d\nSYSLOG_IDENTIFIER=flood%d\nUNIQUE=%x\n%s", s.id, s.next, 3+s.next%5, s.id, s.next*s.next, floodFields(s.next))
		if err := s.write(b); err != nil {
			return fmt.Errorf("sender %d, entry %d: %w", s.id, s.next, err)
		}
		s.next++
	}
	return nil
}

// write sends a datagram and waits while the daemon's queue is full.
func (s *sender) write(b []byte) error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), b, s.credentials, nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN
	})
	return cmp.Or(sent, err)
}

// senders are connected to the daemon's native socket.
func (d *served) senders(t *testing.T, n int) []*sender {
	t.Helper()
	var all []*sender
	for id := range n {
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(d.run, "socket"), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		all = append(all, &sender{id: id, conn: conn})
	}
	return all
}

// be lets the sender be a user with a journal file of its own. Only root may.
func (s *sender) be(uid uint32) {
	s.credentials = unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uid, Gid: uid})
}

// burst lets all senders send n entries each at once. The channel gives their
// errors, and is closed when all have sent.
func burst(all []*sender, n int) <-chan error {
	var wg sync.WaitGroup
	failed := make(chan error, len(all))
	for _, s := range all {
		wg.Go(func() {
			if err := s.send(n); err != nil {
				failed <- err
			}
		})
	}
	go func() { wg.Wait(); close(failed) }()
	return failed
}

// floodNumber takes "flood S K" apart.
func floodNumber(message string) (s, k int, ok bool) {
	if !strings.HasPrefix(message, "flood ") {
		return 0, 0, false
	}
	_, err := fmt.Sscanf(message, "flood %d %d", &s, &k)
	return s, k, err == nil
}
