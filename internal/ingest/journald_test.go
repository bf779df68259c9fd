package ingest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

const journaldBinary = "/lib/systemd/systemd-journald"

// oddNative are datagrams. Left out is where we differ on purpose: an entry
// without fields does not end a datagram here, as entry.NativeDecoder says.
func oddNative() []string {
	bin := func(name, value string) string {
		n := len(value)
		return name + "\n" + string([]byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0}) + value + "\n"
	}
	return []string{
		"MESSAGE=plain\nPRIORITY=5\n",
		"MESSAGE=a\nTAG=x\nTAG=y\nTAG=x\n",
		"MESSAGE=one\n\nMESSAGE=two\n",
		bin("MESSAGE", "two\nlines") + bin("BIN", "\x00\x01\xff") + bin("EMPTY", ""),
		bin("lower", "x") + bin("_TRUSTED", "y") + bin("9DIGIT", "z") + "MESSAGE=bad names\n",
		"lower=1\n_PID=1\n1X=2\n=3\nA B=4\nMESSAGE=bad names\n" + strings.Repeat("N", 64) + "=ok\n" + strings.Repeat("N", 65) + "=not\n",
		"MESSAGE=noise follows\nNOISE=x",
		"MESSAGE=broken binary\nBIN\n\x05\x00\x00\x00\x00\x00\x00\x00abc\n",
		"MESSAGE=binary without end\nBIN\n\x03\x00\x00\x00\x00\x00\x00\x00abcX=1\n",
		"MESSAGE=huge binary\nBIN\n\xff\xff\xff\xff\xff\xff\xff\xffabc\n",
		"MESSAGE=short binary\nBIN\n\x05",
		".control\n#comment\nMESSAGE=after a comment\n",
		"E=\nMESSAGE=\n",
		"MESSAGE=empty before\nX\n",
		"lower=only\n",
		"PRIORITY=9\nMESSAGE=bad priority\n",
		"PRIORITY=77\nSYSLOG_FACILITY=x\nMESSAGE=bad numbers\n",
		"MESSAGE=\xff\xfe not utf8\n",
		"MESSAGE=tab\there\x01\n",
		"OBJECT_PID=" + itoa(os.Getpid()) + "\nMESSAGE=about the test\n",
		"OBJECT_PID=999999999999\nMESSAGE=about nobody\n",
		"_TRANSPORT=kernel\nMESSAGE=pretends\n",
		"MESSAGE=long " + strings.Repeat("x", 100_000) + "\n",
		manyFields(1000),
	}
}

func manyFields(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "MESSAGE=%d fields\n", n)
	for i := range n - 1 {
		fmt.Fprintf(&b, "F%d=x\n", i)
	}
	return b.String()
}

func oddSyslog() []string {
	return []string{
		"<13>Nov 30 09:49:00 myapp[77]: syslog full",
		"<13>Nov 30 09:49:00 myapp[77]: syslog full  ",
		"<13>Nov 30 09:49:00 myapp[77]: newline\n",
		"<30>noident no timestamp",
		"plain text: here",
		"<3>Nov  1 01:02:03 host app: text",
		"<3>Nov  1  1: 2: 3 app: text",
		"<3>Nov  1 01:02:03 app:  two blanks",
		"<3>Nov  1 01:02:03 app:\ttab",
		"<3>Nov  1 01:02:03 app:",
		"<3>Nov  1 01:02:03 app]: text",
		"<3>Nov  1 01:02:03 app[]: text",
		"<3>Nov  1 01:02:03 a[b[c]: text",
		"<3>Nov  1 01:02:03 : only a colon",
		"<3>Nov  1 01:02:03 []: only brackets",
		"<3>Nov  1 01:02:03 [9]: only a pid",
		"<3>Nov  1 01:02:03  app: blank before",
		"<999>Nov  1 01:02:03 a: largest",
		"<1000>Nov  1 01:02:03 a: too large",
		"<0013>Nov  1 01:02:03 a: four digits",
		"<>a",
		"<1",
		"<007>Nov  1 01:02:03 a: zeroes",
		"<-1>Nov  1 01:02:03 a: minus",
		"<3>Nov  1 01:02:03 a: b\x00c",
		"<3>Nov  1 01:02:03 a: b\x00",
		"<3>Nov  1 01:02:03 a: b \x00c ",
		"   ",
		"\n",
		"\x00",
		"\x00abc",
		" \x00 ",
		" <3>Nov  1 01:02:03 a: blank before",
		"\t<3>Nov  1 01:02:03 a: tab before",
		"<3>Nov  1 01:02:03 a: inner\nnewline",
		"<3>Nov  1 01:02:03 a: \xff\xfe",
		"<3>Nov  1 01:02:0",
		"<3>Nov  1 01:02:03 ",
		"<3>Nov  1 01:02:03 a",
		"<3>xyz 91 91:92:93 a: any letters",
		"<0>a: b",
		"<8>Nov  1 01:02:03 a: facility 1",
		"<3>Nov  1 01:02:03 a: long " + strings.Repeat("x", 60_000),
	}
}

func oddStreams() []string {
	const h = "ident\n\n6\n1\n0\n0\n0\n"
	return []string{
		h + "plain\n",
		h + "  leading and trailing  \t \n   \n\n\t\n<3>level\n<9>no level\n<07>two digits\n<3>\n<3>  blanks\n  <3>late\n",
		h + "nul\x00in\x00\x00side\n",
		h + "no end",
		h + strings.Repeat("0123456789", 99) + "012345678\n",
		h + strings.Repeat("0123456789", 100) + "\n",
		h + strings.Repeat("0123456789", 250) + "\nafter\n",
		h + strings.Repeat(" ", 1500) + "\n",
		h + "\xff\xfe\x01 bytes\n",
		"ident\nfoo.unknown\n30\nyes\nno\ntrue\noff\nunit\n",
		"\nnot a unit\n0\n0\n0\n0\n0\n<3>no prefixes\n",
		"  padded  \n x@.service \n 14 \n t \n f \n Y \n N \npadded header\n",
		"ident\n\n999\n1\n0\n0\n0\nlargest\n<0>most urgent\n",
		"ident\n\n1000\n1\n0\n0\n0\nnever\n",
		"ident\n\n6\n2\n0\n0\n0\nnever\n",
		"ident\n\n6\n1\n0\n0\n0",
		"ident\x00\n6\n1\n0\n0\n0\nnever\n",
		strings.Repeat("i", 254) + "\n\n6\n1\n0\n0\n0\nlong identifier\n",
		strings.Repeat("i", 255) + "\n\n6\n1\n0\n0\n0\nnever\n",
		h + "\r\ncarriage\r\n\rreturn\n",
	}
}

// both sends everything to a real journald and to an Ingest.
func both(ours string) error {
	if err := os.WriteFile("/proc/self/comm", []byte("odd\"\x01\\\xc3é \n"), 0); err != nil {
		return err
	}
	for _, dir := range []string{"/run/systemd/journal", ours} {
		if err := sendAll(filepath.Join(dir, nativeSocket), oddNative()); err != nil {
			return err
		}
		if err := sendMemfd(filepath.Join(dir, nativeSocket)); err != nil {
			return err
		}
		if err := sendAll(filepath.Join(dir, syslogSocket), oddSyslog()); err != nil {
			return err
		}
		for _, text := range oddStreams() {
			c, err := net.Dial("unix", filepath.Join(dir, stdoutSocket))
			if err != nil {
				return err
			}
			if _, err := io.WriteString(c, text); err != nil {
				return err
			}
			if err := c.(*net.UnixConn).CloseWrite(); err != nil {
				return err
			}
			_ = c.Close()
		}
	}
	if err := exec.Command("journalctl", "--sync").Run(); err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{'x'}); err != nil {
		return err
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

func sendAll(path string, datagrams []string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetWriteBuffer(1 << 20); err != nil {
		return err
	}
	for _, d := range datagrams {
		if _, err := c.Write([]byte(d)); err != nil {
			return err
		}
	}
	return nil
}

func sendMemfd(path string) error {
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.Write(fd, []byte("MESSAGE=memfd "+strings.Repeat("y", 300_000)+"\n\nMESSAGE=second\n")); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, allSeals); err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	return unix.Sendmsg(s, nil, unix.UnixRights(fd), &unix.SockaddrUnix{Name: path}, 0)
}

// TestAgainstJournald sends the same odd things to a real journald and compares
// every field that is stored.
func TestAgainstJournald(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a private journald")
	}
	if _, err := os.Stat(journaldBinary); err != nil {
		t.Skipf("needs systemd-journald: %v", err)
	}
	cfg := testConfig(t)
	cfg.Hostname = ""
	cfg.LineMax = 1000
	cfg.Kmsg = "/dev/kmsg"
	cfg.BootID, cfg.MachineID = systemID(t, "/proc/sys/kernel/random/boot_id"), systemID(t, "/etc/machine-id")
	for _, line := range []string{
		"<12>ingest[12]: escapes \\ \x01 \xff \"quoted\"", "<12>ingest no colon", "<9>:", "<14>a[b]: c", "<15>ingest: end",
	} {
		if err := os.WriteFile("/dev/kmsg", []byte(line+"\n"), 0); err != nil {
			t.Skipf("needs /dev/kmsg: %v", err)
		}
	}
	r := startWith(t, cfg, &fakeSink{})
	data := t.TempDir()
	cmd := helper(t, "both", nil, data, cfg.Dir)
	exe := cmd.Path
	cmd.Path, cmd.Args = "/bin/bash", []string{
		"bash", "testdata/with-journald.sh", data, exe, cfg.Dir,
		"", "two words", "a$b`c\\d\"e", "it's", "tab\tnewline\n", "bell\a\x1b\x7f", "\xff\xfe", "ü€", "*.go", "a;b|c", "\uffff", "-x=1", "", "",
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The sender lives until both have seen who it is.
	_, _ = stdout.Read(make([]byte, 1))
	_ = r.Barrier(t.Context())
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 77 {
			t.Skip("a private journald does not start here")
		}
		t.Fatal(err)
	}
	theirs := readExport(t, filepath.Join(data, "export"))
	ours := r.barrier()
	for _, transport := range []string{"journal", "syslog", "stdout", "kernel"} {
		want, got := essence(theirs, transport), essence(ours, transport)
		if len(want) == 0 {
			t.Errorf("%s: journald has stored nothing", transport)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-journald +ours):\n%s", transport, d)
		}
	}
}

func systemID(t *testing.T, path string) entry.ID {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("needs %s: %v", path, err)
	}
	id, err := entry.ParseID(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func readExport(t *testing.T, path string) (all []entry.Entry) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	x := entry.NewExportReader(f, entry.ExportOptions{})
	for {
		e, err := x.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		kept := entry.Entry{}
		for _, f := range e.Fields {
			kept.Fields = append(kept.Fields, slices.Clone(f))
		}
		all = append(all, kept)
	}
}

// essence are the fields of the entries with a transport, sorted, without
// what cannot be equal.
func essence(entries []entry.Entry, transport string) (all []string) {
	for _, e := range entries {
		if v, _ := e.Get("_TRANSPORT"); string(v) != transport {
			continue
		}
		if v, _ := e.Get("SYSLOG_IDENTIFIER"); string(v) == "systemd-journald" {
			continue // what it says itself in the kernel's log
		}
		var fields []string
		for _, f := range e.Fields {
			switch string(f.Name()) {
			case "_SOURCE_REALTIME_TIMESTAMP", "_STREAM_ID":
				f = append(f.Name(), "=…"...)
			}
			fields = append(fields, fmt.Sprintf("%.200q", f))
		}
		slices.Sort(fields)
		all = append(all, strings.Join(slices.Compact(fields), "\n"))
	}
	if transport == "stdout" {
		slices.Sort(all) // each stream is on its own
	}
	return all
}
