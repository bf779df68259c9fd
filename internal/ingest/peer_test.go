package ingest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cloneArgs is struct clone_args of clone3(2) up to set_tid_size.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize uint64
}

// cloneWithPID forks a child with the given process id. The child may only make
// raw system calls.
func cloneWithPID(pid int32) (int, unix.Errno) {
	args := cloneArgs{exitSignal: uint64(unix.SIGCHLD), setTID: uint64(uintptr(unsafe.Pointer(&pid))), setTIDSize: 1}
	n, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	return int(n), errno
}

// reuse is a helper: it sends "first" from a child, waits for its end, and sends
// "second" from another child with the same process id.
//
//	reuse SOCKET WAIT: with a line from stdin between the two if WAIT is set
func reuse(socket string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err
	}
	send := func(text string, pid int32) (int32, error) {
		b := []byte("MESSAGE=" + text + "\n")
		name := []byte(text + "\x00")
		var child int
		var errno unix.Errno
		if pid == 0 {
			n, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			child, errno = int(n), e
		} else {
			child, errno = cloneWithPID(pid)
		}
		if errno != 0 {
			return 0, errno
		}
		if child == 0 {
			_, _, _ = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0, 0)
			_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, err := unix.Wait4(child, nil, 0, nil)
		return int32(child), err
	}
	pid, err := send("first", 0)
	if err != nil {
		return err
	}
	// One tick of the clock that start times are told in.
	var tick [1]byte
	if _, err := os.Stdin.Read(tick[:]); err != nil {
		return err
	}
	if _, err := send("second", pid); err != nil {
		return fmt.Errorf("%w: no process with id %d", err, pid)
	}
	return nil
}

// Two processes that have had the same id, one after the other: neither is ever
// given what belongs to the other.
func TestReusedPID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to choose a process id")
	}
	for _, pidfd := range []bool{true, false} {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("pidfd=%v,held=%v", pidfd, held), func(t *testing.T) {
				sink := &fakeSink{}
				r := startWith(t, testConfig(t), sink)
				if !pidfd {
					r.native.noPidfd()
				}
				path := filepath.Join(r.dir, nativeSocket)
				var release func()
				if held {
					// The reader is kept busy until both are gone.
					var entered chan struct{}
					entered, release = sink.block()
					r.write(r.dial(nativeSocket), "MESSAGE=busy\n")
					<-entered
				}
				cmd := helper(t, "reuse", nil, path)
				cmd.Stderr = nil
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if !held {
					_ = r.Barrier(t.Context())
					// Without pidfds an id is not expected to come round sooner.
					time.Sleep(2 * shortGap)
				}
				_, _ = in.Write([]byte("x"))
				if err := cmd.Wait(); err != nil {
					t.Skipf("cannot choose a process id here: %v: %s", err, stderr.String())
				}
				if held {
					release()
				}
				found := 0
				for _, e := range r.barrier() {
					message := get(t, e, "MESSAGE")
					if message == "busy" {
						continue
					}
					found++
					comm, known := e.Get("_COMM")
					// A child has the parent's name until it sets its own.
					if known && string(comm) != message && !strings.HasPrefix(string(comm), "ingest") {
						t.Errorf("%q is said to come from %q", message, comm)
					}
				}
				if found != 2 {
					t.Errorf("%d entries, want 2", found)
				}
			})
		}
	}
}

// insideEnv makes TestPIDComesRound be what runs in the namespace.
const insideEnv = "INGEST_TEST_INSIDE"

// A pid that comes round by itself, in a namespace with few of them: no message
// is ever given what belongs to another process.
func TestPIDComesRound(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		comesRound(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root for a pid namespace")
	}
	var major, minor int
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if _, e := fmt.Sscanf(string(release), "%d.%d", &major, &minor); err != nil || e != nil || major*1000+minor < 6014 {
		t.Skipf("needs a kernel whose namespaces have a pid_max of their own (6.14), this is %s", release)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-p", "-f", "--mount-proc", exe, "-test.run=^TestPIDComesRound$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("unshare:")) {
		t.Skipf("cannot make a pid namespace here: %s", out)
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	t.Logf("inside:\n%s", out)
}

func comesRound(t *testing.T) {
	// The first 300 are never given again.
	if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte("330"), 0); err != nil {
		t.Fatal(err)
	}
	r := start(t)
	path := filepath.Join(r.dir, nativeSocket)
	byPID := map[string]int{}
	for i := range 80 {
		word := fmt.Sprintf("word-%d-", i)
		cmd := helper(t, "send", nil, path, "MESSAGE="+word+"\n", word)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := r.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries := r.barrier()
	whole := 0
	for _, e := range entries {
		word := get(t, e, "MESSAGE")
		cmdline, known := e.Get("_CMDLINE")
		if known && !strings.HasSuffix(string(cmdline), word) {
			t.Errorf("%q is said to come from %q", word, cmdline)
		}
		if known {
			whole++
		}
		byPID[get(t, e, "_PID")]++
	}
	if len(entries) != 80 || len(byPID) == len(entries) {
		t.Errorf("%d entries from %d process ids: none came round", len(entries), len(byPID))
	}
	t.Logf("%d entries from %d process ids, %d with a command line", len(entries), len(byPID), whole)
}

// The last words of a process are its own although it is gone when they are
// read: they were stamped before its death was seen.
func TestLastWords(t *testing.T) {
	for _, pidfd := range []bool{true, false} {
		sink := &fakeSink{}
		r := startWith(t, testConfig(t), sink)
		if !pidfd {
			r.native.noPidfd()
		}
		cmd := helper(t, "words", nil, filepath.Join(r.dir, nativeSocket))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has sent the first
			t.Fatal(err)
		}
		if err := r.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Held up from here on, until the process is gone.
		entered, release := sink.block()
		r.write(r.dial(nativeSocket), "MESSAGE=busy\n")
		<-entered
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		release()
		for _, e := range r.barrier() {
			if get(t, e, "MESSAGE") == "busy" {
				continue
			}
			if exe, _ := e.Get("_EXE"); string(exe) != cmd.Path && pidfd {
				t.Errorf("pidfd %v: %q comes from %q, want %q", pidfd, get(t, e, "MESSAGE"), exe, cmd.Path)
			}
		}
	}
}

// noPidfd makes the source work as in a flood, or on an old kernel.
func (d *datagrams) noPidfd() {
	_ = control1(d.rx.raw, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 0)
	})
}

func TestPeerOfPIDZero(t *testing.T) {
	c := &counts{}
	ps := newPeers(newProcReader("/proc", "", ""), c)
	defer ps.close()
	m := &message{known: true, credentials: credentials{0, 12, 34}, pidfd: -1, stamp: 5}
	p := ps.get(m)
	wantDiff(t, "fields", []string{"_UID=12", "_GID=34"}, fieldTexts(p))
	if ps.get(m) != p {
		t.Error("not remembered")
	}
	if ps.get(&message{pidfd: -1}) != nil {
		t.Error("a peer without credentials")
	}
}

func fieldTexts(p *peer) (all []string) {
	for _, f := range p.fields {
		all = append(all, string(f))
	}
	return all
}

// A process that began after the message was stamped did not send it.
func TestYoungerProcess(t *testing.T) {
	ps := newPeers(newProcReader("/proc", "", ""), &counts{})
	defer ps.close()
	now := uint64(time.Now().UnixMicro())
	ps.tick(time.Second, now)
	me := credentials{int32(os.Getpid()), 0, 0}
	old := ps.get(&message{known: true, credentials: me, pidfd: -1, stamp: now - 3600e6})
	wantDiff(t, "before it began", []string{fmt.Sprintf("_PID=%d", me.pid), "_UID=0", "_GID=0"}, fieldTexts(old))
	young := ps.get(&message{known: true, credentials: me, pidfd: -1, stamp: now})
	if young.facts.comm == "" {
		t.Error("nothing known about the process itself")
	}
	if n := ps.counts.n[peerReused].Load(); n != 1 {
		t.Errorf("%d counted as reused, want 1", n)
	}
}

// What was read of a process is read again after a second, so that a changed
// name shows.
func TestPeerRefresh(t *testing.T) {
	ps := newPeers(newProcReader("/proc", "", ""), &counts{})
	defer ps.close()
	cmd := helper(t, "rename", nil)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	heard := func() {
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	heard()
	m := &message{known: true, credentials: credentials{int32(cmd.Process.Pid), 0, 0}, pidfd: -1}
	stamp := uint64(time.Now().UnixMicro())
	at := func(d time.Duration) *peer {
		ps.tick(d, stamp+uint64(d.Microseconds()))
		return ps.get(m)
	}
	p := at(time.Second)
	if p.facts.comm != "before" || p.state != peerLive {
		t.Fatalf("facts %+v", p.facts)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	heard()
	fields := p.fields
	if p := at(1500 * time.Millisecond); p.facts.comm != "before" || &p.fields[0] != &fields[0] {
		t.Errorf("read again within a second: %q", p.facts.comm)
	}
	if p := at(2500 * time.Millisecond); p.facts.comm != "renamed" {
		t.Errorf("not read again after a second: %q", p.facts.comm)
	}
	_ = in.Close()
	_ = cmd.Wait()
	at(2600 * time.Millisecond)
	if ps.byKey[m.credentials].state == peerLive || len(ps.byFD) != 0 {
		t.Error("the end of the process was not seen")
	}
}

// Facts that can no longer be read stay for five seconds.
func TestRefreshKeepsWhatIsGone(t *testing.T) {
	proc := t.TempDir()
	ps := newPeers(newProcReader(proc, "", ""), &counts{})
	defer ps.close()
	dir := filepath.Join(proc, fmt.Sprint(os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", "1 (a) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 77 0\n")
	write("comm", "name\n")
	write("cmdline", "a\x00b\x00")
	m := &message{known: true, credentials: credentials{int32(os.Getpid()), 0, 0}, pidfd: -1}
	at := func(d time.Duration) facts {
		ps.tick(d, uint64(time.Now().UnixMicro())+uint64(d.Microseconds()))
		return ps.get(m).facts
	}
	if f := at(time.Second); f.comm != "name" || f.cmdline != "a b" {
		t.Fatalf("facts %+v", f)
	}
	_ = os.Remove(filepath.Join(dir, "cmdline"))
	write("comm", "other\n")
	if f := at(3 * time.Second); f.comm != "other" || f.cmdline != "a b" {
		t.Errorf("after 2 s: %q %q, want other and what was known", f.comm, f.cmdline)
	}
	if f := at(9 * time.Second); f.comm != "other" || f.cmdline != "" {
		t.Errorf("after 6 s: %q %q, want other and nothing", f.comm, f.cmdline)
	}
}

func TestPeerCacheIsBounded(t *testing.T) {
	ps := newPeers(newProcReader("/proc", "", ""), &counts{})
	defer ps.close()
	before := openFDs(t)
	ps.limit = minPeers
	for i := range 3 * ps.limit {
		ps.tick(time.Duration(i)*time.Millisecond, uint64(time.Now().UnixMicro()))
		ps.get(&message{known: true, credentials: credentials{int32(os.Getpid()), uint32(i), 0}, pidfd: -1})
	}
	if n := len(ps.byKey); n > ps.limit {
		t.Errorf("%d peers, want at most %d", n, ps.limit)
	}
	if n := openFDs(t) - before; n > ps.limit {
		t.Errorf("%d descriptors", n)
	}
	ps.close()
	if n := openFDs(t); n >= before {
		t.Errorf("%d descriptors after the end, %d before", n, before)
	}
}

// lastWords is a helper: one datagram, a byte to stdout, and after the end of stdin
// another datagram before it ends.
func lastWords(socket string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("MESSAGE=first words\n")); err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{'x'}); err != nil {
		return err
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	_, err = unix.Write(fd, []byte("MESSAGE=last words\n"))
	return err
}

// rename is a helper: it is called before, and after a byte from stdin renamed.
func rename() error {
	for _, name := range []string{"before", "renamed"} {
		if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
			return err
		}
		if _, err := os.Stdout.Write([]byte{'x'}); err != nil {
			return err
		}
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	return nil
}
