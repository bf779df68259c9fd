package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/slowfs"
)

// scene is a daemon that is followed, watched and written to while something of it
// is held.
type scene struct {
	*daemon
	t       *testing.T
	ctx     context.Context    //nolint:containedctx // of the whole test
	open    map[string]*sender // connections from before
	ears    *ears              // a service manager's
	follow  <-chan string      // messages that `query -f` shows
	n       int                // messages sent
	access  string             // access log
	pings   int
	noSpace bool // files cannot be allocated
}

// kinds are the sockets that promise nothing.
var kinds = []string{"native", "syslog", "stdout"}

func newScene(t *testing.T, data string, lines ...string) *scene {
	t.Helper()
	p := newPlace(t, data, lines...)
	p.notify = filepath.Join(p.run, "notify")
	access := filepath.Join(filepath.Dir(data), "access.log") // on the same disk
	p.flags = []string{"--access-log", access, "--access-log-sync", "50ms"}
	ears := listen(t, p.notify)
	s := &scene{daemon: start(t, p), t: t, ctx: guarded(t), ears: ears, access: access, open: map[string]*sender{}}
	for _, kind := range kinds {
		c, err := p.dial(kind)
		noError(t, err)
		t.Cleanup(func() { c.Close() })
		s.open[kind] = c
	}
	settled(t, s.daemon)
	s.startFollower()
	return s
}

// startFollower follows the journal as a user does.
func (s *scene) startFollower() {
	s.t.Helper()
	cmd := exec.Command(s.bin, "query", "-D", s.data, "-f", "-n", "0", "-o", "cat")
	out, err := cmd.StdoutPipe()
	noError(s.t, err)
	noError(s.t, cmd.Start())
	shown := make(chan string, 10000)
	s.follow = shown
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			shown <- lines.Text()
		}
	}()
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended; _ = cmd.Wait() })
	// It shows what comes once it looks.
	for seen := false; !seen; {
		noError(s.t, s.datagram("are you there"))
		select {
		case line := <-s.follow:
			seen = line == "are you there"
		default:
			_ = s.state(s.t)
		}
	}
}

// shows waits until the follower has shown messages, in whatever order.
func (s *scene) shows(want map[string]bool) {
	s.t.Helper()
	for len(want) > 0 {
		delete(want, within(s.t, fmt.Sprintf("the follower's %d messages such as %.200v", len(want), want), s.follow))
	}
}

// message is one that was not sent before.
func (s *scene) message(how string) string {
	s.n++
	return fmt.Sprintf("message %d by %s", s.n, how)
}

// appends sends messages on every way that does not ask for a sync, and waits until
// the follower has shown them.
func (s *scene) appends() {
	s.t.Helper()
	want := s.sends()
	for how, send := range map[string]func(m string) error{
		"ingest":  func(m string) error { return s.post(s.ctx, m, "appended") },
		"varlink": func(m string) error { return s.append(s.ctx, m, "appended") },
		"send":    func(m string) error { return s.verb(s.ctx, "send", "--ack", "appended", m) },
	} {
		m := s.message(how)
		want[m] = true
		if err := send(m); err != nil {
			s.t.Errorf("%s: %v", how, err)
		}
	}
	if !s.noSpace { // each rotation makes a file of the next one
		// It has a time of long ago, before what followers have shown.
		if err := s.upload(s.ctx, s.message("upload"), "appended"); err != nil {
			s.t.Errorf("upload: %v", err)
		}
	}
	s.shows(want)
}

// sends sends messages that nobody answers, on connections from before and on new
// ones, and returns them.
func (s *scene) sends() (sent map[string]bool) {
	s.t.Helper()
	sent = map[string]bool{}
	for _, kind := range kinds {
		m, other := s.message(kind), s.message("a new "+kind)
		sent[m], sent[other] = true, true
		noError(s.t, s.open[kind].send(m))
		c, err := s.dial(kind)
		noError(s.t, err)
		noError(s.t, errors.Join(c.send(other), c.Close()))
	}
	return sent
}

// commands runs every command but Synchronize, and reads every page.
func (s *scene) commands() {
	s.t.Helper()
	for _, method := range []string{control.MethodStatus, control.MethodFlushToVar, control.MethodRelinquishVar, control.MethodGetInfo} {
		if _, err := s.call(s.ctx, method, nil); err != nil {
			s.t.Errorf("%s: %v", method, err)
		}
	}
	if _, err := s.call(s.ctx, control.MethodGetInterface, map[string]string{"interface": "io.systemd.Journal"}); err != nil {
		s.t.Errorf("%s: %v", control.MethodGetInterface, err)
	}
	for _, page := range []string{"healthz", "readyz", "metrics", "ping"} {
		if _, err := s.request(s.ctx, http.MethodGet, page, "text/plain", ""); err != nil {
			s.t.Errorf("%s: %v", page, err)
		}
	}
	s.pings++
}

// logged counts the pings in the access log.
func (s *scene) logged() int {
	s.t.Helper()
	b, err := os.ReadFile(s.access)
	noError(s.t, err)
	return strings.Count(string(b), "GET /ping ")
}

// rotate begins new files, by command and by signal.
func (s *scene) rotate() {
	s.t.Helper()
	if _, err := s.call(s.ctx, control.MethodRotate, nil); err != nil {
		s.t.Errorf("Rotate: %v", err)
	}
}

// alive waits for signs of life that are given after the call.
func (s *scene) alive() {
	s.t.Helper()
	const sign = "WATCHDOG=1"
	s.ears.wait(s.t, sign, s.ears.count(sign)+3)
}

// everything is what nobody may have to wait for, twice with a rotation in
// between.
func (s *scene) everything(rotations int) {
	s.t.Helper()
	s.appends()
	s.commands()
	for range rotations {
		s.rotate()
		s.appends()
		s.commands()
	}
	until(s.t, "the lines of the access log", func() bool { return s.logged() == s.pings })
	s.alive()
}

// synchronize calls Synchronize; the channel gives its outcome.
func (s *scene) synchronize() <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.call(s.ctx, control.MethodSynchronize, nil)
		done <- err
	}()
	return done
}

// unanswered checks that a call still waits.
func (s *scene) unanswered(what string, done <-chan error) {
	s.t.Helper()
	select {
	case err := <-done:
		s.t.Errorf("%s is answered (error: %v) while syncs are held", what, err)
	default:
	}
}

// check looks everything up at the end: each message is there once, and each file
// is in order.
func (s *scene) check() {
	s.t.Helper()
	found := messages(s.t, s.data)
	for text, n := range found {
		if strings.HasPrefix(text, "message ") && n != 1 {
			s.t.Errorf("%q is there %d times", text, n)
		}
	}
	for n := range s.n {
		if !anyPrefix(found, fmt.Sprintf("message %d by", n+1)) {
			s.t.Errorf("message %d is not there", n+1)
		}
	}
	verify(s.t, s.data)
	if n := s.logged(); n != s.pings {
		s.t.Errorf("%d lines in the access log, want %d", n, s.pings)
	}
}

func anyPrefix(found map[string]int, prefix string) bool {
	for text := range found {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// TestNothingWaitsForASync: while every sync of the process is held, appends,
// followers, commands, the watchdog and rotations go on, and so does all but the
// end of a shutdown; only Synchronize waits.
func TestNothingWaitsForASync(t *testing.T) {
	for _, policy := range []string{"auto", "50ms"} {
		t.Run(policy, func(t *testing.T) {
			s := newScene(t, filepath.Join(t.TempDir(), "data"), "Sync="+policy)
			h := hold(t, s.daemon, syncs...)
			noError(t, s.open["native"].send(s.message("native")))
			synced, uploaded := s.synchronize(), make(chan error, 1)
			m := s.message("an upload that waits")
			go func() { uploaded <- s.upload(s.ctx, m, "synced") }()
			h.waitHeld(2)
			s.everything(4)
			s.unanswered("Synchronize", synced)
			s.unanswered("upload", uploaded)
			s.shutdown(h)
			within(t, "Synchronize", synced) //nolint:errcheck // the daemon may have ended before it was answered
			within(t, "upload", uploaded)    //nolint:errcheck // likewise
			s.check()
		})
	}
}

// shutdown ends the daemon while syncs are held: it says so, its sockets are
// closed, commands are answered; when they are let go it has ended well.
func (s *scene) shutdown(h *tracer) {
	s.t.Helper()
	noError(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.ears.wait(s.t, "STOPPING=1", 1)
	until(s.t, "the end of the native socket", func() bool {
		c, err := s.dial("native")
		if err == nil {
			err = errors.Join(c.send("too late"), c.Close())
		}
		return err != nil
	})
	s.state(s.t)
	select {
	case <-s.exited:
		s.t.Error("it has ended while syncs are held")
	default:
	}
	h.release()
	within(s.t, "the end", s.exited)
	if s.status != nil {
		s.t.Errorf("it ended badly: %v", s.status)
	}
}

// TestNothingWaitsForSpace: the same while the allocation of space is held, but
// for rotations, of which each needs a file with space.
func TestNothingWaitsForSpace(t *testing.T) {
	s := newScene(t, filepath.Join(t.TempDir(), "data"), "Sync=50ms")
	h := hold(t, s.daemon, "fallocate")
	s.noSpace = true
	s.everything(1)
	h.waitHeld(1) // that of the file after the next
	s.everything(0)
	noError(t, within(t, "Synchronize", s.synchronize()))
	h.release()
	noError(t, s.stop())
	s.check()
}

// TestNothingWaitsForTheDisk: the same where the disk below a whole file system
// does not answer: nothing that it is to keep for sure gets there. btrfs locks a
// file during its fsync, so that a write to it waits, and its renaming: there that
// much is left, that senders and commands do not wait.
func TestNothingWaitsForTheDisk(t *testing.T) {
	for _, fstype := range fileSystems() {
		for _, policy := range []string{"auto", "50ms"} {
			t.Run(fstype+" "+policy, func(t *testing.T) {
				mnt, disk := slowDisk(t, fstype)
				s := newScene(t, filepath.Join(mnt, "data"), "Sync="+policy)
				disk.Set(slowfs.Rule{Calls: []slowfs.Call{slowfs.Fsync}, Hold: true})
				noError(t, s.open["native"].send(s.message("native")))
				synced := s.synchronize()
				disk.WaitHeld(slowfs.Fsync, 1)
				if fstype == "btrfs" {
					s.sends()
					s.commands()
					s.alive()
				} else {
					s.everything(2)
				}
				s.unanswered("Synchronize", synced)
				disk.Set()
				noError(t, within(t, "Synchronize", synced))
				noError(t, s.stop())
				s.check()
			})
		}
	}
}

// TestAppendsUnderSlowSyncs: with syncs and allocations that take 100 ms each, across
// rotations, many more appends are answered than syncs have returned; if they
// waited for syncs, each would for its own.
func TestAppendsUnderSlowSyncs(t *testing.T) {
	needStrace(t)
	some := []string{"50ms"}
	if full() {
		some = append(some, "auto")
	}
	for _, policy := range some {
		t.Run(policy, func(t *testing.T) {
			p := newPlace(t, t.TempDir(), "Sync="+policy)
			trace := filepath.Join(t.TempDir(), "trace")
			const calls = "fsync,fdatasync,fallocate"
			d := start(t, p, "strace", "-D", "-f", "--seccomp-bpf", "-o", trace, "-e", "trace="+calls, "-e", "signal=none", "-e", "inject="+calls+":delay_enter=100000")
			settled(t, d)
			ctx := guarded(t)
			returned := func() int {
				b, err := os.ReadFile(trace)
				noError(t, err)
				return strings.Count(string(b), "= 0 (DELAYED)\n")
			}
			before := returned()
			const rotations, appends = 3, 100
			for range rotations {
				for n := range appends {
					m := fmt.Sprint("message ", n)
					noError(t, errors.Join(d.post(ctx, m, "appended"), d.append(ctx, m, "appended")))
				}
				_, err := d.call(ctx, control.MethodRotate, nil)
				noError(t, err)
			}
			n := returned() - before
			t.Logf("%d slow calls have returned during %d appends and %d rotations", n, 2*rotations*appends, rotations)
			if n > rotations*appends/2 {
				t.Error("as many as if each append had waited")
			}
			_, err := d.call(ctx, control.MethodSynchronize, nil)
			noError(t, err)
			if returned() == before {
				t.Error("nothing was slow")
			}
			noError(t, d.stop())
			verify(t, d.data)
		})
	}
}
