package ingest

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
