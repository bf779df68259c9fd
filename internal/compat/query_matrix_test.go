package compat

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/render"
)

// matrixLines are every output mode with every option that changes how entries
// look, and what selects the files and entries.
func matrixLines() [][]string {
	var lines []string
	for _, mode := range render.Modes() {
		for _, o := range []string{"", "-a", "--no-full", "--no-full -a", "-l", "--utc", "--no-hostname", "--output-fields=MESSAGE,_PID,TAG", "-r -n 20", "-n 15", "-q", "-m", "-b", "-g line", "-k", "-x"} {
			lines = append(lines, "-o "+mode+" "+o)
		}
	}
	lines = append(lines,
		"--system", "--user", "--system --user", "--user -u ssh", "--user --user-unit u", "--no-tail", "--no-tail -n 3", "-e", "-e -n 3", "-e -n all", "--this-boot", "--this-boot -n 4", "-b all -n 3", "-u ssh -b all", "-x -q", "--no-pager", "-N -b 9", "-F _PID -b 9", "-F _PID -u no*", "-F PRIORITY lower=1",
		"-u ''", "--user-unit ''", "-t ''", "-g '' -n 3", "-g $", "-g ^", "-g l1$", "-g ERROR$ --case-sensitive=no", "--facility= -n 2", "--facility=kern --facility=user", "-p 3 -p 7 -n 3", "-p '' ", "-b '' -n 2", "-n '' ", "--lines= ", "--boot=", "--case-sensitive= -g x", "-S '' ", "-c ''", "--output-fields= -o json -n 2", "--output-fields=, -o json -n 2", "--output-fields=,MESSAGE -o export -n 2", "-F ''",
		"--cursor-file=/nonexistent/file -n 2", "--cursor-file=/ -n 2", "-q -n 0", "-n 0", "-r -n 0", "-n 0 -r -q", "-n 00012", "-n 0x10", "-n 1e3", "-b 0x1", "-b 01 -n 2", "-n 99999999999", "-b 99999999999", "-p 0x3", "-p +3", "-p 03", "-p '3 '", "-p err..", "-p ..err", "-p 1...3", "--facility=kern,", "--facility=,kern", "--facility=kern,help", "--facility=23", "--facility=127", "--facility=128", "--facility=-1",
		"_PID=1 _PID=2 PRIORITY=3 + _PID=1 PRIORITY=4 -n 5", "PRIORITY=3 -- -n", "-- PRIORITY=3", "+", "+ +", "PRIORITY=3 + -- +", "MESSAGE=", "PRIORITY=3=4", "A==", "_=1", "A.B=1", "a=1", "1A=2", "PRIORITY =3", " PRIORITY=3", "PRIORITY=3 /bin/sh", "/bin/sh + PRIORITY=3", "/dev/null", "/dev/null -n 2", "/dev", "/dev/tty0x", "/etc", "./x", "/bin/../bin/sh",
		"--verify -q", "--list-boots --utc", "--header", "--disk-usage -q", "--list-boots -n 1", "--list-boots x", "--list-catalog", "--dump-catalog", "--dump-catalog f77379a8490b408bbe5f6940505a777b", "--list-catalog x", "--list-catalog 00000000000000000000000000000001",
		"-S @1700000000 -U @1700000100 -n 3", "-S @1700000000 -U @1700000100 -r -n 3", "-S -100y", "-S +1h", "-U +1h -n 2", "-S now", "-U today -n 1", "-S '1 week ago' -n 1", "-S 22:13 -n 1", "-U '2023-11-14T22:14:00' -n 1", "-U '2023-11-14T22:14:00Z' -n 1", "-U '2023-11-14T22:14:00+02:00' -n 1", "-U '2023-11-14 22:14:00 +0200' -n 1", "-U '2023-11-14 22:14:00.123456789' -n 1", "-U 'Tue, 2023-11-14' -n 1", "-U 'Tue 2023-11-14' -n 1", "-U '@1700000000.5' -n 1", "-U '@-5' -n 1", "-U '@1700000000s' -n 1", "-U '1700000000' -n 1", "-U '@' -n 1", "-U 'epoch' -n 1", "-U 'infinity' -n 1", "-U '2h 30min ago' -n 1", "-U '2h30min ago' -n 1", "-U '-2h30' -n 1", "-U '- 2h' -n 1", "-U '2023-1-4' -n 1", "-U '2023-11-14 7:5' -n 1", "-U '2023-11-14  22:14' -n 1", "-U '2023-11-14 24:00' -n 1", "-U '2023-11-14 22:14:60' -n 1", "-U '1969-12-31' -n 1", "-U '2300-01-01' -n 1", "-U '9999-01-01' -n 1", "-U '10000-01-01' -n 1",
	)
	return splitLines(lines...)
}

// testMatrix compares both over sources of every kind, each line with two of
// them. It is for TIDEMARK_FULL.
func testMatrix(t *testing.T, bin string) {
	if !full() {
		t.Skip("hundreds of command lines with a dozen sources: TIDEMARK_FULL=1 runs them")
	}
	sources := manySources(t)
	turns := len(sources) / 2
	for i, source := range sources {
		for k, line := range append(matrixLines(), queryLines()...) {
			if k%turns != i%turns || differs(line, source) {
				continue
			}
			t.Run(source.name+"/"+strings.Join(line, " "), func(t *testing.T) {
				args := append(slices.Clone(source.args), line...)
				got, want := runBoth(t, bin, nil, args, args)
				compareOutcomes(t, line, got, want)
			})
		}
	}
}

// testVacuum has both remove archives from copies of one directory.
func testVacuum(t *testing.T, bin string) {
	from := corpusDir(t)
	one := filepath.Join(from, "one.journal")
	writeCorpus(t, one, ordinary(corpusStart, bootA, 3))
	data, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range [][]string{
		{"--vacuum-files=4"}, {"--vacuum-size=20M"}, {"--vacuum-size=1"}, {"--vacuum-time=1s"}, {"--vacuum-time=1000y"}, {"--vacuum-files=0"}, {"--vacuum-size=100M", "--vacuum-files=5"}, {"-q", "--vacuum-files=1"}, {"--vacuum-size=x"}, {"--vacuum-files=x"}, {"--vacuum-time=x"}, {"--vacuum-size=1", "extra"},
	} {
		if i%3 != 0 && !full() {
			continue
		}
		t.Run(strings.Join(line, " "), func(t *testing.T) {
			var got, want outcome
			var left [2][]string
			for k, dir := range []string{t.TempDir(), t.TempDir()} {
				writeArchives(t, dir, data)
				args := append([]string{"-D", dir}, line...)
				o := &got
				if k == 0 {
					got = runCommand(t, nil, bin, append([]string{"query"}, args...)...)
				} else {
					want = runCommand(t, nil, "journalctl", args...)
					o = &want
				}
				o.stderr = []byte(strings.ReplaceAll(string(o.stderr), dir, "DIR"))
				left[k] = listed(t, dir)
			}
			if d := cmp.Diff(left[1], left[0]); d != "" || got.code != want.code {
				t.Errorf("exit code %d, journalctl %d; files left (-journalctl +tidemark):\n%s", got.code, want.code, d)
			}
			if want.code != 0 {
				compareOutcomes(t, line, got, want)
			} else if d := cmp.Diff(vacuumed(want.stderr), vacuumed(got.stderr)); d != "" {
				t.Errorf("said (-journalctl +tidemark):\n%s", d)
			}
		})
	}
}

// writeArchives writes files with archives' names, two sets of numbers and one
// set aside, and some that are not archives.
func writeArchives(t *testing.T, dir string, data []byte) {
	t.Helper()
	closed := slices.Clone(data)
	closed[16] = 2 // archived
	for name, b := range map[string][]byte{
		"system@00000000000000000000000000000001-0000000000000001-0006088000000009.journal":    closed,
		"system@00000000000000000000000000000001-0000000000000010-0006088000000005.journal":    closed,
		"system@00000000000000000000000000000001-0000000000000100-0006088000000007.journal":    closed,
		"user-1000@00000000000000000000000000000002-0000000000000001-0006088000000001.journal": closed,
		"system@0006088000000004-0123456789abcdef.journal~":                                    data,
		"system.journal":          data,
		"user-1000.journal":       data,
		"odd@1.journal":           data,
		bootC + "/system.journal": data,
		bootC + "/system@00000000000000000000000000000003-0000000000000001-0006088000000001.journal": closed,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// listed are the files in dir.
func listed(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.journal*", "*/*.journal*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, strings.TrimPrefix(name, dir))
		}
	}
	return names
}

// vacuumed are the lines about removals, in the order of the alphabet: journalctl
// takes directories in any.
func vacuumed(stderr []byte) []string {
	lines := regexp.MustCompile(`(?m)^(Deleted|Vacuuming).*$`).FindAllString(string(stderr), -1)
	slices.Sort(lines)
	return lines
}
