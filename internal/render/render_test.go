package render

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

func mustID(t testing.TB, s string) entry.ID {
	t.Helper()
	id, err := entry.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// hello is the entry of the captures, as a native client sent it.
func hello(t testing.TB, fields ...string) *entry.Entry {
	e := &entry.Entry{
		Realtime: 1796032311504106, Monotonic: 657493032, Seqnum: 3, XorHash: 0xd0ef89f6b83c2c02,
		BootID:   mustID(t, "710d035a90fb403c855864972948eda1"),
		SeqnumID: mustID(t, "f8335c9dc2c74a6e8081fb88dcbbd7ff"),
	}
	if fields == nil {
		fields = []string{
			"_UID=0", "_HOSTNAME=vm", "MESSAGE=hello native", "PRIORITY=5", "SYSLOG_IDENTIFIER=tide", "TAG=a", "TAG=b",
			"_PID=13721", "_COMM=python3", "_BOOT_ID=710d035a90fb403c855864972948eda1", "_SOURCE_REALTIME_TIMESTAMP=1796032311503573",
		}
	}
	for _, f := range fields {
		e.Fields = append(e.Fields, entry.Field(f))
	}
	return e
}

// print renders entries in one go.
func print(t testing.TB, mode string, o Options, es ...*entry.Entry) string {
	t.Helper()
	if o.Location == nil {
		o.Location = time.UTC
	}
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	p, err := New(mode, w, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if err := p.Print(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const helloCursor = "s=f8335c9dc2c74a6e8081fb88dcbbd7ff;i=3;b=710d035a90fb403c855864972948eda1;m=27308c28;t=6617b5beeacea;x=d0ef89f6b83c2c02"

// TestModes compares with what journalctl 252 printed for the same entry.
func TestModes(t *testing.T) {
	for mode, want := range map[string]string{
		"short":             "Nov 30 09:51:51 vm tide[13721]: hello native\n",
		"short-precise":     "Nov 30 09:51:51.503573 vm tide[13721]: hello native\n",
		"short-iso":         "2026-11-30T09:51:51+0000 vm tide[13721]: hello native\n",
		"short-iso-precise": "2026-11-30T09:51:51.503573+0000 vm tide[13721]: hello native\n",
		"short-full":        "Mon 2026-11-30 09:51:51 UTC vm tide[13721]: hello native\n",
		"short-monotonic":   "[  657.493032] vm tide[13721]: hello native\n",
		"short-delta":       "[  657.493032                ] vm tide[13721]: hello native\n",
		"short-unix":        "1796032311.503573 vm tide[13721]: hello native\n",
		"with-unit":         "Mon 2026-11-30 09:51:51 UTC vm tide[13721]: hello native\n",
		"cat":               "hello native\n",
		"verbose": "Mon 2026-11-30 09:51:51.503573 UTC [" + helloCursor + "]\n    _UID=0\n    _HOSTNAME=vm\n    MESSAGE=hello native\n" +
			"    PRIORITY=5\n    SYSLOG_IDENTIFIER=tide\n    TAG=a\n    TAG=b\n    _PID=13721\n    _COMM=python3\n" +
			"    _BOOT_ID=710d035a90fb403c855864972948eda1\n    _SOURCE_REALTIME_TIMESTAMP=1796032311503573\n",
		"export": "__CURSOR=" + helloCursor + "\n__REALTIME_TIMESTAMP=1796032311504106\n__MONOTONIC_TIMESTAMP=657493032\n" +
			"_BOOT_ID=710d035a90fb403c855864972948eda1\n_UID=0\n_HOSTNAME=vm\nMESSAGE=hello native\nPRIORITY=5\nSYSLOG_IDENTIFIER=tide\n" +
			"TAG=a\nTAG=b\n_PID=13721\n_COMM=python3\n_SOURCE_REALTIME_TIMESTAMP=1796032311503573\n\n",
	} {
		if d := cmp.Diff(want, print(t, mode, Options{}, hello(t))); d != "" {
			t.Errorf("%s (-want +got):\n%s", mode, d)
		}
	}
}

// TestJSONFrames checks what stands around the objects.
func TestJSONFrames(t *testing.T) {
	object := string(entry.AppendJSON(nil, hello(t), entry.JSONOptions{}))
	pretty := string(entry.AppendJSON(nil, hello(t), entry.JSONOptions{Pretty: true}))
	for mode, want := range map[string]string{
		"json":        object + "\n" + object + "\n",
		"json-pretty": pretty + "\n" + pretty + "\n",
		"json-sse":    "data: " + object + "\n\ndata: " + object + "\n\n",
		"json-seq":    "\x1e" + object + "\n\x1e" + object + "\n",
	} {
		if d := cmp.Diff(want, print(t, mode, Options{}, hello(t), hello(t))); d != "" {
			t.Errorf("%s (-want +got):\n%s", mode, d)
		}
	}
}

// TestShortLines checks the rules for the parts of a line, by the text behind
// the time.
func TestShortLines(t *testing.T) {
	long := strings.Repeat("x", 300)
	const stamp = "Nov 30 09:51:51"
	indent := func(n int) string { return strings.Repeat(" ", len(stamp)+n) }
	for _, c := range []struct {
		name   string
		o      Options
		fields []string
		want   string
	}{
		{"no message", Options{}, []string{"PRIORITY=5"}, ""},
		{"only a message", Options{}, []string{"MESSAGE=m"}, stamp + " unknown: m\n"},
		{"empty message", Options{}, []string{"MESSAGE="}, stamp + " unknown: \n"},
		{"comm and syslog pid", Options{}, []string{"MESSAGE=m", "_COMM=c", "SYSLOG_PID=7"}, stamp + " c[7]: m\n"},
		{"last value counts", Options{}, []string{"MESSAGE=a", "MESSAGE=b"}, stamp + " unknown: b\n"},
		{"no hostname", Options{NoHostname: true}, []string{"MESSAGE=m", "_HOSTNAME=h", "_COMM=c"}, stamp + " c: m\n"},
		{"lines are indented", Options{}, []string{"MESSAGE=a\nb\n", "_HOSTNAME=h", "_COMM=c"}, stamp + " h c: a\n" + indent(6) + "b\n"},
		{"unknown does not count", Options{}, []string{"MESSAGE=a\nb"}, stamp + " unknown: a\n" + indent(2) + "b\n"},
		{"colours and tabs", Options{}, []string{"MESSAGE=\x1b[31mred \x1b[0m tab\there\x1b]8;;u\al"}, stamp + " unknown: red  tab        herel\n"},
		{"all keeps them", Options{All: true}, []string{"MESSAGE=\x1b[31mred\ttab"}, stamp + " unknown: \x1b[31mred\ttab\n"},
		{"carriage return", Options{}, []string{"MESSAGE=a\r\nb\r"}, stamp + " unknown: a\n" + indent(2) + "b\n"},
		{"blob", Options{}, []string{"MESSAGE=ctl 1 del \x7f"}, stamp + " unknown: [11B blob data]\n"},
		{"large blob", Options{}, []string{"MESSAGE=\x01" + strings.Repeat("x", 1535)}, stamp + " unknown: [1.5K blob data]\n"},
		{"long header", Options{}, []string{"MESSAGE=m", "SYSLOG_IDENTIFIER=" + long, "_COMM=c"}, stamp + " c: m\n"},
		{"long header with all", Options{All: true}, []string{"MESSAGE=m", "SYSLOG_IDENTIFIER=" + long}, stamp + " " + long + ": m\n"},
		{"three lines", Options{NoFull: true}, []string{"MESSAGE=1\n2\n3\n4"}, stamp + " unknown: 1\n" + indent(2) + "2\n" + indent(2) + "3...\n"},
		{"no valid source time", Options{}, []string{"MESSAGE=m", "_SOURCE_REALTIME_TIMESTAMP=0"}, stamp + " unknown: m\n"},
	} {
		if d := cmp.Diff(c.want, print(t, "short", c.o, hello(t, c.fields...))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// TestWithUnit checks what stands in place of the identifier.
func TestWithUnit(t *testing.T) {
	const stamp = "Mon 2026-11-30 09:51:51 UTC"
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{"MESSAGE=m", "_SYSTEMD_UNIT=a.service", "_PID=9"}, stamp + " a.service[9]: m\n"},
		{[]string{"MESSAGE=m", "_SYSTEMD_USER_UNIT=u.service"}, stamp + " u.service: m\n"},
		{[]string{"MESSAGE=m", "_SYSTEMD_UNIT=user@1000.service", "_SYSTEMD_USER_UNIT=u.service"}, stamp + " user@1000.service/u.service: m\n"},
		{[]string{"MESSAGE=m", "SYSLOG_IDENTIFIER=i"}, stamp + " i: m\n"},
	} {
		if d := cmp.Diff(c.want, print(t, "with-unit", Options{}, hello(t, c.fields...))); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.fields, d)
		}
	}
}

// TestDelta checks the times between entries of one boot and of two.
func TestDelta(t *testing.T) {
	first, second, other := hello(t, "MESSAGE=1"), hello(t, "PRIORITY=1"), hello(t, "MESSAGE=3")
	first.Monotonic = 655274381
	other.BootID[0]++
	other.Realtime += 5_000_001
	third := hello(t, "MESSAGE=2")
	third.Monotonic += 7
	third.BootID = other.BootID
	want := "[  655.274381                ] unknown: 1\n[  657.493032 <    5.000001*>] unknown: 3\n[  657.493039 <    0.000007 >] unknown: 2\n"
	if d := cmp.Diff(want, print(t, "short-delta", Options{}, first, second, other, third)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestVerbose checks blobs, lines and the choice of fields.
func TestVerbose(t *testing.T) {
	title := "Mon 2026-11-30 09:51:51.504106 UTC [" + helloCursor + "]\n"
	for _, c := range []struct {
		name   string
		o      Options
		fields []string
		want   string
	}{
		{"lines", Options{}, []string{"MESSAGE=l1\nl2\n"}, "    MESSAGE=l1\n            l2\n"},
		{"blob", Options{}, []string{"BIN=\x00\x01\xff"}, "    BIN=[3B blob data]\n"},
		{"all", Options{All: true}, []string{"BIN=\x01\xff\x00\x02"}, "    BIN=\x01\xff\n"},
		{"long with no-full", Options{NoFull: true}, []string{"F=" + strings.Repeat("x", 298)}, "    F=[298B blob data]\n"},
		{"some fields", Options{OutputFields: []string{"A", "C"}}, []string{"A=1", "B=2", "C=3"}, "    A=1\n    C=3\n"},
		{"empty", Options{}, []string{"E="}, "    E=\n"},
	} {
		if d := cmp.Diff(title+c.want, print(t, "verbose", c.o, hello(t, c.fields...))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// TestInvalidField checks that a field no writer makes ends the output, as in
// journalctl.
func TestInvalidField(t *testing.T) {
	for _, mode := range []string{"verbose", "export"} {
		p, err := New(mode, bufio.NewWriter(io.Discard), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"lower=1", "NOEQUALS", "=x"} {
			if err := p.Print(hello(t, f)); err == nil {
				t.Errorf("%s printed a field %q", mode, f)
			}
		}
	}
}

// TestTimeZones checks offsets, names and the second at which clocks change.
func TestTimeZones(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	before, after := hello(t, "MESSAGE=m"), hello(t, "MESSAGE=m")
	before.Realtime, after.Realtime = 1711846799999999, 1711846800000000
	for mode, want := range map[string]string{
		"short-full":        "Sun 2024-03-31 01:59:59 CET unknown: m\nSun 2024-03-31 03:00:00 CEST unknown: m\n",
		"short-iso-precise": "2024-03-31T01:59:59.999999+0100 unknown: m\n2024-03-31T03:00:00.000000+0200 unknown: m\n",
	} {
		if d := cmp.Diff(want, print(t, mode, Options{Location: berlin}, before, after)); d != "" {
			t.Errorf("%s (-want +got):\n%s", mode, d)
		}
	}
	newfoundland := time.FixedZone("NST", -(3*3600 + 30*60))
	if got := print(t, "short-iso", Options{Location: newfoundland}, before); !strings.HasPrefix(got, "2024-03-30T21:29:59-0330 ") {
		t.Errorf("short-iso west of Greenwich: %q", got)
	}
}

// TestUnknownMode checks journalctl's words.
func TestUnknownMode(t *testing.T) {
	if _, err := New("fancy", nil, Options{}); err == nil || err.Error() != "Unknown output format 'fancy'." {
		t.Errorf("New: %v", err)
	}
}

// TestNoAllocations holds every mode to its promise.
func TestNoAllocations(t *testing.T) {
	e := hello(t)
	for _, mode := range Modes() {
		w := bufio.NewWriter(io.Discard)
		p, err := New(mode, w, Options{OutputFields: nil})
		if err != nil {
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(200, func() {
			e.Realtime += 1_000_003
			if err := p.Print(e); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%s: %.1f allocations an entry", mode, n)
		}
	}
}

func BenchmarkPrint(b *testing.B) {
	e := hello(b)
	for _, mode := range []string{"short", "short-full", "verbose", "cat", "export", "json"} {
		b.Run(mode, func(b *testing.B) {
			p, err := New(mode, bufio.NewWriterSize(io.Discard, 64<<10), Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				e.Realtime += 1000
				if err := p.Print(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
