package ingest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A batch can be filled up, and is whole and in order then.
func TestMoreOfABatch(t *testing.T) {
	in, err := Open(testConfig(t), &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	c, err := net.Dial("unixgram", filepath.Join(in.cfg.Dir, nativeSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	rx, sent := in.native.rx, 0
	send := func(n int) {
		for range n {
			if _, err := fmt.Fprintf(c, "MESSAGE=%d\n", sent); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		for i := range rx.n {
			var m message
			rx.message(i, &m)
			m.close(in.closer)
			got = append(got, strings.TrimSpace(string(m.data)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batch (-want +got):\n%s", diff)
		}
	}
	send(2)
	if err := rx.receive(true); err != nil {
		t.Fatal(err)
	}
	check("MESSAGE=0", "MESSAGE=1")
	for range 2 { // the second time there is nothing
		if err := rx.more(); err != nil {
			t.Fatal(err)
		}
	}
	check("MESSAGE=0", "MESSAGE=1")
	send(3)
	if err := rx.more(); err != nil || !rx.empty {
		t.Fatal(err, rx.empty)
	}
	check("MESSAGE=0", "MESSAGE=1", "MESSAGE=2", "MESSAGE=3", "MESSAGE=4")
	send(1)
	if err := rx.receive(true); err != nil {
		t.Fatal(err)
	}
	check("MESSAGE=5")
	send(2)
	if err := in.native.gather(); err != nil {
		t.Fatal(err)
	}
	check("MESSAGE=5", "MESSAGE=6", "MESSAGE=7")
}

// A batch comes in pieces and is whole: also one that ends with a piece, and one
// that leaves something for the next.
func TestBatchInPieces(t *testing.T) {
	// A queue of Unix datagrams may hold no more than ten.
	l, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Skipf("needs a loopback address: %v", err)
	}
	defer func() { _ = l.Close() }()
	if err := l.SetReadBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp4", l.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var file *os.File
	err = control1(raw, func(fd int) error {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		file = os.NewFile(uintptr(fd), "udp")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rx, err := newReceiver(file)
	if err != nil {
		t.Fatal(err)
	}
	defer rx.bell.close()
	defer rx.release()
	if err := rx.bell.deadline(time.Now().Add(hang)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, recvPiece - 1, recvPiece, recvPiece + 1, 2 * recvPiece, recvSlots, recvSlots + 1} {
		for i := range n {
			if _, err := fmt.Fprint(c, i); err != nil {
				t.Fatal(err)
			}
		}
		for next, room := 0, true; room; {
			if err := rx.receive(next < n); err != nil {
				t.Fatal(err)
			}
			var m message
			for i := range rx.n {
				if rx.message(i, &m); string(m.data) != itoa(next) {
					t.Fatalf("of %d: %q instead of %d", n, m.data, next)
				}
				next++
			}
			if room = rx.n == recvSlots; rx.empty == room {
				t.Errorf("of %d: a batch of %d, and found empty %v", n, rx.n, rx.empty)
			}
			if !room && next != n {
				t.Errorf("%d of %d", next, n)
			}
		}
	}
}
