package render

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// FuzzPrint checks what a terminal may rely on: whatever an entry holds, the
// line modes and verbose print whole lines of printable text, and no escape
// sequences, unless all of it is asked for.
func FuzzPrint(f *testing.F) {
	f.Add([]byte("plain"), []byte("vm"), []byte("id"), uint16(80))
	f.Add([]byte("\x1b[31mred\x1b[0m\ttab\r\n\x1b]8;;u\a"), []byte("h\x1b"), []byte("\xff"), uint16(30))
	f.Add([]byte("é日本\x1b[\x1b]0;t\x1b\x00m\u0085"), []byte(""), []byte("i\n\n"), uint16(3))
	f.Add(bytes.Repeat([]byte("wide 日本 "), 60), []byte("h"), []byte("1"), uint16(400))
	f.Fuzz(func(t *testing.T, message, host, ident []byte, columns uint16) {
		e := hello(t, "MESSAGE="+string(message), "_HOSTNAME="+string(host), "SYSLOG_IDENTIFIER="+string(ident), "_SYSTEMD_UNIT="+string(ident), "_PID="+string(host), "_SOURCE_REALTIME_TIMESTAMP="+string(ident))
		for _, mode := range Modes() {
			for _, o := range []Options{{}, {NoFull: true, Columns: int(columns)}, {All: true}, {Colors: Colors256, NoFull: true}} {
				var out bytes.Buffer
				w := bufio.NewWriter(&out)
				p, err := New(mode, w, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Print(e); err != nil {
					t.Fatal(err)
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
					t.Errorf("%s: no newline at the end of %q", mode, out.Bytes())
				}
				plain := !o.All && o.Colors == None && mode != "cat" && mode != "export" && mode != "json-seq"
				if plain && !entry.Printable(out.Bytes(), true) {
					t.Errorf("%s: not printable: %q", mode, out.Bytes())
				}
			}
		}
	})
}

// TestReuse checks that nothing of an entry stays for the next one.
func TestReuse(t *testing.T) {
	first := hello(t, "MESSAGE=\x1b[1mlong message of the first\ttab", "_HOSTNAME=h", "SYSLOG_IDENTIFIER=i", "_PID=1", "_SYSTEMD_UNIT=u")
	second := hello(t, "MESSAGE=2")
	for _, mode := range Modes() {
		if mode == "short-delta" {
			continue // it is about the entry before
		}
		alone, both := print(t, mode, Options{}, second), print(t, mode, Options{}, first, second)
		if !bytes.HasSuffix([]byte(both), []byte(alone)) {
			t.Errorf("%s: %q does not end in %q", mode, both, alone)
		}
	}
	var large bytes.Buffer
	w := bufio.NewWriter(&large)
	p, err := New("cat", w, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Print(hello(t, "MESSAGE="+string(bytes.Repeat([]byte("x"), 3*keepBuffer)))); err != nil {
		t.Fatal(err)
	}
	if got := cap(p.(*Formatter).buf); got > keepBuffer {
		t.Errorf("a printer keeps %d bytes", got)
	}
}
