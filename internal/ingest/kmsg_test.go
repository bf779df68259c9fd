package ingest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

func TestKmsgRecords(t *testing.T) {
	tests := []struct {
		name, record string
		want         []string // nil: malformed
	}{
		{"kernel", "6,339,5140900,-;NET: Registered protocol family 10\n", []string{
			"_SOURCE_MONOTONIC_TIMESTAMP=5140900", "_TRANSPORT=kernel", "PRIORITY=6", "SYSLOG_FACILITY=0",
			"SYSLOG_IDENTIFIER=kernel", "MESSAGE=NET: Registered protocol family 10",
		}},
		{"process", "30,340,5690716,-;udevd[80]: starting version 181\n", []string{
			"_SOURCE_MONOTONIC_TIMESTAMP=5690716", "_TRANSPORT=kernel", "PRIORITY=6", "SYSLOG_FACILITY=3",
			"SYSLOG_IDENTIFIER=udevd", "SYSLOG_PID=80", "MESSAGE=starting version 181",
		}},
		{"metadata", "4,7,8,c,caller=T1;text\n SUBSYSTEM=acpi\n DEVICE=+acpi:\\x50NP0A03:00\n", []string{
			"_KERNEL_SUBSYSTEM=acpi", "_KERNEL_DEVICE=+acpi:PNP0A03:00",
			"_SOURCE_MONOTONIC_TIMESTAMP=8", "_TRANSPORT=kernel", "PRIORITY=4", "SYSLOG_FACILITY=0",
			"SYSLOG_IDENTIFIER=kernel", "MESSAGE=text",
		}},
		{"escapes", "4,8,8,-;a\\x09b\\x0ac\\\\d\\qe\\x00f\\\n", []string{
			"_SOURCE_MONOTONIC_TIMESTAMP=8", "_TRANSPORT=kernel", "PRIORITY=4", "SYSLOG_FACILITY=0",
			"SYSLOG_IDENTIFIER=kernel", "MESSAGE=a\tb\nc\\d\\qe\\x00f\\",
		}},
		{"bad metadata", "4,9,8,-;text\n lower=x\n NOTHING\n DEVICE\n OK=y\n", []string{
			"_KERNEL_OK=y",
			"_SOURCE_MONOTONIC_TIMESTAMP=8", "_TRANSPORT=kernel", "PRIORITY=4", "SYSLOG_FACILITY=0",
			"SYSLOG_IDENTIFIER=kernel", "MESSAGE=text",
		}},
		{"no colon in metadata", "12,10,8,-;text\nnot metadata\n", []string{
			"_SOURCE_MONOTONIC_TIMESTAMP=8", "_TRANSPORT=kernel", "PRIORITY=4", "SYSLOG_FACILITY=1", "MESSAGE=text",
		}},
		{"no text", "6,1,2,-", nil},
		{"no number", "x,1,2,-;text\n", nil},
		{"no sequence", "6,,2,-;text\n", nil},
		{"large priority", "1000,1,2,-;text\n", nil},
		{"no newline", "6,1,2,-;text", nil},
		{"empty", "", nil},
	}
	for _, tt := range tests {
		in := &Ingest{words: newWords(), host: newHost(&Config{Hostname: "here"})}
		k := &kmsg{in: in}
		k.record([]byte(tt.record))
		if tt.want == nil {
			if len(k.batch.entries) != 0 || in.counts.n[kmsgMalformed].Load() != 1 {
				t.Errorf("%s: accepted", tt.name)
			}
			continue
		}
		if len(k.batch.entries) != 1 {
			t.Errorf("%s: %d entries", tt.name, len(k.batch.entries))
			continue
		}
		var got []string
		for _, f := range k.batch.entries[0].Fields {
			if strings.HasPrefix(string(f), "_UDEV_") {
				continue // depends on the machine
			}
			got = append(got, string(f))
		}
		wantDiff(t, tt.name, append(tt.want, "_HOSTNAME=here", "_RUNTIME_SCOPE=system"), got)
	}
}

// fakeKmsg is a named pipe that a test writes records to.
func fakeKmsg(t *testing.T, cfg *Config) *os.File {
	t.Helper()
	cfg.Kmsg = filepath.Join(cfg.Dir, "kmsg")
	if err := unix.Mkfifo(cfg.Kmsg, 0o600); err != nil {
		t.Skipf("needs a named pipe: %v", err)
	}
	f, err := os.OpenFile(cfg.Kmsg, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestKmsgIsRemembered(t *testing.T) {
	cfg := testConfig(t)
	cfg.KmsgState = filepath.Join(cfg.Dir, "state")
	log := fakeKmsg(t, &cfg)
	say := func(r *rig, record string) []string {
		t.Helper()
		if _, err := log.WriteString(record); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range r.barrier() {
			all = append(all, get(t, e, "MESSAGE"))
		}
		return all
	}
	r := startWith(t, cfg, &fakeSink{})
	wantDiff(t, "first", []string{"a"}, say(r, "6,10,1,-;a\n"))
	wantDiff(t, "next", []string{"b"}, say(r, "6,11,1,-;b\n"))
	r.stop()

	var events []string
	cfg.Event = func(_ int, id, text string, _ ...entry.Field) { events = append(events, id+" "+text) }
	r = startWith(t, cfg, &fakeSink{})
	wantDiff(t, "again after a restart", []string(nil), say(r, "6,11,1,-;b\n"))
	wantDiff(t, "after a gap", []string{"c"}, say(r, "6,15,1,-;c\n"))
	wantDiff(t, "events", []string{messageMissed + " Missed 3 kernel messages"}, events)
	if n := r.count("kmsg", "missed"); n != 3 {
		t.Errorf("%d counted as missed, want 3", n)
	}
	r.stop()

	cfg.BootID[0]++
	r = startWith(t, cfg, &fakeSink{})
	wantDiff(t, "after a reboot", []string{"d"}, say(r, "6,3,1,-;d\n"))
}

func TestKmsgAbsent(t *testing.T) {
	cfg := testConfig(t)
	cfg.Kmsg = filepath.Join(cfg.Dir, "none")
	if r := startWith(t, cfg, &fakeSink{}); r.kmsg != nil {
		t.Error("a source without a log")
	}
}

// An end of file, as of what is no kernel's log, ends the source and nothing
// else.
func TestKmsgEnds(t *testing.T) {
	cfg := testConfig(t)
	log := fakeKmsg(t, &cfg)
	r := startWith(t, cfg, &fakeSink{})
	_ = log.Close()
	r.write(r.dial(nativeSocket), "MESSAGE=a\n")
	if n := len(r.barrier()); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func FuzzKmsg(f *testing.F) {
	f.Add([]byte("6,339,5140900,-;NET: Registered\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n"))
	f.Add([]byte("30,340,5690716,-;udevd[80]: a\\x20b\\\n"))
	in := &Ingest{words: newWords(), host: newHost(&Config{Hostname: "here"})}
	f.Fuzz(func(t *testing.T, record []byte) {
		k := &kmsg{in: in}
		k.record(record)
		for _, e := range k.batch.entries {
			for _, field := range e.Fields {
				if name := field.Name(); len(name) == len(field) || !entry.ValidName(name, true) {
					t.Fatalf("field %q", field)
				}
			}
			for _, name := range []string{"MESSAGE", "PRIORITY", "_TRANSPORT", "_SOURCE_MONOTONIC_TIMESTAMP"} {
				if _, ok := e.Get(name); !ok {
					t.Fatalf("no %s", name)
				}
			}
		}
	})
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`a\x41\101\u00e9\U0001f600z`: "aAAé😀z", `\a\b\f\n\r\t\v\\\"\'\s`: "\a\b\f\n\r\t\v\\\"' ",
		`\`: `\`, `\x4`: `\x4`, `\xzz`: `\xzz`, `\400`: `\400`, `\x00`: `\x00`, `\ud800`: `\ud800`, `\Uffffffff`: `\Uffffffff`, `\xff`: "\xff",
	} {
		if got := string(unescape(nil, []byte(in))); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestRealKmsg(t *testing.T) {
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs a kernel log that can be written: %v", err)
	}
	defer func() { _ = f.Close() }()
	cfg := testConfig(t)
	cfg.Kmsg = "/dev/kmsg"
	r := startWith(t, cfg, &fakeSink{})
	if r.kmsg == nil {
		t.Skip("the kernel log cannot be read")
	}
	_ = r.Barrier(t.Context())
	before := len(r.sink.take())
	if _, err := f.WriteString("<14>tidemark-test[7]: to the kernel\n"); err != nil {
		t.Skipf("cannot write to the kernel log: %v", err)
	}
	found := false
	for _, e := range r.barrier() {
		id, _ := e.Get("SYSLOG_IDENTIFIER")
		found = found || string(id) == "tidemark-test" && get(t, e, "MESSAGE") == "to the kernel"
	}
	if !found || before == 0 {
		t.Errorf("found %v after %d older messages", found, before)
	}
}
