package compat

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// needNamespaces skips a test that cannot have mounts of its own.
func needNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a mount namespace")
	}
	for _, tool := range []string{"unshare", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	if out, err := exec.Command("unshare", "-m", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/run").CombinedOutput(); err != nil {
		t.Skipf("needs mount namespaces: %v: %s", err, out)
	}
}

// needTool skips a test where a program is not installed.
func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
}

// inPlace runs a shell script in which the daemon is where journald would be:
// its sockets in /run/systemd/journal, its files in /var/log/journal.
func (d *served) inPlace(t *testing.T, script string, args ...string) outcome {
	t.Helper()
	const mounts = `mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && mount --bind "$1" /run/systemd/journal &&
mount -t tmpfs tmpfs /var/log && mkdir /var/log/journal && mount --bind "$2" /var/log/journal && shift 2 || exit 99
`
	return runCommand(t, nil, "unshare", append([]string{"-m", "--propagation", "private", "sh", "-c", mounts + script, "sh", d.run, d.data}, args...)...)
}

// having selects the entries with a field.
func having(all []entry.Entry, field string) (some []entry.Entry) {
	name, value, _ := strings.Cut(field, "=")
	for _, e := range all {
		if v, ok := e.Get(name); ok && string(v) == value {
			some = append(some, e)
		}
	}
	return some
}

// values are those of some fields of an entry, "-" where it has none.
func values(e entry.Entry, names ...string) (vs []string) {
	for _, name := range names {
		v, ok := e.Get(name)
		if !ok {
			v = []byte("-")
		}
		vs = append(vs, string(v))
	}
	return vs
}

// checkValues compares fields of entries, one row for each.
func checkValues(t *testing.T, what string, all []entry.Entry, want [][]string, names ...string) {
	t.Helper()
	var got [][]string
	for _, e := range all {
		got = append(got, values(e, names...))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %q (-want +got):\n%.2000s", what, names, d)
	}
}

// testSenders lets the real programs log.
func testSenders(t *testing.T, bin string) {
	needTool(t, "logger")
	d := serve(t, bin, sockdir.New(t))
	succeed(t, "logger", "-u", filepath.Join(d.run, "dev-log"), "-t", "first", "-p", "local3.warning", "said by logger")
	succeed(t, "logger", "-u", filepath.Join(d.run, "dev-log"), "--id=2000000000", "-t", "second", "two", "words")
	many := filepath.Join(t.TempDir(), "many")
	if err := os.WriteFile(many, []byte(strings.Repeat("<11>a line of a file\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "logger", "-u", filepath.Join(d.run, "dev-log"), "-t", "many", "--prio-prefix", "-f", many)
	d.command(t, "sync")
	all := export(t, d.data)
	fields := []string{"MESSAGE", "PRIORITY", "SYSLOG_FACILITY", "SYSLOG_PID", "_TRANSPORT", "_UID"}
	uid := fmt.Sprint(os.Getuid())
	checkValues(t, "logger", having(all, "SYSLOG_IDENTIFIER=first"), [][]string{{"said by logger", "4", "19", "-", "syslog", uid}}, fields...)
	checkValues(t, "logger --id", having(all, "SYSLOG_IDENTIFIER=second"), [][]string{{"two words", "5", "1", "2000000000", "syslog", uid}}, fields...)
	checkValues(t, "logger -f", having(all, "SYSLOG_IDENTIFIER=many"), slices.Repeat([][]string{{"a line of a file", "3", "1", "-", "syslog", uid}}, 500), fields...)
	t.Run("in place", func(t *testing.T) { testSendersInPlace(t, d) })
}

// testSendersInPlace lets programs log that know one place only.
func testSendersInPlace(t *testing.T, d *served) {
	needNamespaces(t)
	needTool(t, "systemd-cat")
	// A message that no socket takes as a datagram: libsystemd sends a memfd.
	const huge = 20 << 20
	input := filepath.Join(t.TempDir(), "fields")
	big := append([]byte("MESSAGE=by libsystemd\nTESTED=memfd\nHUGE="), bytes.Repeat([]byte("0123456789abcdef"), huge/16)...)
	if err := os.WriteFile(input, append(big, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	o := d.inPlace(t, `set -e
systemd-cat -t cat -p notice --stderr-priority=err sh -c 'echo "to stdout"; echo "to stderr" >&2; echo "<6>with a level"; printf "no newline"; journalctl --sync'
printf 'MESSAGE=by sd_journal_sendv\nTESTED=small\nPRIORITY=2\nMESSAGE=second line\n' | logger --journald
logger --journald="$1"
journalctl --sync
journalctl -q -o export -t cat
`, input)
	if o.code != 0 || len(o.stderr) > 0 {
		t.Fatalf("exit code %d: %s", o.code, o.stderr)
	}
	byDefault := parseExport(t, o.stdout)
	all := export(t, d.data)
	if d := cmp.Diff(having(all, "SYSLOG_IDENTIFIER=cat"), byDefault); d != "" {
		t.Errorf("journalctl without -D shows something else (-with +without):\n%s", d)
	}
	cat := having(all, "SYSLOG_IDENTIFIER=cat")
	slices.SortFunc(cat, func(a, b entry.Entry) int { return strings.Compare(values(a, "MESSAGE")[0], values(b, "MESSAGE")[0]) })
	checkValues(t, "systemd-cat", cat, [][]string{
		{"no newline", "5", "stdout", "0", "sh"},
		{"to stderr", "3", "stdout", "0", "sh"},
		{"to stdout", "5", "stdout", "0", "sh"},
		{"with a level", "6", "stdout", "0", "sh"},
	}, "MESSAGE", "PRIORITY", "_TRANSPORT", "_UID", "_COMM")
	checkValues(t, "logger --journald", having(all, "TESTED=small"), [][]string{
		{"by sd_journal_sendv\nsecond line", "2", "journal", "0"},
	}, "MESSAGE", "PRIORITY", "_TRANSPORT", "_UID")
	memfd := having(all, "TESTED=memfd")
	checkValues(t, "memfd", memfd, [][]string{{"by libsystemd", "journal"}}, "MESSAGE", "_TRANSPORT")
	for _, e := range memfd {
		if v, _ := e.Get("HUGE"); string(v) != strings.Repeat("0123456789abcdef", huge/16) {
			t.Errorf("the huge value has %d bytes, or other ones than the %d sent", len(v), huge)
		}
	}
	d.verify(t, "with a huge value", 1)
}

// testCommands gives the daemon journalctl's commands.
func testCommands(t *testing.T, bin string) {
	needNamespaces(t)
	dir := sockdir.New(t)
	d := serve(t, bin, dir)
	senders := d.senders(t, 2)
	for err := range burst(senders, 500) {
		t.Fatal(err)
	}
	command := func(option string) {
		t.Helper()
		if o := d.inPlace(t, `exec journalctl "$1"`, option); o.code != 0 || len(o.stderr)+len(o.stdout) > 0 {
			t.Errorf("journalctl %s: exit code %d, stdout %q, stderr %q", option, o.code, o.stdout, o.stderr)
		}
	}
	command("--sync")
	checkWhole(t, export(t, d.data), senders)
	for _, f := range d.status(t).Files {
		if f.Unsynced != 0 || f.Unwritten != 0 {
			t.Errorf("after journalctl --sync %s has %d entries not synced, %d bytes not written", f.Path, f.Unsynced, f.Unwritten)
		}
	}
	d.verify(t, "journalctl --sync", 1)
	command("--rotate")
	if err := senders[0].send(10); err != nil {
		t.Fatal(err)
	}
	command("--sync")
	d.verify(t, "journalctl --rotate", 2)
	for _, option := range []string{"--flush", "--relinquish-var", "--sync"} {
		command(option)
	}
	if n := len(d.files(t)); n != 2 {
		t.Errorf("%d files after --flush and --relinquish-var, want the 2 of before", n)
	}
	checkWhole(t, export(t, d.data), senders)
}

// testRoundTrip sends entries from one format, program and file to the next:
// nothing but the numbers of the new files may change.
func testRoundTrip(t *testing.T, bin string) {
	dir := sockdir.New(t)
	d := serve(t, bin, dir)
	senders := d.senders(t, 2)
	for err := range burst(senders, 300) {
		t.Fatal(err)
	}
	for _, b := range []string{
		"MESSAGE\n\x09\x00\x00\x00\x00\x00\x00\x00two\nlines\nE=\nTAG=a\nTAG=b\n",
		"MESSAGE=binary\nBIN\n\x05\x00\x00\x00\x00\x00\x00\x00\x00\x01\n\xff\xfe\nTAB=a\tb\nUMLAUT=grün\nLONG=" + strings.Repeat("long ", 5000) + "\n",
		"MESSAGE=one\n\nMESSAGE=two of a datagram\n\n",
	} {
		if _, err := senders[0].conn.Write([]byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	d.command(t, "rotate")
	if err := senders[0].send(100); err != nil {
		t.Fatal(err)
	}
	d.command(t, "sync")
	theirs := succeed(t, "journalctl", "-D", d.data, "-o", "export")
	ours := succeed(t, bin, "export", "-D", d.data)
	if d := diffLines(ours, theirs); d != "" {
		t.Errorf("tidemark export and journalctl -o export: %s", d)
	}
	remote, imported := filepath.Join(dir, "remote.journal"), filepath.Join(dir, "imported.journal")
	pipe(t, ours, journalRemote, "-o", remote, "-")
	pipe(t, theirs, bin, "import", "-q", "-o", imported)
	want := withoutNumbers(parseExport(t, theirs))
	for what, path := range map[string]string{"tidemark export | journal-remote": remote, "journalctl -o export | tidemark import": imported} {
		got := withoutNumbers(parseExport(t, succeed(t, "journalctl", "--file", path, "-o", "export")))
		if len(got) != len(want) {
			t.Errorf("%s: %d entries became %d", what, len(want), len(got))
		}
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Errorf("%s, entry %d (-before +after):\n%.2000s", what, i, cmp.Diff(want[i], got[i]))
				break
			}
		}
		succeed(t, bin, "verify", "-q", path)
	}
	d.end(t, syscall.SIGTERM)
}

// pipe gives a command its input.
func pipe(t *testing.T, input []byte, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// withoutNumbers are entries as text, without what a file gives them: the
// numbers, and the order of the fields.
func withoutNumbers(all []entry.Entry) (texts []string) {
	for _, e := range all {
		e.Seqnum, e.SeqnumID = 0, entry.ID{}
		slices.SortFunc(e.Fields, func(a, b entry.Field) int { return bytes.Compare(a, b) })
		texts = append(texts, string(entry.AppendExport(nil, &e)))
	}
	return texts
}

// testDemo plays the demo as anybody may.
func testDemo(t *testing.T, bin string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody who has no home; internal/demo runs it as who we are")
	}
	dir := t.TempDir()
	cmd := exec.Command(bin, "demo")
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	for _, path := range []string{dir, filepath.Dir(dir), filepath.Dir(bin), filepath.Dir(filepath.Dir(bin))} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("tidemark demo: %v\n%s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	for _, want := range []string{"  lost             0   ", "  torn             0   ", "  PASS  journalctl --verify: "} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("tidemark demo has no line %q…:\n%s", want, out)
		}
	}
	for _, bad := range []string{"FAIL", "with 0 syncs"} {
		if bytes.Contains(out, []byte(bad)) {
			t.Errorf("tidemark demo says %q:\n%s", bad, out)
		}
	}
}
