package compat

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cursorsOf returns the cursors of what args select, in order.
func cursorsOf(t *testing.T, args ...string) []string {
	t.Helper()
	var all []string
	for line := range bytes.SplitSeq(journalctl(t, nil, append(args, "-o", "export")...), []byte("\n")) {
		if c, ok := bytes.CutPrefix(line, []byte("__CURSOR=")); ok {
			all = append(all, string(c))
		}
	}
	return all
}

// testCursors begins at real cursors, whole and in parts.
func testCursors(t *testing.T, bin string) {
	for i, source := range querySources(t)[:2] {
		cursors := cursorsOf(t, source.args...)
		places := 1 + i
		if full() {
			places = 4
		}
		for i := len(cursors) / 9; i < len(cursors); i += len(cursors)/places + 1 {
			parts := strings.Split(cursors[i], ";") // s i b m t x
			for _, c := range []string{
				cursors[i], strings.Join(parts[:2], ";"), strings.Join(parts[2:4], ";"), parts[4],
				strings.Join(parts[2:], ";"), strings.Join(parts[:2], ";") + "00;" + strings.Join(parts[2:], ";"),
			} {
				for _, line := range [][]string{
					{"--cursor=" + c, "-n3"},
					{"--after-cursor=" + c, "-n3"},
					{"-r", "--cursor=" + c, "-n3"},
					{"-r", "--after-cursor=" + c, "-n3"},
					{"--cursor=" + c, "-n2", "PRIORITY=3"},
					{"--after-cursor=" + c, "-n2", "-u", "ssh", "--show-cursor"},
				} {
					if line[0] == "-r" && c == strings.Join(parts[2:4], ";") {
						// journalctl begins at the end of a file in which all entries of
						// that boot come later than the cursor.
						continue
					}
					args := append(slices.Clone(source.args), line...)
					got, want := runBoth(t, bin, nil, args, args)
					if got.code != want.code || !bytes.Equal(got.stdout, want.stdout) {
						t.Errorf("%s entry %d %q: exit code %d, want %d\n%s", source.name, i, line, got.code, want.code, diffLines(got.stdout, want.stdout))
					}
				}
			}
		}
	}
}

// testCursorFile runs both programs with a cursor file of their own, again
// and again.
func testCursorFile(t *testing.T, bin string) {
	one := querySources(t)[0]
	for name, prepare := range map[string]func(path string) error{
		"new":      func(string) error { return nil },
		"empty":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"garbage":  func(path string) error { return os.WriteFile(path, []byte("x\n"), 0o600) },
		"unusable": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
			for _, path := range []string{ours, theirs} {
				if err := prepare(path); err != nil {
					t.Fatal(err)
				}
			}
			for _, line := range [][]string{{"-n", "5"}, {}, {}, {"-n", "2", "-r"}, {"PRIORITY=3", "-n", "4"}, {"PRIORITY=99"}} {
				args := slices.Concat(one.args, line, []string{"--cursor-file"})
				got, want := runBoth(t, bin, nil, append(slices.Clone(args), ours), append(slices.Clone(args), theirs))
				if got.code != want.code || !bytes.Equal(got.stdout, want.stdout) {
					t.Errorf("%q: exit code %d, journalctl %d\n%s", line, got.code, want.code, diffLines(got.stdout, want.stdout))
				}
				gotFile, _ := os.ReadFile(ours)
				wantFile, _ := os.ReadFile(theirs)
				if d := cmp.Diff(string(wantFile), string(gotFile)); d != "" {
					t.Errorf("%q: cursor files differ (-journalctl +tidemark):\n%s", line, d)
				}
			}
		})
	}
}

// testNot checks FIELD!=value, which journalctl has not: it leaves what
// journalctl finds without the entries that journalctl finds for FIELD=value.
func testNot(t *testing.T, bin string) {
	for _, source := range querySources(t)[:2] {
		for _, c := range []struct {
			args    []string
			all     []string
			without [][]string
		}{
			{[]string{"PRIORITY!=3"}, nil, [][]string{{"PRIORITY=3"}}},
			{[]string{"PRIORITY!=3", "PRIORITY!=4"}, nil, [][]string{{"PRIORITY=3"}, {"PRIORITY=4"}}},
			{[]string{"PRIORITY!=3", "_UID=0"}, []string{"_UID=0"}, [][]string{{"PRIORITY=3"}}},
			{[]string{"-u", "ssh", "_PID!=1"}, []string{"-u", "ssh"}, [][]string{{"_PID=1"}}},
			{[]string{"_SYSTEMD_UNIT!=none"}, nil, nil},
			{[]string{"NOTHING!=none"}, nil, nil}, // also without the field
			{[]string{"PRIORITY!=3", "+", "PRIORITY=3"}, nil, nil},
			{[]string{"_UID=0", "PRIORITY!=3", "+", "_UID!=0"}, nil, [][]string{{"_UID=0", "PRIORITY=3"}}},
			{[]string{"_TRANSPORT=journal", "+", "PRIORITY!=3", "PRIORITY!=4"}, nil, [][]string{{"PRIORITY=3", "PRIORITY=4", "_TRANSPORT=syslog"}, {"PRIORITY=3", "PRIORITY=4", "_TRANSPORT=kernel"}}},
			{[]string{"-u", "s*", "_PID!=1"}, []string{"-u", "s*"}, [][]string{{"_PID=1"}}},
			{[]string{"-t", "ssh", "PRIORITY!=3", "-g", "line"}, []string{"-t", "ssh", "-g", "line"}, [][]string{{"PRIORITY=3"}}},
			{[]string{"--facility=1", "PRIORITY!=3", "-b", "1"}, []string{"--facility=1", "-b", "1"}, [][]string{{"PRIORITY=3"}}},
			{[]string{"MESSAGE_ID!=fc2e22bc6ee647b6b90729ab34a250b1", "-p", "err"}, []string{"-p", "err"}, [][]string{{"MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1"}}},
		} {
			drop := make(map[string]bool)
			for _, w := range c.without {
				for _, cursor := range cursorsOf(t, append(slices.Clone(source.args), w...)...) {
					drop[cursor] = true
				}
			}
			want := slices.DeleteFunc(cursorsOf(t, append(slices.Clone(source.args), c.all...)...), func(cursor string) bool { return drop[cursor] })
			got := runCommand(t, nil, bin, append(append([]string{"query", "-o", "export"}, source.args...), c.args...)...)
			var found []string
			for line := range bytes.SplitSeq(got.stdout, []byte("\n")) {
				if cursor, ok := bytes.CutPrefix(line, []byte("__CURSOR=")); ok {
					found = append(found, string(cursor))
				}
			}
			if d := cmp.Diff(want, found); d != "" || got.code != 0 {
				t.Errorf("%s %q: exit code %d (-want +got):\n%.1000s", source.name, c.args, got.code, d)
			}
		}
	}
}

// testName checks the other name of the command.
func testName(t *testing.T, bin string) {
	name := filepath.Join(t.TempDir(), "journalctl")
	if err := os.Symlink(bin, name); err != nil {
		t.Fatal(err)
	}
	one := querySources(t)[0]
	for _, line := range [][]string{{"-n", "3"}, {"-o", "nonsense"}, {"--nonsense"}, {"-g", "nothing-like-this"}} {
		args := append(slices.Clone(one.args), line...)
		want := runCommand(t, nil, "journalctl", args...)
		got := runCommand(t, nil, name, args...)
		if got.code != want.code || !bytes.Equal(got.stdout, want.stdout) {
			t.Errorf("%q: exit code %d, journalctl %d\n%s", line, got.code, want.code, diffLines(got.stdout, want.stdout))
		}
		if d := cmp.Diff(errorWords(want.stderr, "journalctl: "), errorWords(got.stderr, "journalctl: ")); d != "" {
			t.Errorf("%q: error (-journalctl +tidemark):\n%s", line, d)
		}
	}
}
