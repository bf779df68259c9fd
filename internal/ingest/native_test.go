package ingest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNativeDatagrams(t *testing.T) {
	r := start(t)
	c := r.dial(nativeSocket)
	tests := []struct {
		name, data string
		want       [][]string
	}{
		{"one", "MESSAGE=a\nPRIORITY=5\n", [][]string{{"MESSAGE=a", "PRIORITY=5", "_TRANSPORT=journal"}}},
		{"two", "MESSAGE=a\n\nMESSAGE=b\n", [][]string{{"MESSAGE=a", "_TRANSPORT=journal"}, {"MESSAGE=b", "_TRANSPORT=journal"}}},
		{
			"binary", "MESSAGE\n\x03\x00\x00\x00\x00\x00\x00\x00a\nb\nA=1\n\nB\n\x02\x00\x00\x00\x00\x00\x00\x00\x00\xff\n",
			[][]string{{"MESSAGE=a\nb", "A=1", "_TRANSPORT=journal"}, {"B=\x00\xff", "_TRANSPORT=journal"}},
		},
		{"trusted", "_PID=1\nMESSAGE=a\n_UID=7\n", [][]string{{"MESSAGE=a", "_TRANSPORT=journal"}}},
		{"noise", "MESSAGE=a\nnoise", [][]string{{"MESSAGE=a", "_TRANSPORT=journal"}}},
		{"nothing", "a=b\n", nil},
	}
	for _, tt := range tests {
		r.write(c, tt.data)
		var got [][]string
		for _, e := range r.barrier() {
			got = append(got, own(e))
		}
		wantDiff(t, tt.name, tt.want, got)
	}
	for reason, want := range map[string]uint64{"entries": 7, "bad_names": 3, "noise": 1, "empty": 1} {
		if n := r.count("native", reason); n != want {
			t.Errorf("count %s = %d, want %d", reason, n, want)
		}
	}
}

func TestNativeIdentity(t *testing.T) {
	r := start(t)
	before := uint64(r.begin.UnixMicro())
	r.write(r.dial(nativeSocket), "MESSAGE=a\nPRIORITY=2\n")
	entries := r.barrier()
	if len(entries) != 1 {
		t.Fatalf("%d entries, want 1", len(entries))
	}
	e := entries[0]
	if !e.Urgent || e.Owner != uint32(os.Getuid()) || e.Realtime != 0 {
		t.Errorf("urgent %v, owner %d, realtime %d", e.Urgent, e.Owner, e.Realtime)
	}
	exe, _ := os.Readlink("/proc/self/exe")
	comm, _ := os.ReadFile("/proc/self/comm")
	for name, want := range map[string]string{
		"_PID": fmt.Sprint(os.Getpid()), "_UID": fmt.Sprint(os.Getuid()), "_GID": fmt.Sprint(os.Getgid()),
		"_EXE": exe, "_COMM": strings.TrimSpace(string(comm)), "_HOSTNAME": "here", "_RUNTIME_SCOPE": "system",
		"_BOOT_ID": "00112233445566778899aabbccddeeff", "_MACHINE_ID": "ffeeddccbbaa99887766554433221100",
	} {
		if got := get(t, e, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(get(t, e, "_CMDLINE"), exe[:1]) {
		t.Errorf("_CMDLINE = %q", get(t, e, "_CMDLINE"))
	}
	var stamp uint64
	if _, err := fmt.Sscan(get(t, e, "_SOURCE_REALTIME_TIMESTAMP"), &stamp); err != nil || stamp < before {
		t.Errorf("_SOURCE_REALTIME_TIMESTAMP = %d, want at least %d", stamp, before)
	}
	var names []string
	for _, f := range e.Fields {
		names = append(names, string(f.Name()))
	}
	got := strings.Join(names, " ")
	for _, part := range []string{
		"MESSAGE PRIORITY _TRANSPORT _PID _UID _GID _COMM _EXE _CMDLINE _CAP_EFFECTIVE",
		"_SOURCE_REALTIME_TIMESTAMP _BOOT_ID _MACHINE_ID _HOSTNAME _RUNTIME_SCOPE",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("order of fields: %s\nwant in it: %s", got, part)
		}
	}
}

func TestNativeLongDatagrams(t *testing.T) {
	r := start(t)
	c := r.dial(nativeSocket)
	if err := c.SetWriteBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{slotSize - 9, slotSize - 8, slotSize, slotSize + 1, 100_000, 200_000} {
		long := strings.Repeat("x", size/2) + strings.Repeat("y", size-size/2)
		r.write(c, "MESSAGE="+long+"\n")
		r.write(c, "MESSAGE=short\n")
		entries := r.barrier()
		if len(entries) != 2 || get(t, entries[0], "MESSAGE") != long || get(t, entries[1], "MESSAGE") != "short" {
			t.Errorf("size %d: not received as sent", size)
		}
	}
	if n := r.count("native", "truncated"); n != 0 {
		t.Errorf("%d truncated", n)
	}
}

func memfd(t *testing.T, data []byte, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if len(data) > 0 {
		if _, err := unix.Write(fd, data); err != nil {
			t.Fatal(err)
		}
	}
	if seals != 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
	}
	return fd
}

func TestNativeFiles(t *testing.T) {
	r := start(t)
	c := r.dial(nativeSocket)
	long := bytes.Repeat([]byte("0123456789"), 100_000)
	data := fmt.Appendf(nil, "MESSAGE=%s\nBIN\n\x03\x00\x00\x00\x00\x00\x00\x00a\nb\n\nMESSAGE=second\n", long)
	r.write(c, "MESSAGE=before\n")
	r.sendFDs(c, nil, memfd(t, data, allSeals))
	r.write(c, "MESSAGE=after\n")
	entries := r.barrier()
	var got []string
	for _, e := range entries {
		got = append(got, get(t, e, "MESSAGE"))
	}
	wantDiff(t, "messages", []string{"before", string(long), "second", "after"}, got)
	if len(entries) == 4 {
		if bin := get(t, entries[1], "BIN"); bin != "a\nb" {
			t.Errorf("BIN = %q", bin)
		}
	}

	// As root any file may be sent, else only those in directories for everyone.
	tmp, err := os.CreateTemp("/dev/shm", "ingest")
	if err != nil {
		t.Skipf("needs /dev/shm: %v", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	defer tmp.Close()
	_, _ = tmp.WriteString("MESSAGE=from a file\n")
	r.sendFDs(c, nil, int(tmp.Fd()))
	if entries := r.barrier(); len(entries) != 1 || get(t, entries[0], "MESSAGE") != "from a file" {
		t.Errorf("file in /dev/shm: %v", entries)
	}

	dir, err := os.Open("/tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	bad := []struct {
		name   string
		reason string
		send   func()
	}{
		{"directory", "fd_kind", func() { r.sendFDs(c, nil, int(dir.Fd())) }},
		{"empty", "fd_size", func() { r.sendFDs(c, nil, memfd(t, nil, allSeals)) }},
		{"two", "unexpected_fds", func() { r.sendFDs(c, nil, int(dir.Fd()), int(dir.Fd())) }},
		{"with data", "unexpected_fds", func() { r.sendFDs(c, []byte("MESSAGE=x\n"), int(dir.Fd())) }},
	}
	for _, tt := range bad {
		before := r.count("native", tt.reason)
		tt.send()
		entries := r.barrier()
		if tt.name == "directory" && os.Getuid() != 0 {
			continue // refused for its path
		}
		if len(entries) != 0 || r.count("native", tt.reason) != before+1 {
			t.Errorf("%s: %d entries, count %s %d, want 0 and %d", tt.name, len(entries), tt.reason, r.count("native", tt.reason), before+1)
		}
	}
}

// Files of senders that are not root: unsealed memfds, files elsewhere.
func TestFileContentsOfOthers(t *testing.T) {
	other := &message{known: true, credentials: credentials{uid: 1000}}
	tests := []struct {
		name string
		fd   int
		want reason
	}{
		{"sealed", memfd(t, []byte("A=1\n"), allSeals), noReason},
		{"half sealed", memfd(t, []byte("A=1\n"), unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE), nativeFDPath},
		{"unsealed", memfd(t, []byte("A=1\n"), 0), nativeFDPath},
	}
	for _, tt := range tests {
		data, why := fileContents(tt.fd, other, DefaultMaxPassed, anySize)
		if why != tt.want {
			t.Errorf("%s: reason %d, want %d", tt.name, why, tt.want)
		}
		if why == noReason {
			if string(data) != "A=1\n" {
				t.Errorf("%s: %q", tt.name, data)
			}
			_ = unix.Munmap(data)
		}
	}
	f, err := os.Open("/etc/passwd")
	if err != nil {
		t.Skipf("needs /etc/passwd: %v", err)
	}
	defer f.Close()
	if _, why := fileContents(int(f.Fd()), other, DefaultMaxPassed, anySize); why != nativeFDPath {
		t.Errorf("/etc/passwd: reason %d, want %d", why, nativeFDPath)
	}
	if data, why := fileContents(int(f.Fd()), &message{known: true}, DefaultMaxPassed, anySize); why != noReason {
		t.Errorf("/etc/passwd from root: reason %d", why)
	} else {
		_ = unix.Munmap(data)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestBadDatagramsLeakNoDescriptors(t *testing.T) {
	r := start(t)
	_ = control1(r.syslog.rx.raw, func(fd int) error { return passRights(fd, true) }) // as kernels before 6.16
	nat, sys := r.dial(nativeSocket), r.dial(syslogSocket)
	fd := memfd(t, []byte("MESSAGE=x\n"), 0)
	many := make([]int, 253)
	for i := range many {
		many[i] = fd
	}
	r.write(nat, "MESSAGE=first\n")
	r.barrier()
	before := openFDs(t)
	for i := range 2500 {
		r.sendFDs(nat, []byte("MESSAGE=x\n"), fd)
		r.sendFDs(nat, nil, fd, fd)
		r.sendFDs(sys, []byte("x"), fd, fd, fd)
		if i%10 == 0 {
			r.sendFDs(nat, nil, many...)
		} else {
			r.sendFDs(sys, nil, fd)
		}
	}
	r.barrier()
	r.closer.running.Wait()
	if after := openFDs(t); after != before {
		t.Errorf("%d open descriptors, %d before", after, before)
	}
	bad := r.count("native", "unexpected_fds") + r.count("native", "control_truncated") + r.count("syslog", "unexpected_fds")
	if bad != 10_000 {
		t.Errorf("%d counted as bad, want 10000", bad)
	}
}
