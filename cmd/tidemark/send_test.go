package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// nativeSocket is a socket as the daemon's, in a directory of its own.
func nativeSocket(t *testing.T) (dir string, conn *net.UnixConn) {
	t.Helper()
	dir = sockdir.New(t)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return dir, conn
}

// received returns the fields of every entry sent, sorted and printed, until the
// sender has ended. A passed file stands for its contents.
func received(t *testing.T, conn *net.UnixConn) <-chan []string {
	t.Helper()
	all := make(chan []string, 1)
	go func() {
		var got []string
		var d entry.NativeDecoder
		buf, oob := make([]byte, 20<<20), make([]byte, 64)
		for {
			n, m, _, _, err := conn.ReadMsgUnix(buf, oob)
			if err != nil || n == 3 && string(buf[:n]) == "end" {
				break
			}
			data := buf[:n]
			if m > 0 {
				data = passedFile(t, n, oob[:m])
			}
			for _, e := range d.Decode(data) {
				var words []string
				for _, f := range e.Fields {
					words = append(words, string(f))
				}
				slices.Sort(words)
				got = append(got, strings.Join(words, " "))
			}
		}
		all <- got
	}()
	return all
}

// passedFile checks that a datagram is a sealed memory file and no more, and
// returns the contents.
func passedFile(t *testing.T, n int, oob []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		t.Errorf("control messages %v, %v", messages, err)
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 || n != 0 {
		t.Errorf("%d bytes, files %v, %v; want 0 bytes and one file", n, fds, err)
		return nil
	}
	f := os.NewFile(uintptr(fds[0]), "passed")
	defer f.Close()
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals != unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE {
		t.Errorf("seals %#x, %v", seals, err)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Error(err)
	}
	return data
}

// send runs the verb and returns what arrived, and its error.
func send(t *testing.T, stdin string, args ...string) ([]string, error) {
	t.Helper()
	dir, conn := nativeSocket(t)
	all := received(t, conn)
	root, _ := newRootCmd()
	root.SetIn(strings.NewReader(stdin))
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"send", "--run", dir}, args...))
	err := root.ExecuteContext(context.Background())
	end, dialErr := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixgram"})
	if dialErr != nil {
		t.Fatal(dialErr)
	}
	defer end.Close()
	if _, err := end.Write([]byte("end")); err != nil {
		t.Fatal(err)
	}
	return <-all, err
}

func TestSend(t *testing.T) {
	t.Setenv("LOGNAME", "me")
	large := strings.Repeat("x", 20<<20) // the kernel doubles the buffer of 8 MiB that is asked for
	tests := []struct {
		name, stdin string
		args        []string
		want        []string
	}{
		{"message", "", []string{"hello", "world"}, []string{"MESSAGE=hello world PRIORITY=6 SYSLOG_IDENTIFIER=me"}},
		{"flags", "", []string{"-t", "x", "-p", "err", "hi"}, []string{"MESSAGE=hi PRIORITY=3 SYSLOG_IDENTIFIER=x"}},
		{"facility", "", []string{"-t", "x", "-p", "daemon.warn", "hi"}, []string{"MESSAGE=hi PRIORITY=4 SYSLOG_FACILITY=3 SYSLOG_IDENTIFIER=x"}},
		{"numbers", "", []string{"-t", "x", "-p", "16.7", "hi"}, []string{"MESSAGE=hi PRIORITY=7 SYSLOG_FACILITY=16 SYSLOG_IDENTIFIER=x"}},
		{"fields", "", []string{"-t", "x", "A=1", "B_2=two words", "hi", "C=3"}, []string{"A=1 B_2=two words MESSAGE=hi C=3 PRIORITY=6 SYSLOG_IDENTIFIER=x"}},
		{"no field names", "", []string{"-t", "x", "a=1", "B=2"}, []string{"MESSAGE=a=1 B=2 PRIORITY=6 SYSLOG_IDENTIFIER=x"}},
		{"fields only", "", []string{"MESSAGE=A=1", "PRIORITY=1", "SYSLOG_IDENTIFIER=y"}, []string{"MESSAGE=A=1 PRIORITY=1 SYSLOG_IDENTIFIER=y"}},
		{"several lines in a message", "", []string{"-t", "x", "a\nb"}, []string{"MESSAGE=a\nb PRIORITY=6 SYSLOG_IDENTIFIER=x"}},
		{
			"lines of standard input", "one\n\n  two \n<3>three\n<9>four\nlast",
			[]string{"-t", "x", "A=1"},
			[]string{
				"A=1 MESSAGE=one PRIORITY=6 SYSLOG_IDENTIFIER=x", "A=1 MESSAGE=  two  PRIORITY=6 SYSLOG_IDENTIFIER=x",
				"A=1 MESSAGE=three PRIORITY=3 SYSLOG_IDENTIFIER=x", "A=1 MESSAGE=<9>four PRIORITY=6 SYSLOG_IDENTIFIER=x",
				"A=1 MESSAGE=last PRIORITY=6 SYSLOG_IDENTIFIER=x",
			},
		},
		{"no level prefix", "<3>three\n", []string{"-t", "x", "--level-prefix=false"}, []string{"MESSAGE=<3>three PRIORITY=6 SYSLOG_IDENTIFIER=x"}},
		{"no input", "", nil, nil},
		{"longer than a datagram", "", []string{"-t", "x", "MESSAGE=" + large}, []string{"MESSAGE=" + large + " PRIORITY=6 SYSLOG_IDENTIFIER=x"}},
		{"command", "from stdin\n", []string{"A=1", "--", "sh", "-c", "cat; echo; printf rest"}, []string{"A=1 MESSAGE=from stdin PRIORITY=6 SYSLOG_IDENTIFIER=sh", "A=1 MESSAGE=rest PRIORITY=6 SYSLOG_IDENTIFIER=sh"}},
		{"command's standard error", "", []string{"-t", "x", "--", "sh", "-c", "echo '<4>oops' >&2"}, []string{"MESSAGE=oops PRIORITY=4 SYSLOG_IDENTIFIER=x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := send(t, tt.stdin, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// A line longer than the limit is broken, nothing of it is lost.
func TestSendLongLine(t *testing.T) {
	line := strings.Repeat("0123456789", 150_000)
	got, err := send(t, line+"\n", "-t", "x")
	if err != nil {
		t.Fatal(err)
	}
	var whole strings.Builder
	for _, e := range got {
		text, _ := strings.CutPrefix(e, "MESSAGE=")
		text, _ = strings.CutSuffix(text, " PRIORITY=6 SYSLOG_IDENTIFIER=x")
		whole.WriteString(text)
	}
	if len(got) != 2 || whole.String() != line {
		t.Errorf("%d entries of %d bytes, want 2 of %d", len(got), whole.Len(), len(line))
	}
}

func TestSendExitCodes(t *testing.T) {
	tests := []struct {
		name string
		args []string
		code int
		line string // of the error
	}{
		{"command's own code", []string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{"command ended by a signal", []string{"--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{"no such command", []string{"--", "/nonexistent/x"}, 127, "run /nonexistent/x: no such file or directory: name a program that is there, or check the interpreter in its first line"},
		{"command not in PATH", []string{"--", "nonexistent-x"}, 127, "run nonexistent-x: executable file not found in $PATH: install it, or name it with its path"},
		{"not executable", []string{"--", "/"}, 126, "run /: is a directory: name a program that can be run"},
		{"no right to execute", []string{"--", "/dev/null"}, 126, "run /dev/null: permission denied: name a program that you may execute: see chmod +x"},
		{"no command", []string{"--"}, 2, "a command is missing behind --"},
		{"message and command", []string{"hi", "--", "true"}, 2, `"hi": a message and a command exclude each other`},
		{"trusted field", []string{"_PID=1", "hi"}, 2, "_PID: names that begin with _ are for the daemon to set"},
		{"bad level", []string{"-p", "loud", "hi"}, 2, `-p loud: invalid level "loud": want emerg, alert, crit, err, warning, notice, info, debug or 0 to 7`},
		{"bad facility", []string{"-p", "x.err", "hi"}, 2, `-p x.err: invalid facility "x": want for example user, daemon or local0`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := send(t, "", tt.args...)
			code, line := outcome(err)
			if code != tt.code || line != tt.line || len(got) > 0 {
				t.Errorf("exit %d, %q, entries %q; want %d, %q, none", code, line, got, tt.code, tt.line)
			}
		})
	}
}

func TestSendWithoutDaemon(t *testing.T) {
	dir := sockdir.New(t)
	var stderr bytes.Buffer
	if code := run([]string{"tidemark", "send", "--run", dir, "hi"}, &stderr); code != exitFailed {
		t.Errorf("exit %d, want %d", code, exitFailed)
	}
	want := "tidemark send: " + dir + "/socket: no daemon answers: start one with tidemark serve, or say where it is with --run or TIDEMARK_RUN"
	got, _, _ := strings.Cut(strings.TrimSuffix(stderr.String(), "\n"), "; root's would be in ") // if this machine has one
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	stderr.Reset()
	dir = filepath.Join(dir, strings.Repeat("x", 100))
	code := run([]string{"tidemark", "send", "--run", dir, "hi"}, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "socket path longer than 107 bytes") {
		t.Errorf("exit %d, %q; want 1 and the longest path", code, stderr.String())
	}
}

// A daemon that was started anew between two messages gets the second one.
func TestSendReconnects(t *testing.T) {
	dir, first := nativeSocket(t)
	path := filepath.Join(dir, "socket")
	s := &sender{socket: path, level: 6}
	if err := s.dial(); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := errors.Join(first.Close(), os.RemoveAll(path)); err != nil {
		t.Fatal(err)
	}
	second, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := s.send([]byte("MESSAGE=again"), s.level); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := second.Read(buf)
	if diff := cmp.Diff("MESSAGE=again\nPRIORITY=6\n", string(buf[:n])); diff != "" || err != nil {
		t.Errorf("datagram %v (-want +got):\n%s", err, diff)
	}
}

// Without LOGNAME and USER, as in a container, the tag is the user's name all the
// same, or the number of one who has none.
func TestSendTagOfTheUser(t *testing.T) {
	t.Setenv("LOGNAME", "")
	t.Setenv("USER", "")
	want := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(want); err == nil {
		want = u.Username
	}
	if got := sendTag("", nil); got != want {
		t.Errorf("the tag is %q, want %q", got, want)
	}
}
