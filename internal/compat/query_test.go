package compat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tidemarkBinary builds the command for one test.
func tidemarkBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemark")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/tidemark-log/tidemark/cmd/tidemark")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// full reports whether everything is compared. Without that a line is not run
// with every source; some is left out that hardly depends on it.
func full() bool { return os.Getenv("TIDEMARK_FULL") != "" }

// outcome is what a command did.
type outcome struct {
	stdout, stderr []byte
	code           int
}

func runCommand(t *testing.T, env []string, name string, args ...string) outcome {
	t.Helper()
	o, err := execute(env, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// runBoth runs tidemark query and journalctl at the same time.
func runBoth(t *testing.T, bin string, env []string, ours, theirs []string) (got, want outcome) {
	t.Helper()
	failed := make(chan error)
	go func() {
		var err error
		want, err = execute(env, "journalctl", theirs...)
		failed <- err
	}()
	got, err := execute(env, bin, append([]string{"query"}, ours...)...)
	if err = errors.Join(err, <-failed); err != nil {
		t.Fatal(err)
	}
	return got, want
}

func execute(env []string, name string, args ...string) (outcome, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(append(os.Environ(), "TZ=UTC", "LC_ALL=C.UTF-8", "SYSTEMD_LOG_LEVEL=info"), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	return outcome{stdout.Bytes(), stderr.Bytes(), cmd.ProcessState.ExitCode()}, nil
}

// querySource is a set of files and how to name it on a command line.
type querySource struct {
	name    string
	args    []string
	damaged bool // entries can be lost to journalctl
}

// querySources writes the files of TestQuery.
func querySources(t *testing.T) []querySource {
	t.Helper()
	root := corpusDir(t)
	boots := filepath.Join(root, "boots")
	if err := os.MkdirAll(boots, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name string, es ...[]corpusEntry) string {
		path := filepath.Join(root, name)
		writeCorpus(t, path, slices.Concat(es...))
		return path
	}
	const hour = 3_600_000_000
	one := write("one.journal", ordinary(corpusStart, bootA, 300), ordinary(corpusStart+hour, bootB, 200), ordinary(corpusStart+30*hour, bootC, 100))
	// Two files that overlap in the time of one boot, and one of another boot.
	all := ordinary(corpusStart, bootA, 300)
	var even, odd []corpusEntry
	for i, e := range all {
		if i%3 == 0 {
			even = append(even, e)
		} else {
			odd = append(odd, e)
		}
	}
	write("boots/even.journal", even)
	write("boots/odd.journal", odd, ordinary(corpusStart+2*hour, bootC, 50))
	copied := write("boots/b.journal", ordinary(corpusStart+hour, bootB, 150))
	data, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(boots, "copy.journal"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	awkwardFile := write("awkward.journal", awkward())
	return []querySource{
		{name: "one", args: []string{"--file", one}},
		{name: "boots", args: []string{"-D", boots}},
		{name: "awkward", args: []string{"--file", awkwardFile}},
	}
}

// TestQuery compares tidemark query with journalctl.
func TestQuery(t *testing.T) {
	needJournalctl(t)
	bin := tidemarkBinary(t)
	for name, test := range map[string]func(t *testing.T, bin string){
		"lines": testLines, "zones": testZones, "cursors": testCursors, "cursor file": testCursorFile,
		"not": testNot, "name": testName, "follow": testFollow, "terminal": testTerminal, "matrix": testMatrix, "vacuum": testVacuum,
	} {
		t.Run(name, func(t *testing.T) { test(t, bin) })
	}
}

// testLines runs the same command lines with both programs and compares output,
// exit code and, for errors, their words.
func testLines(t *testing.T, bin string) {
	for i, source := range querySources(t) {
		lines := queryLines()
		if i == 0 {
			lines = append(lines, usageLines()...)
		}
		for k, line := range lines {
			if k%3 != i && !full() {
				continue // runs with another of the three, or in the full run
			}
			t.Run(source.name+"/"+strings.Join(line, " "), func(t *testing.T) {
				args := append(slices.Clone(source.args), line...)
				got, want := runBoth(t, bin, nil, args, args)
				compareOutcomes(t, line, got, want)
			})
		}
	}
}

// queryLines are the command lines to compare.
func queryLines() [][]string {
	return splitLines(
		"", "-n 5", "-n5", "--lines=5", "--lines 5", "-n", "-n all", "-nall", "-n0", "-n 0 --show-cursor", "-n 1000", "--lin=3",
		"-r", "-r -n 5", "-rn5", "-n 3 -o cat", "-o cat -r", "-q", "-m", "-qr", "-o export", "-o export -r", "-o verbose -n 20", "-o json", "-o json-pretty -n 3", "-o short-delta", "-o short-delta -r", "-o with-unit",
		"-b", "-b 0", "-b -1", "-b-1", "-b -2", "-b 1", "-b 2", "-b +2", "-b 3", "-b 9", "-b -9", "--boot=1", "--boot", "-b all", "-ball",
		"-b "+bootA, "-b "+bootB+"-1", "-b "+bootA+"+1", "-b "+bootC+"+1", "-b 00000000000000000000000000000001", "-b "+bootA+"x",
		"-k", "-k -n 5", "-k -b 1", "--dmesg -p 3",
		"-u ssh", "-u ssh.service -n 10", "-u ssh -u cron", "-u app-foo.slice", "-u *.service", "-u s*", "-u [sc]*", "-u nothing*", "-u none", "-u other", "-u dev-sda.device", "-u /dev/sda", "-u ? -u ssh", "--user-unit u.service", "--user-unit u*", "-u ssh --user-unit u",
		"-t ssh", "-t ssh -t cron -n 7", "-t none", "-p err", "-p 3", "-p warning..crit", "-p crit..warning", "-p 0..7", "-p debug", "-p 2..2", "--facility=1", "--facility=kern,user", "--facility=daemon PRIORITY=3",
		"PRIORITY=3", "PRIORITY=3 PRIORITY=4", "PRIORITY=3 _UID=0", "PRIORITY=3 _UID=0 + _SYSTEMD_UNIT=ssh.service", "PRIORITY=3 + PRIORITY=4 + _PID=1", "_UID=0 _UID=500 PRIORITY=1 PRIORITY=2", "-u ssh PRIORITY=3", "-t ssh _PID=1 + _UID=0", "--facility=1 PRIORITY=3 + _PID=1", "PRIORITY=99", "MESSAGE=plain", "E=",
		"-g error", "-g Error", "-g ERROR", "-g error -n 5", "-g error -n 5 -o cat", "-g nothing-like-this", "-g ^line.*[05]$ -q", "-g error --case-sensitive", "-g ERROR --case-sensitive=no", "-g error --case-sensitive=yes", "-g 'line 1' -r -u ssh", "-g line -k", "-o cat -g x{5}",
		"-S @1700000050", "-U @1700000050", "-S @1700000050 -U @1700000100", "-S @1700000050 -U @1700000100 -r", "-r -U @1700000050 -n 4", "-S @1700000050 -n 4", "-U @1700000050 -n 4", "-S @1700000050.5 -n3", "-S yesterday", "-U -1h -n1",
		"-F PRIORITY", "-F _SYSTEMD_UNIT", "-F MESSAGE", "-F NOTHING", "-F lower", "-F __X", "-F _HOSTNAME", "-F PRIORITY -n 2", "-N", "-F BIN", "-F E",
		"--list-boots", "--list-boots -q", "--list-boots -r", "--list-boots -o json", "--list-boots -o json-pretty", "--disk-usage", "--header",
		"--show-cursor -n 1", "--show-cursor -q", "--show-cursor -o cat -n 2", "--show-cursor -g nothing-like-this", "--show-cursor -U @1700000050", "--show-cursor PRIORITY=99",
		"--cursor=t=60a24181e4000", "--cursor=t=60a24181e4000 -n 3", "--cursor=t=60a24181e4000 -r", "--after-cursor=t=60a24181e4000 -n 3", "--after-cursor=t=60a24181e4000 -r", "--cursor=t=ffffffffff -n 3", "--cursor=t=fffffffffffffff", "--after-cursor=t=fffffffffffffff --show-cursor", "--cursor=b="+bootA+";m=f4240 -n 3", "--after-cursor=b="+bootA+";m=f4240 -n 3", "--cursor=t=60a24181e4000;x=1 PRIORITY=3 -n 2",
		"--no-hostname -n 3", "--utc -n 3", "--no-full -n 20", "-a -n 20", "-al -n 3", "-o cat --output-fields=MESSAGE,PRIORITY -n 5", "-o verbose --output-fields=PRIORITY,_PID -n 5", "-o export --output-fields=MESSAGE -n 2", "--output-fields=X --output-fields=MESSAGE -o json -n 2",
	)
}

// usageLines are command lines where the files hardly matter.
func usageLines() [][]string {
	return splitLines(
		"--file 'nothing*.journal'",
		"-o nonsense", "-p nonsense", "-p a..b", "-n x", "-n -5", "-b x", "lower=1", "NOEQUALS", "=x", "__CURSOR=x", "+ A=1", "A=1 +", "A=1 + + B=2", "--facility=nonsense", "--nonsense", "-Z", "-o", "--output", "--file", "--quiet=1", "--no", "-f -r", "-c x", "--cursor=s=1", "--cursor=", "--after-cursor=t=zz", "--list-boots x", "-F A B", "--header x", "-S now -c t=5", "-m -b", "-m --list-boots", "-S @200 -U @100", "-g (", "--case-sensitive=maybe", "--after-cursor=t=1 -c t=1",
		"/bin/sh", "/nonexistent", "/etc/passwd", "-- -n", "-n 2 -- PRIORITY=3", "PRIORITY=3 -n 2", "--facility=help", "-o help", "--no-pager -n 1", "-x -n 1",
		"-S 2023-11-14 -U '2023-11-14 22:14'", "-S '2023-11-14 22:14:30' -n 3", "-S '2023-11-14 22:14:30.5' -n 3", "-S '23-11-14 22:14' -n 2", "-S 'Tue 2023-11-14 22:14:30' -n 2", "-S 'tuesday 2023-11-14 22:14:30 UTC' -n 2", "-S '2023-11-14 22:14:30 Europe/Berlin' -n 2", "-S 'Mon 2023-11-14 22:14:30'", "-S yesterday", "-S -1h", "-S '2 days ago'", "-U -1h -n1", "-U now -n 1", "-S 9000d -n 2", "-S 100y", "-U '-100y'", "-U 'x'", "-S 2023-13-01", "-S '2023-11-14 25:00'", "-U 2023-02-30 -n1", "-U tomorrow -n1", "-S '@1700000000 ago'",
	)
}

func splitLines(lines ...string) [][]string {
	words := make([][]string, len(lines))
	for i, line := range lines {
		words[i] = splitLine(line)
	}
	return words
}

// splitLine splits at spaces, but not between single quotes.
func splitLine(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// asked is what of a command line decides how outputs are compared.
type asked struct {
	mode   string // the last -o
	fields bool   // --output-fields
	action string // the last of those that are no -o
	lines  bool   // -n
}

// askedOf reads a command line that has no values in words of their own that
// look like options.
func askedOf(line []string) (a asked) {
	for i, word := range line {
		switch {
		case word == "-o" && i+1 < len(line):
			a.mode = line[i+1]
		case strings.HasPrefix(word, "--output-fields"):
			a.fields = true
		case strings.HasPrefix(word, "-n"), strings.HasPrefix(word, "--lin"):
			a.lines = true
		case slices.Contains([]string{"-F", "-N", "--list-boots", "--header", "--disk-usage"}, word):
			a.action = word
		}
	}
	return a
}

func compareStdout(t *testing.T, a asked, got, want []byte) {
	t.Helper()
	switch {
	case a.action == "" && strings.HasPrefix(a.mode, "json"):
		if d := cmp.Diff(parseJSON(t, want), parseJSON(t, got)); d != "" {
			t.Errorf("json differs (-journalctl +tidemark):\n%.2000s", d)
		}
	case a.action == "-N", a.action == "-F" && !a.lines, a.action == "" && a.mode == "cat" && a.fields:
		if d := cmp.Diff(lineCounts(want), lineCounts(got)); d != "" {
			t.Errorf("lines differ (-journalctl +tidemark):\n%.2000s", d)
		}
	case a.action == "-F":
		// Which of the values come first is up to the order of the files.
		if g, w := bytes.Count(got, []byte("\n")), bytes.Count(want, []byte("\n")); g != w {
			t.Errorf("%d values, journalctl has %d", g, w)
		}
	case a.action == "--header":
		if d := cmp.Diff(headerBlocks(want), headerBlocks(got)); d != "" {
			t.Errorf("headers differ (-journalctl +tidemark):\n%.2000s", d)
		}
	default:
		if d := diffLines(got, want); d != "" {
			t.Error(d)
		}
	}
}

func compareOutcomes(t *testing.T, line []string, got, want outcome) {
	t.Helper()
	if got.code != want.code {
		t.Errorf("exit code %d, journalctl %d\nstderr %q\njournalctl %q", got.code, want.code, got.stderr, want.stderr)
	}
	compareStdout(t, askedOf(line), got.stdout, want.stdout)
	if want.code != 0 {
		if d := cmp.Diff(errorWords(want.stderr, "journalctl: "), errorWords(got.stderr, "tidemark query: ")); d != "" {
			t.Errorf("error (-journalctl +tidemark):\n%s", d)
		}
	}
}

// headerBlocks are the headers of --header by file: their order is that of the
// directory.
func headerBlocks(b []byte) map[string]string {
	blocks := make(map[string]string)
	for block := range bytes.SplitSeq(bytes.TrimSpace(b), []byte("\n\n")) {
		name, rest, _ := bytes.Cut(block, []byte("\n"))
		blocks[string(name)] = string(rest)
	}
	return blocks
}

// errorWords is what an error says, without the name of the program and what
// tidemark adds.
func errorWords(stderr []byte, prefix string) string {
	text := string(stderr)
	for strings.HasPrefix(text, "warning: ") { // of damage, before the error
		_, text, _ = strings.Cut(text, "\n")
	}
	line, _, _ := strings.Cut(text, "\n")
	line = strings.TrimPrefix(line, prefix)
	if strings.HasPrefix(line, "No ") && strings.Contains(line, "journal files ") {
		return "" // is said in other words
	}
	line = line[:min(len(line), 1900)] // journalctl cuts its words there
	if pattern, _, found := strings.Cut(line, `": missing closing`); found {
		return pattern // the rest is the regular expression library's
	}
	return line
}

// testZones compares times in a zone that is not UTC, on both sides of a
// change of the clocks.
func testZones(t *testing.T, bin string) {
	file := filepath.Join(corpusDir(t), "zones.journal")
	var es []corpusEntry
	for i := range uint64(100) {
		es = append(es, corpusEntry{summerTime + i*200_000_000, 1 + i*200_000_000, bootA, []string{fmt.Sprintf("MESSAGE=%d", i)}})
	}
	writeCorpus(t, file, es)
	for z, zone := range []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Chatham", "UTC"} {
		for k, line := range []string{
			"", "-o short-full", "-o short-iso", "-o short-iso-precise", "-o verbose -n 3", "-o short --utc", "-o short-full --utc", "--list-boots", "--list-boots --utc", "--header --utc",
			"-S '2024-03-31 03:10' -n 2", "-S '2024-03-31 01:59' -n 2", "-S '2024-03-31 04:10 UTC' -n 2", "-S '2024-03-31' -n 1", "-U '2024-03-31 03:30:30' -n 1 -r", "-S '2024-03-31 02:30' -n 2", "-S '2024-03-31 03:10 Europe/Berlin' -n 2", "-S '2024-03-31 05:10 CEST' -n 2", "-S '2024-03-31 03:10 CET' -n 2", "-S '2024-03-31 03:10 EDT' -n 2",
		} {
			if k%5 != z && !full() {
				continue
			}
			t.Run(zone+"/"+line, func(t *testing.T) {
				words := splitLine(line)
				args := append([]string{"--file", file}, words...)
				got, want := runBoth(t, bin, []string{"TZ=" + zone}, args, args)
				compareOutcomes(t, words, got, want)
			})
		}
	}
}
