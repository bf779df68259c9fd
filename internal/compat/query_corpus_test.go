package compat

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

const journalRemote = "/lib/systemd/systemd-journal-remote"

// needJournalctl skips a test on machines without systemd's tools, 252 being
// the version that the project promises to equal.
func needJournalctl(t *testing.T) {
	t.Helper()
	out, err := exec.Command("journalctl", "--version").Output()
	if err != nil {
		t.Skipf("needs journalctl: %v", err)
	}
	if !bytes.HasPrefix(out, []byte("systemd 252 ")) {
		t.Skipf("compares with journalctl 252, this is %.20q", out)
	}
	if _, err := os.Stat(journalRemote); err != nil {
		t.Skipf("needs systemd-journal-remote: %v", err)
	}
}

// corpusEntry is an entry to be written by systemd-journal-remote.
type corpusEntry struct {
	realtime, monotonic uint64
	boot                string
	fields              []string
}

const (
	bootA = "710d035a90fb403c855864972948eda1"
	bootB = "0a0d035a90fb403c855864972948eda2"
	bootC = "ff0d035a90fb403c855864972948eda3"

	corpusStart = 1_700_000_000_000_000 // Tue 2023-11-14 22:13:20 UTC
	summerTime  = 1_711_846_790_000_000 // ten seconds before clocks go forward in Berlin
)

// writeCorpus makes path of entries by way of systemd-journal-remote.
func writeCorpus(t testing.TB, path string, entries []corpusEntry) {
	t.Helper()
	var b []byte
	for _, e := range entries {
		b = fmt.Appendf(b, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n", e.realtime, e.monotonic, e.boot)
		for _, f := range e.fields {
			b = entry.AppendExportField(b, entry.Field(f))
		}
		b = append(b, '\n')
	}
	cmd := exec.Command(journalRemote, "-o", path, "-")
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("systemd-journal-remote -o %s: %v\n%s", path, err, out)
	}
}

// awkward are entries that put every rule of the output modes to the test.
func awkward() []corpusEntry {
	host := "_HOSTNAME=vm"
	long := strings.Repeat("0123456789", 60)
	var es []corpusEntry
	add := func(fields ...string) {
		n := uint64(len(es))
		es = append(es, corpusEntry{corpusStart + n*n*1_234_567, 5_000_000 + n*1_000_003, bootA, fields})
	}
	for _, m := range awkwardMessages() {
		add(host, "SYSLOG_IDENTIFIER=id", "_PID=9", "MESSAGE="+m)
	}
	add(host, "_COMM=comm", "SYSLOG_PID=77", "MESSAGE=comm and syslog pid\nsecond")
	add("MESSAGE=nothing else\nsecond")
	add(host, "SYSLOG_IDENTIFIER=none", "PRIORITY=3")
	add(host, "SYSLOG_IDENTIFIER=twice", "SYSLOG_IDENTIFIER=again", "MESSAGE=first", "MESSAGE=second", "_PID=1", "_PID=2")
	add("_HOSTNAME="+long[:299], "SYSLOG_IDENTIFIER=h299", "MESSAGE=a\nb")
	add("_HOSTNAME="+long[:300], "SYSLOG_IDENTIFIER=h300", "MESSAGE=a\nb")
	add("_HOSTNAME="+long, "SYSLOG_IDENTIFIER="+long, "_COMM=short", "_PID="+long, "SYSLOG_PID=5", "MESSAGE=a\nb")
	add("_HOSTNAME=h\x01", "SYSLOG_IDENTIFIER=i\x7f", "_COMM=c\xff", "_PID=\x02", "SYSLOG_PID=\x03", "MESSAGE=bad header\nb")
	add("_HOSTNAME=h\x00x", "SYSLOG_IDENTIFIER=i\x00x", "_PID=1\x002", "MESSAGE=nul\x00here\nand\x00there\n\x00\nlast")
	add("_HOSTNAME=", "SYSLOG_IDENTIFIER=", "_PID=", "MESSAGE=empty header\nb")
	add("_HOSTNAME=h\nh", "SYSLOG_IDENTIFIER=i\ti", "_PID=1\n2", "MESSAGE=newlines\nb")
	for _, u := range [][]string{
		{"_SYSTEMD_UNIT=a.service"},
		{"_SYSTEMD_USER_UNIT=u.service"},
		{"_SYSTEMD_UNIT=user@1000.service", "_SYSTEMD_USER_UNIT=u.service"},
		{"_SYSTEMD_UNIT=" + long, "_SYSTEMD_USER_UNIT=u.service"},
		{"_SYSTEMD_UNIT=" + long},
		{"_SYSTEMD_UNIT="},
	} {
		add(append(u, host, "SYSLOG_IDENTIFIER=id", "_PID=9", "MESSAGE=unit\nsecond")...)
	}
	for _, p := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "", "34", "x"} {
		add(host, "SYSLOG_IDENTIFIER=prio", "PRIORITY="+p, "MESSAGE=priority "+p+"\nsecond")
	}
	add(host, "SYSLOG_IDENTIFIER=audit", "_TRANSPORT=audit", "MESSAGE=audited\nsecond")
	add(host, "_TRANSPORT=kernel", "SYSLOG_IDENTIFIER=kernel", "PRIORITY=4", "SYSLOG_FACILITY=0", "MESSAGE=from the kernel")
	for _, s := range []string{"1700000123456789", "x", "0", "-1", "99999999999999999999", "0x5f5e100", "0123", " 7", "+8", "36028797018963968", "36028797018963967", "", "12\x0034"} {
		add(host, "SYSLOG_IDENTIFIER=src", "_SOURCE_REALTIME_TIMESTAMP="+s, "MESSAGE=source realtime")
		add(host, "SYSLOG_IDENTIFIER=src", "_SOURCE_MONOTONIC_TIMESTAMP="+s, "MESSAGE=source monotonic")
	}
	add(host, "SYSLOG_IDENTIFIER=src", "_SOURCE_REALTIME_TIMESTAMP=1600000000000000", "_SOURCE_REALTIME_TIMESTAMP=1500000000000000", "MESSAGE=two sources")
	add(host, "BIN=\x00\x01\xff", "TEXT=l1\nl2\n", "E=", "UMLAUT=grün", "TAB=a\tb", "ESC=\x1b[1mx\x1b[0m", "MESSAGE=fields", "TAG=a", "TAG=b", "TAG=a", "A_=1", "A1=2")
	add(host, "F299="+long[:294], "F300="+long[:295], "F301="+long[:296], "BIG="+strings.Repeat("b", 5000), "MESSAGE=long fields")
	add(host, "J4095="+strings.Repeat("j", 4089), "J4096="+strings.Repeat("j", 4090), "J4097="+strings.Repeat("j", 4091), "MESSAGE=json limits")
	return es
}

func awkwardMessages() []string {
	m := []string{
		"plain", "", "a\nb", "a\nb\n", "\n", "\n\n", "\na", "a\n\nb", "tab\there", "\t", "a\tb\nc\td",
		"\x1b[31mred\x1b[0m plain", "\x1b[31mred", "broken \x1b[31", "broken \x1b[3x1m end", "\x1b", "\x1b\x1b[0m", "\x1b[\x1b[0mx", "esc \x1bc", "\x1b[m", "\x1b]8;;http://x\alink\x1b]8;;\a", "\x1b]8;;http://x\x1b\\link",
		"\x1b]0;t\x1b", "\x1b[1\x00m", "\x1b]\n\a", "\x1b\t", "\x1b[\t", "end \x1b[", "end \x1b]",
		"ctl \x01", "del \x7f", "c1 \u0085", "nbsp \u00a0", "bad \xff utf8", "cut \xc3", "over \xc0\x80", "surrogate \xed\xa0\x80", "nonchar \ufffe", "nonchar \ufdd0", "plane \U0010ffff", "emoji 😀 é ü", "日本語のログ", "cr\r\nlf", "cr at end\r", "two\r\r\nx", "mid\rdle", "\r", "\r\x1b[mx", "\x1b[m\r\ny", "\x1b\r\nz", "\r\t\r\n", "nul \x00 x",
		"q\" b\\ s/ <&> \b\f\r", strings.Repeat("wide 日本 ", 40), strings.Repeat("é", 200), "1\n2\n3\n4\n5", "1\n2\n" + strings.Repeat("x", 400) + "\n4",
	}
	for _, n := range []int{40, 50, 55, 60, 65, 70, 75, 80, 298, 299, 300, 301, 302, 511 - 8, 512 - 8, 600, 4095 - 8, 4096 - 8, 4097 - 8, 70000} {
		m = append(m, strings.Repeat("0123456789", n/10+1)[:n])
	}
	random := make([]byte, 700)
	for i := range random {
		random[i] = "abcdefghijklmnopqrstuvwxyz \n"[(i*i*7+i*13)%28]
	}
	return append(m, string(random), string(random[:300])+"\xff"+string(random[300:]), strings.Repeat("é", 145)+"x"+strings.Repeat("é", 300), strings.Repeat("日", 400))
}

// ordinary are entries of several boots, units, identifiers and priorities.
func ordinary(start uint64, boot string, n int) []corpusEntry {
	units := []string{"ssh.service", "cron.service", "nginx.service", "user@1000.service", "dev-sda.device", "app-foo.slice"}
	es := make([]corpusEntry, 0, n)
	for i := range n {
		u := units[i%len(units)]
		f := []string{
			"_HOSTNAME=vm", "_BOOT_ID=" + boot, "MESSAGE=" + fmt.Sprintf("line %d of %s Error %x", i, u, i*i),
			"PRIORITY=" + strconv.Itoa(i*7%9%8), "SYSLOG_IDENTIFIER=" + strings.TrimSuffix(u, ".service"), "_PID=" + strconv.Itoa(1+i%5),
			"_SYSTEMD_UNIT=" + u, "_UID=" + strconv.Itoa(i%3*500), "_TRANSPORT=" + []string{"journal", "syslog", "kernel"}[i%3], "SYSLOG_FACILITY=" + strconv.Itoa(i%4),
		}
		switch {
		case i%10 == 3:
			f = append(f, "UNIT=other.service", "_PID=1")
		case i%10 == 5:
			f = append(f, "OBJECT_SYSTEMD_UNIT=ssh.service", "_UID=0")
		case i%10 == 7:
			f = append(f, "_SYSTEMD_USER_UNIT=u.service", "_SYSTEMD_SLICE=app-foo.slice")
		case i%10 == 8:
			f = append(f, "COREDUMP_UNIT=ssh.service", "MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1", "_UID=0")
		}
		if i%11 != 4 {
			f = append(f, "_SOURCE_REALTIME_TIMESTAMP="+strconv.FormatUint(start+uint64(i)*700_001-250, 10))
		}
		es = append(es, corpusEntry{start + uint64(i)*700_001, 1_000_000 + uint64(i)*700_000, boot, f})
	}
	return es
}

// entriesOf returns what journalctl exports of a file, cursors included.
func entriesOf(t *testing.T, file string) []entry.Entry {
	t.Helper()
	out, err := exec.Command("journalctl", "--file", file, "-o", "export").Output()
	if err != nil {
		t.Fatal(err)
	}
	var cursors []entry.Cursor
	for line := range bytes.SplitSeq(out, []byte("\n")) {
		if text, ok := bytes.CutPrefix(line, []byte("__CURSOR=")); ok {
			c, err := entry.ParseCursor(string(text))
			if err != nil {
				t.Fatal(err)
			}
			cursors = append(cursors, c)
		}
	}
	r := entry.NewExportReader(bytes.NewReader(out), entry.ExportOptions{})
	var all []entry.Entry
	for i := range cursors {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		k := *e
		k.Fields = nil
		for _, f := range e.Fields {
			k.Fields = append(k.Fields, bytes.Clone(f))
		}
		c := cursors[i]
		k.SeqnumID, k.Seqnum, k.XorHash = c.SeqnumID, c.Seqnum, c.XorHash
		if k.BootID != c.BootID {
			t.Fatalf("entry %d: boot %v, cursor says %v", i, k.BootID, c.BootID)
		}
		all = append(all, k)
	}
	return all
}

// diffLines describes the first line in which two outputs differ.
func diffLines(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(g), len(w)) {
		a, b := lineAt(g, i), lineAt(w, i)
		if !bytes.Equal(a, b) {
			return fmt.Sprintf("line %d of %d:\n got %s\nwant %s (of %d)", i+1, len(g), abridged(a), abridged(b), len(w))
		}
	}
	return ""
}

func lineAt(lines [][]byte, i int) []byte {
	if i < len(lines) {
		return lines[i]
	}
	return []byte("(end)")
}

func abridged(b []byte) string {
	if len(b) > 400 {
		return fmt.Sprintf("%q… (%d bytes, …%s)", b[:400], len(b), hex.EncodeToString(b[len(b)-8:]))
	}
	return fmt.Sprintf("%q", b)
}

// corpusDir is where a test keeps its journal files.
func corpusDir(t *testing.T) string {
	t.Helper()
	return filepath.Clean(t.TempDir())
}
