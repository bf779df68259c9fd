package linelog

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
)

// FuzzRepair marks the end of any file, with calls that fail on the way, by Repair and
// by a shared writer that comes behind it: nothing is moved, no byte of a whole line is
// changed, and the next line has its own start.
func FuzzRepair(f *testing.F) {
	for _, text := range []string{"", "\n", "x", "whole\n", "whole\ntorn", "whole\nt", "\x00\xff", strings.Repeat("long", 600), "a\n" + strings.Repeat("é", 40000)} {
		f.Add([]byte(text), byte(0), byte(0))
		f.Add([]byte(text), byte(1), byte(5))
		f.Add([]byte(text), byte(2), byte(2))
	}
	f.Fuzz(func(t *testing.T, text []byte, how, fault byte) {
		o := Options{MaxLine: 1000, Torn: Torn(how & 1), Shared: how&2 != 0}
		if how&4 != 0 {
			o.Lock = LockFlock
		}
		fs := crashfs.New(uint64(fault))
		if err := fs.MkdirAll("/var/log", 0o755); err != nil {
			t.Fatal(err)
		}
		seed(string(text))(fs)
		o.FS = fs
		if !o.Shared {
			calls := 0
			fs.FailWhen(func(int, crashfs.Op) (crashfs.Kind, error) {
				if calls++; calls != int(fault) {
					return 0, nil
				}
				return crashfs.Kind(how >> 3 % 3), syscall.EIO
			})
			r, err := Repair(logPath, o)
			if fs.FailWhen(nil); err != nil {
				r, err = Repair(logPath, o)
			}
			if err != nil {
				t.Fatal(err)
			}
			wantRepaired(t, text, fs.Bytes(logPath), r)
			if r, err := Repair(logPath, o); r.Bytes != 0 || err != nil {
				t.Fatalf("a second Repair: %+v, %v", r, err)
			}
		}
		w, err := Open(logPath, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("next\n")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, found := bytes.CutSuffix(fs.Bytes(logPath), []byte("\nnext\n"))
		switch {
		case len(text) == 0:
			if string(fs.Bytes(logPath)) != "next\n" {
				t.Errorf("%q", fs.Bytes(logPath))
			}
		case !found:
			t.Errorf("the next line has no start of its own: %q", fs.Bytes(logPath))
		default:
			begin := bytes.LastIndexByte(text, '\n') + 1
			if !bytes.HasPrefix(append(got, '\n'), text[:begin]) || len(got)+1 < len(text) || len(got) > len(text) {
				t.Errorf("whole lines of %q have changed: %q", text, got)
			}
		}
	})
}

// wantRepaired holds a file against what it was.
func wantRepaired(t *testing.T, was, is []byte, r Repaired) {
	t.Helper()
	begin := bytes.LastIndexByte(was, '\n') + 1
	switch {
	case len(is) != len(was) || !bytes.Equal(is[:begin], was[:begin]):
		t.Errorf("%q has become %q", was, is)
	case len(is) > 0 && is[len(is)-1] != '\n':
		t.Errorf("%q ends in a part of a line", is)
	case r.Bytes > 0 && r.Offset+r.Bytes != int64(len(was)):
		t.Errorf("%+v of a file of %d bytes", r, len(was))
	}
}
