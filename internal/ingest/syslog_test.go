package ingest

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSyslog(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"all", "<13>Nov 30 09:49:00 myapp[77]: syslog full", "5 1 'myapp' '77' 'Nov 30 09:49:00 ' syslog full"},
		{"blanks behind", "<13>Nov 30 09:49:00 myapp[77]: syslog full  ", "5 1 'myapp' '77' 'Nov 30 09:49:00 ' syslog full RAW"},
		{"newline behind", "<13>Nov 30 09:49:00 a: b\n", "5 1 'a' - 'Nov 30 09:49:00 ' b RAW"},
		{"no stamp", "<30>noident no timestamp", "6 3 - - - noident no timestamp RAW"},
		{"no priority", "plain text: here", "6 1 - - - plain text: here RAW"},
		{"host is text", "<3>Nov  1 01:02:03 host app: text", "3 0 - - 'Nov  1 01:02:03 ' host app: text"},
		{"blank digits", "<3>Nov  1  1: 2: 3 app: text", "3 0 'app' - 'Nov  1  1: 2: 3 ' text"},
		{"one blank only", "<3>Nov  1 01:02:03 app:  text", "3 0 'app' - 'Nov  1 01:02:03 '  text"},
		{"tab behind", "<3>Nov  1 01:02:03 app:\ttext", "3 0 'app' - 'Nov  1 01:02:03 ' text"},
		{"nothing behind", "<3>Nov  1 01:02:03 app:", "3 0 'app' - 'Nov  1 01:02:03 ' "},
		{"bracket open", "<3>Nov  1 01:02:03 app]: text", "3 0 'app]' - 'Nov  1 01:02:03 ' text"},
		{"empty pid", "<3>Nov  1 01:02:03 app[]: text", "3 0 'app' '' 'Nov  1 01:02:03 ' text"},
		{"pid in pid", "<3>Nov  1 01:02:03 a[b[c]: text", "3 0 'a[b' 'c' 'Nov  1 01:02:03 ' text"},
		{"only colon", "<3>Nov  1 01:02:03 : text", "3 0 '' - 'Nov  1 01:02:03 ' text"},
		{"largest", "<999>Nov  1 01:02:03 a: b", "7 124 'a' - 'Nov  1 01:02:03 ' b"},
		{"four digits", "<0013>Nov  1 01:02:03 a: b", "6 1 - - - <0013>Nov  1 01:02:03 a: b RAW"},
		{"no digits", "<>a", "6 1 - - - <>a RAW"},
		{"zeroes", "<007>Nov  1 01:02:03 a: b", "7 0 'a' - 'Nov  1 01:02:03 ' b"},
		{"nul inside", "<3>Nov  1 01:02:03 a: b\x00c", "3 0 'a' - 'Nov  1 01:02:03 ' b RAW"},
		{"nul behind", "<3>Nov  1 01:02:03 a: b\x00", "3 0 'a' - 'Nov  1 01:02:03 ' b RAW"},
		{"blank before nul", "<3>Nov  1 01:02:03 a: b \x00c", "3 0 'a' - 'Nov  1 01:02:03 ' b  RAW"},
		{"blanks", "   ", "6 1 - - -  RAW"},
		{"before", " <3>Nov  1 01:02:03 a: b", "3 0 'a' - 'Nov  1 01:02:03 ' b RAW"},
	}
	for _, tt := range tests {
		if got := describe(parseSyslog([]byte(tt.data))); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func describe(s syslogMessage) string {
	part := func(b []byte, has bool) string {
		if !has {
			return "- "
		}
		return "'" + string(b) + "' "
	}
	out := string('0'+byte(s.priority&levelMask)) + " " + itoa(s.priority>>3) + " " +
		part(s.identifier, s.hasIdentifier) + part(s.pid, s.hasPID) + part(s.stamp, len(s.stamp) > 0) + string(s.text)
	if s.raw {
		out += " RAW"
	}
	return out
}

func TestSyslogSocket(t *testing.T) {
	r := start(t)
	c := r.dial(syslogSocket)
	r.write(c, "<10>Nov 30 09:49:00 myapp[77]: text \n")
	r.write(c, "")
	r.write(c, "<30>plain")
	entries := r.barrier()
	var got [][]string
	for _, e := range entries {
		got = append(got, own(e))
	}
	wantDiff(t, "entries", [][]string{
		{
			"_TRANSPORT=syslog", "PRIORITY=2", "SYSLOG_FACILITY=1", "SYSLOG_IDENTIFIER=myapp", "SYSLOG_PID=77",
			"SYSLOG_TIMESTAMP=Nov 30 09:49:00 ", "MESSAGE=text", "SYSLOG_RAW=<10>Nov 30 09:49:00 myapp[77]: text \n",
		},
		{"_TRANSPORT=syslog", "PRIORITY=6", "SYSLOG_FACILITY=3", "MESSAGE=plain", "SYSLOG_RAW=<30>plain"},
	}, got)
	if len(entries) == 2 && (!entries[0].Urgent || entries[1].Urgent) {
		t.Errorf("urgent: %v, %v", entries[0].Urgent, entries[1].Urgent)
	}
}

// FuzzSyslog: the pieces are parts of the datagram, in order, and without
// SYSLOG_RAW they tell all of it.
func FuzzSyslog(f *testing.F) {
	for _, s := range []string{"<13>Nov 30 09:49:00 myapp[77]: syslog full", "<30>x", " a: b\x00", "<3>Nov  1 01:02:03 : :", "<999>Nov 30 09:49:00 [[]]:"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := parseSyslog(data)
		if s.priority < 0 || s.priority > 999 {
			t.Fatalf("priority %d", s.priority)
		}
		at := 0
		for _, part := range [][]byte{s.stamp, s.identifier, s.pid, s.text} {
			i := bytes.Index(data[at:], part)
			if i < 0 {
				t.Fatalf("%q is not behind byte %d of %q", part, at, data)
			}
			at += i + len(part)
		}
		if bytes.IndexByte(s.text, 0) >= 0 {
			t.Fatalf("NUL in text %q", s.text)
		}
		if s.raw {
			return
		}
		// Without the raw form nothing but blanks next to the identifier is lost.
		again := append([]byte(nil), s.stamp...)
		if s.hasIdentifier {
			again = append(again, s.identifier...)
			if s.hasPID {
				again = append(append(append(again, '['), s.pid...), ']')
			}
			again = append(again, ':', ' ')
		}
		again = append(again, s.text...)
		second := syslogMessage{priority: s.priority}
		n := syslogStamp(again)
		second.stamp = again[:n]
		second.identify(again[n:])
		if d := cmp.Diff(s, second, cmp.AllowUnexported(syslogMessage{}), cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("re-encoded: %s", d)
		}
	})
}
