package render

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

// awkward are entries of fields that each format treats in its own way, some of
// them again and again.
func awkward(t testing.TB) []*entry.Entry {
	var out []*entry.Entry
	for i := range 40 {
		fields := []string{
			"_UID=0", "_HOSTNAME=vm", "PRIORITY=5", "_BOOT_ID=710d035a90fb403c855864972948eda1", "EMPTY=",
			fmt.Sprintf("MESSAGE=%d", i/3), "QUOTED=a \"b\" \\", "UMLAUT=zürich", "LINES=a\nb", "BINARY=\x00\xff",
			"LONG=" + strings.Repeat("x", 5000), "TAB=a\tb", fmt.Sprintf("_SOURCE_REALTIME_TIMESTAMP=%d", 1796032311503573+i),
			"SYSLOG_IDENTIFIER=tide", "_PID=12", "SYSLOG_PID=13", "_COMM=c", "_TRANSPORT=audit", "_SYSTEMD_UNIT=a.service",
			"_SYSTEMD_USER_UNIT=b.service", fmt.Sprintf("_SOURCE_MONOTONIC_TIMESTAMP=%d", 7+i),
		}
		switch i % 8 {
		case 1:
			fields = append(fields, "TAG=a", "TAG=b", "MESSAGE=again")
		case 2:
			fields = append(fields, "__CURSOR=no", "__X=y")
		case 3:
			for k := range 70 {
				fields = append(fields, fmt.Sprintf("N%d=%d", k, i))
			}
		case 4:
			fields = slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, "MESSAGE=") })
		}
		e := hello(t, fields...)
		e.Realtime += uint64(i) * 1_000_000
		e.Monotonic += uint64(i)
		out = append(out, e)
	}
	return out
}

// What PrintKnown prints is what Print prints, also of only the Fields.
func TestPrintKnownEqualsPrint(t *testing.T) {
	entries := awkward(t)
	for _, o := range []Options{{}, {All: true}, {OutputFields: []string{"MESSAGE", "TAG", "_BOOT_ID", "__X"}}} {
		o.Location = time.UTC
		for _, mode := range Modes() {
			want := print(t, mode, o, entries...)
			var out bytes.Buffer
			w := bufio.NewWriter(&out)
			p, err := New(mode, w, o)
			if err != nil {
				t.Fatal(err)
			}
			names := p.(*Formatter).Fields()
			known := map[string]uint64{}
			for _, e := range entries {
				var ids []uint64
				few := *e
				few.Fields = nil
				for _, f := range e.Fields {
					if names != nil && !slices.Contains(names, string(f.Name())) {
						continue
					}
					few.Fields = append(few.Fields, f)
					if known[string(f)] == 0 {
						known[string(f)] = uint64(len(known)+1) * 8
					}
					id := known[string(f)]
					if len(known)%7 == 0 {
						id = 0
					}
					ids = append(ids, id)
				}
				if err := p.(*Formatter).PrintKnown(&few, ids); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("%s, %+v (-Print +PrintKnown):\n%s", mode, o, diff)
			}
		}
	}
}

// A field with an invalid name ends an export, known or not.
func TestPrintKnownInvalidName(t *testing.T) {
	p, err := New("export", bufio.NewWriter(io.Discard), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.(*Formatter).PrintKnown(hello(t, "bad=1"), []uint64{8}); err == nil || err.Error() != "Invalid field." {
			t.Errorf("error %v", err)
		}
	}
}

func TestPrintKnownAllocatesNothing(t *testing.T) {
	e := hello(t)
	for _, mode := range Modes() {
		p, err := New(mode, bufio.NewWriter(io.Discard), Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]uint64, len(e.Fields))
		for i := range ids {
			ids[i] = uint64(i) * 8
		}
		n := testing.AllocsPerRun(200, func() {
			e.Realtime += 1_000_003
			if err := p.(*Formatter).PrintKnown(e, ids); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%s: %.1f allocations an entry", mode, n)
		}
	}
}
