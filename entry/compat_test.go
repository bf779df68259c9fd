package entry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

const journalRemote = "/lib/systemd/systemd-journal-remote"

// remoteJournal has the real systemd-journal-remote write stream into a file.
func remoteJournal(t *testing.T, stream string) string {
	t.Helper()
	if _, err := os.Stat(journalRemote); err != nil {
		t.Skipf("compares with the real thing: %v", err)
	}
	path := filepath.Join(t.TempDir(), "r.journal")
	cmd := exec.Command(journalRemote, "-o", path, "-")
	cmd.Stdin = strings.NewReader(stream)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", cmd, err, out)
	}
	return path
}

// journalctl runs the real journalctl on one file.
func journalctl(t *testing.T, path string, args ...string) []byte {
	t.Helper()
	tool, err := exec.LookPath("journalctl")
	if err != nil {
		t.Skipf("compares with the real thing: %v", err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(tool, append([]string{"--no-pager", "-q", "--file", path}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd, err, stderr.Bytes())
	}
	return out
}

// stored reads what journalctl exports, with the cursors, and checks that it
// re-encodes to the same bytes.
func stored(t *testing.T, export []byte) []entry.Entry {
	t.Helper()
	all, err := readAll(entry.NewExportReader(bytes.NewReader(export), entry.ExportOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	var cursors []entry.Cursor
	for line := range bytes.Lines(export) {
		if text, ok := bytes.CutPrefix(line, []byte("__CURSOR=")); ok {
			c, err := entry.ParseCursor(string(bytes.TrimSpace(text)))
			if err != nil {
				t.Fatal(err)
			}
			cursors = append(cursors, c)
		}
	}
	if len(cursors) != len(all) {
		t.Fatalf("%d cursors, %d entries", len(cursors), len(all))
	}
	var again []byte
	for i := range all {
		e, c := &all[i], cursors[i]
		e.SeqnumID, e.Seqnum, e.XorHash = c.SeqnumID, c.Seqnum, c.XorHash
		if e.Realtime != c.Realtime || e.Monotonic != c.Monotonic || e.BootID != c.BootID {
			t.Errorf("entry %d has the cursor %s", i, c)
		}
		again = entry.AppendExport(again, e)
	}
	if diff := cmp.Diff(string(export), string(again)); diff != "" {
		t.Errorf("export written again (-journalctl +ours):\n%s", diff)
	}
	return all
}

// awkward is a stream of values that the serializations treat specially.
func awkward() string {
	var s strings.Builder
	add := func(i int, fields ...string) {
		fmt.Fprintf(&s, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n", 1700000000000000+i, i, boot1)
		for _, f := range fields {
			name, value, _ := strings.Cut(f, "=")
			if strings.Contains(value, "\n") {
				s.WriteString(bin(name, value))
			} else {
				s.WriteString(f + "\n")
			}
		}
		s.WriteString("\n")
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	add(1, "MESSAGE=plain", "E=", "T=a", "M=x", "T=b", "T=\x01", "A=b=c")
	add(2, "Q=q\" b\\ s/ t\t end <&>", "U=é 😀 \ufffd", "N=two\nlines\n", "C=\r\b\f", "D=\x7f", "F=\u0085", "Z=nul\x00nul")
	add(3, "A=\ufdd0", "B=\ufffe", "C=\U0001ffff", "D=\xff\xfe", "E=\xed\xa0\x80", "F=\xc0\x80", "G=\xc3", "H=\u00a0\ufeff\u2028")
	add(4, "L="+x(4093), "M="+x(4094), "T=short", "T="+x(5000), "LONG_NAME="+x(4085), "LONG_NAMES="+x(4085))
	for c := range 256 {
		add(100+c, "MESSAGE=1234567"+string([]byte{byte(c)})+"890", "B=\n"+string([]byte{byte(c)}))
	}
	return s.String()
}

func TestExportAgainstJournalctl(t *testing.T) {
	path := remoteJournal(t, awkward())
	if n := len(stored(t, journalctl(t, path, "-o", "export"))); n < 255 {
		t.Errorf("%d entries compared", n)
	}
}

func TestJSONAgainstJournalctl(t *testing.T) {
	path := remoteJournal(t, awkward())
	all := stored(t, journalctl(t, path, "-o", "export"))
	for _, o := range []struct {
		args []string
		o    entry.JSONOptions
	}{
		{nil, entry.JSONOptions{}},
		{[]string{"-a"}, entry.JSONOptions{All: true}},
		{[]string{"--output-fields=T,MESSAGE"}, entry.JSONOptions{OutputFields: map[string]bool{"T": true, "MESSAGE": true}}},
	} {
		t.Run(strings.Join(o.args, " "), func(t *testing.T) {
			lines := bytes.Split(bytes.TrimSpace(journalctl(t, path, append(o.args, "-o", "json")...)), []byte("\n"))
			if len(lines) != len(all) {
				t.Fatalf("%d lines, %d entries", len(lines), len(all))
			}
			for i, line := range lines {
				var want, got any
				if err := json.Unmarshal(line, &want); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(entry.AppendJSON(nil, &all[i], o.o), &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("entry %d (-journalctl +ours):\n%s", i, diff)
				}
			}
		})
	}
}

// An entry with one field beside the head has its keys in an order that does
// not matter: json-pretty can be compared line by line once they are sorted.
func TestPrettyAgainstJournalctl(t *testing.T) {
	path := remoteJournal(t, head1+"T=a\nT=b\nT=\x01\x02\nM=x\nB=\x03\x04\n\n")
	all := stored(t, journalctl(t, path, "-o", "export"))
	sorted := func(b []byte) []string {
		// A key and the lines of its array stay together.
		members := strings.Split(strings.ReplaceAll(string(bytes.TrimSpace(b)), "\n\t\"", "\x00\""), "\x00")
		for i := range members {
			members[i] = strings.TrimSuffix(strings.TrimSuffix(members[i], "\n}"), ",")
		}
		slices.Sort(members)
		return members
	}
	want := sorted(journalctl(t, path, "-o", "json-pretty"))
	got := sorted(entry.AppendJSON(nil, &all[0], entry.JSONOptions{Pretty: true}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("json-pretty (-journalctl +ours):\n%s", diff)
	}
}

// What systemd-journal-remote stores of a stream is what the reader returns.
func TestExportReaderAgainstJournalRemote(t *testing.T) {
	next := strings.Replace(head1, "TIMESTAMP=7\n", "TIMESTAMP=8\n", 1)
	tests := []struct{ name, stream string }{
		{"awkward values", awkward()},
		{"bad names", head1 + "bad=1\n=x\n1A=x\nMESSAGE=a\nbad\nB=1\nnoise\n\n" + next + "MESSAGE=b\n\n"},
		{"bad binary name", head1 + "MESSAGE=a\n" + bin("bad", "abc") + "MESSAGE=b\n\nMESSAGE=c\n\n"},
		{"long names", head1 + strings.Repeat("N", 64) + "=1\n" + strings.Repeat("N", 65) + "=2\n\n"},
		{"persisting times", head1 + "MESSAGE=a\n\nMESSAGE=b\n\n__MONOTONIC_TIMESTAMP=9\nMESSAGE=c\n\n"},
		{"no time", "MESSAGE=a\n\n" + head1 + "MESSAGE=b\n\n"},
		{"no boot", "__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=a\n\n"},
		{"time 0", head1 + "MESSAGE=a\n\n__REALTIME_TIMESTAMP=0\nMESSAGE=b\n\n"},
		{"bad time", head1 + "MESSAGE=a\n\n__MONOTONIC_TIMESTAMP=x\nMESSAGE=b\n\n"},
		{"largest time", "__REALTIME_TIMESTAMP=36028797018963967\nMESSAGE=a\n\n__REALTIME_TIMESTAMP=36028797018963968\nMESSAGE=b\n\n"},
		{"numbers as C has them", "__REALTIME_TIMESTAMP= 0x60000\nMESSAGE=b\n\n__REALTIME_TIMESTAMP=017\nMESSAGE=c\n\n__MONOTONIC_TIMESTAMP=+17\nMESSAGE=d\n\n__MONOTONIC_TIMESTAMP=0b11\nMESSAGE=e\n\n__MONOTONIC_TIMESTAMP=1 \nMESSAGE=f\n\n"},
		{"bad boot", head1 + "MESSAGE=a\n\n_BOOT_ID=zz\nMESSAGE=b\n\n"},
		{"boot with dashes", head1 + "MESSAGE=a\n\n_BOOT_ID=710d035a-90fb-403c-8558-64972948eda2\nMESSAGE=b\n\n"},
		{"binary of length 0", head1 + bin("A", "") + "MESSAGE=a\n\n" + bin("A", "") + "\nMESSAGE=b\n\n"},
		{"binary without newline", head1 + "MESSAGE=a\n\nA\n\x01\x00\x00\x00\x00\x00\x00\x00xx\nMESSAGE=b\n\n"},
		{"binary too large", head1 + "MESSAGE=a\n\nA\n\x01\x00\x00\x30\x00\x00\x00\x00x\nMESSAGE=b\n\n"},
		{"unknown dunder", head1 + "__SEQNUM=1\nMESSAGE=a\n\n"},
		{"cut", head1 + "MESSAGE=a\n\nMESSAGE=b\nMESSAGE=c"},
		{"empty", "\n\n" + head1 + "MESSAGE=a\n\n\n\nMESSAGE=b\n\n"},
		{"NUL in a number", head1 + "__MONOTONIC_TIMESTAMP=12\x0034\nMESSAGE=a\n\n"},
		{"carriage returns", head1 + "MESSAGE=a\r\n\r\nMESSAGE=b\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := remoteJournal(t, tt.stream)
			want := stored(t, journalctl(t, path, "-o", "export"))
			got, _ := readAll(entry.NewExportReader(strings.NewReader(tt.stream), entry.ExportOptions{}))
			if diff := cmp.Diff(canonical(want), canonical(got)); diff != "" {
				t.Errorf("entries (-journal-remote +ours):\n%s", diff)
			}
		})
	}
}

// canonical prints entries with their fields sorted, each once and without
// _BOOT_ID: a file keeps neither order nor duplicates.
func canonical(entries []entry.Entry) []string {
	var out []string
	for _, e := range entries {
		e = withoutBoot(&e)
		slices.SortFunc(e.Fields, func(a, b entry.Field) int { return bytes.Compare(a, b) })
		e.Fields = slices.CompactFunc(e.Fields, func(a, b entry.Field) bool { return bytes.Equal(a, b) })
		out = append(out, show([]entry.Entry{e})[0])
	}
	return out
}
