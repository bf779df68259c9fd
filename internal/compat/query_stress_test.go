package compat

import (
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// manySources are files of every kind: those of querySources, the samples of
// package journal, several machines and namespaces, and the directories that
// TIDEMARK_JOURNALS names.
func manySources(t *testing.T) []querySource {
	t.Helper()
	sources := querySources(t)
	root := corpusDir(t)
	samples := filepath.Join(root, "samples")
	if err := os.Mkdir(samples, 0o755); err != nil {
		t.Fatal(err)
	}
	packed, err := filepath.Glob("../../journal/testdata/*.journal.*")
	if err != nil || len(packed) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, from := range packed {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(from), ".gz"), ".zst")
		path := filepath.Join(samples, name)
		unpack(t, from, path)
		sources = append(sources, querySource{name: name, args: []string{"--file", path}, damaged: strings.HasPrefix(name, "foreign")})
	}
	sources = append(sources,
		querySource{name: "samples", args: []string{"-D", samples}, damaged: true},
		querySource{name: "several files", args: []string{"--file", filepath.Join(samples, "r-0*.journal"), "--file=" + filepath.Join(samples, "r-1*.journal")}},
		querySource{name: "machines", args: []string{"-D", machines(t, filepath.Join(root, "machines"))}},
		querySource{name: "root", args: []string{"--root=" + otherRoot(t, filepath.Join(root, "root"))}},
	)
	for _, dir := range filepath.SplitList(os.Getenv("TIDEMARK_JOURNALS")) {
		sources = append(sources, querySource{name: filepath.Base(dir), args: []string{"-D", dir}, damaged: strings.Contains(dir, "damaged")})
	}
	return sources
}

// unpack writes the journal file that from holds, compressed, to path.
func unpack(t *testing.T, from, path string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var r io.Reader
	if strings.HasSuffix(from, ".gz") {
		r, err = gzip.NewReader(in)
	} else {
		r, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// machines writes the files of two machines and a namespace below dir: system
// and user files, and an archive, which overlap in time.
func machines(t *testing.T, dir string) string {
	t.Helper()
	one, other := filepath.Join(dir, bootC), filepath.Join(dir, "00112233445566778899aabbccddeeff")
	space := one + ".spaced"
	for _, d := range []string{one, other, space, filepath.Join(dir, "nothing")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const minute = 60_000_000
	for path, es := range map[string][]corpusEntry{
		filepath.Join(one, "system.journal"):    ordinary(corpusStart, bootA, 90),
		filepath.Join(one, "user-1000.journal"): ordinary(corpusStart+minute/2, bootA, 40),
		filepath.Join(one, "user-0.journal"):    ordinary(corpusStart+minute/3, bootA, 20),
		filepath.Join(one, "system@00000000000000000000000000000001-0000000000000001-0006088000000000.journal"): ordinary(corpusStart-5*minute, bootB, 60),
		filepath.Join(other, "system.journal"):     ordinary(corpusStart-minute, bootC, 80),
		filepath.Join(space, "system.journal"):     ordinary(corpusStart+2*minute, bootB, 30),
		filepath.Join(dir, "nothing", "x.journal"): ordinary(corpusStart, bootB, 5),
	} {
		// One clock for all files of a boot: see docs/PROTOCOLS.md for cursors else.
		for i := range es {
			es[i].monotonic = es[i].realtime - (corpusStart - 10*minute)
		}
		writeCorpus(t, path, es)
	}
	return dir
}

// otherRoot writes the files of a system below dir.
func otherRoot(t *testing.T, dir string) string {
	t.Helper()
	machines(t, filepath.Join(dir, "var/log/journal"))
	run := filepath.Join(dir, "run/log/journal", bootC)
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	es := ordinary(corpusStart+300_000_000, bootA, 20)
	for i := range es {
		es[i].monotonic = es[i].realtime - (corpusStart - 600_000_000)
	}
	writeCorpus(t, filepath.Join(run, "system.journal"), es)
	return dir
}

// drawer draws command lines for a source.
type drawer struct {
	r       *rand.Rand
	fields  []string
	values  map[string][]string // of some fields, without those that a command line cannot hold
	cursors []string
	from    uint64 // realtime of the first and the last entry, in s
	to      uint64
}

func newDrawer(t *testing.T, r *rand.Rand, source querySource) *drawer {
	t.Helper()
	d := &drawer{r: r, values: make(map[string][]string)}
	d.fields = strings.Fields(string(journalctl(t, nil, append(slices.Clone(source.args), "-N")...)))
	slices.Sort(d.fields)
	for _, f := range d.fields {
		for line := range strings.Lines(string(journalctl(t, nil, append(slices.Clone(source.args), "-F", f, "-n", "60")...))) {
			v := strings.TrimSuffix(line, "\n")
			if len(v) < 10_000 && strings.IndexByte(v, 0) < 0 {
				d.values[f] = append(d.values[f], v)
			}
		}
		slices.Sort(d.values[f])
	}
	times := func(args ...string) uint64 {
		out := journalctl(t, nil, append(append(slices.Clone(source.args), "-q", "-o", "short-unix", "-a"), args...)...)
		text, _, _ := strings.Cut(string(out), ".")
		n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		return n
	}
	d.from, d.to = times(), times("-r")
	d.cursors = cursorsOf(t, append(slices.Clone(source.args), "-q")...)
	return d
}

func (d *drawer) pick(list ...string) string {
	if len(list) == 0 {
		return "none"
	}
	return list[d.r.IntN(len(list))]
}

func (d *drawer) value(field string) string { return d.pick(d.values[field]...) }

// time draws a time near the entries.
func (d *drawer) time() string {
	span := max(d.to-min(d.from, d.to), 1)
	at := d.from + d.r.Uint64N(span+span/8+2)
	if d.r.IntN(3) == 0 {
		return "@" + strconv.FormatUint(at, 10) + "." + strconv.Itoa(d.r.IntN(1_000_000))
	}
	return "@" + strconv.FormatUint(at, 10)
}

// match draws one word of a match.
func (d *drawer) match() string {
	f := d.pick(d.fields...)
	if d.r.IntN(3) == 0 {
		f = d.pick("PRIORITY", "_UID", "_TRANSPORT", "_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER")
	}
	return f + "=" + d.value(f)
}

// glob makes a pattern of a value.
func (d *drawer) glob(v string) string {
	if len(v) < 2 || !strings.ContainsRune(v, '.') && d.r.IntN(2) == 0 {
		return "*"
	}
	i := d.r.IntN(len(v))
	return v[:i] + d.pick("*", "?*", "[a-z]*", "[!x]*")
}

// options are the things that a drawn line is made of.
func (d *drawer) options() []func() []string {
	one := func(words ...string) func() []string { return func() []string { return words } }
	unit := func() string { return d.value(d.pick("_SYSTEMD_UNIT", "UNIT", "_SYSTEMD_USER_UNIT", "_SYSTEMD_SLICE")) }
	cursor := func() string {
		c := d.pick(d.cursors...)
		parts := strings.Split(c, ";")
		if len(parts) < 6 {
			return c
		}
		switch d.r.IntN(5) {
		case 0:
			return strings.Join(parts[:2], ";")
		case 1:
			return parts[4]
		default:
			return c
		}
	}
	return []func() []string{
		func() []string { return []string{"-n" + strconv.Itoa(d.r.IntN(30))} },
		func() []string { return []string{"-n", d.pick("all", "0", "1", "2", "500")} },
		one("-r"), one("-q"), one("-m"), one("-a"), one("--no-full"), one("-l"), one("--no-hostname"), one("--utc"), one("--show-cursor"), one("-e"), one("--no-tail"), one("--no-pager"), one("-x"),
		func() []string {
			return []string{"-o", d.pick("short", "short-precise", "short-iso", "short-iso-precise", "short-full", "short-monotonic", "short-delta", "short-unix", "verbose", "export", "json", "json-pretty", "json-sse", "json-seq", "cat", "with-unit")}
		},
		func() []string { return []string{"-o", d.pick("short", "verbose", "export", "json", "cat")} },
		func() []string { return []string{"--output-fields=" + d.pick(d.fields...) + "," + d.pick(d.fields...)} },
		func() []string {
			return []string{"-b" + d.pick("", "0", "-1", "1", "2", "-2", "all", "+1", "-0", d.value("_BOOT_ID"), d.value("_BOOT_ID")+"-1", d.value("_BOOT_ID")+"+1")}
		},
		one("-k"), one("--system"), one("--user"),
		func() []string { return []string{"-u", unit()} },
		func() []string { return []string{"-u", d.glob(unit())} },
		func() []string { return []string{"--user-unit", d.pick(unit(), d.glob(unit()))} },
		func() []string { return []string{"-t", d.value("SYSLOG_IDENTIFIER")} },
		func() []string {
			return []string{"-p", d.pick("0", "3", "err", "warning", "debug", "2..4", "5..3", "emerg..emerg", "notice")}
		},
		func() []string {
			return []string{"--facility=" + d.pick("kern", "user", "3", "daemon,user", "local7", "0,1,2,3")}
		},
		func() []string {
			return []string{"-g", d.pick("error", "Error", "line 1", "[0-9]+$", "^a", "a|b", ".", "", "é", "x{3}", `\d\d`, "(?i)LINE", "no such")}
		},
		func() []string { return []string{"--case-sensitive" + d.pick("", "=no", "=yes")} },
		func() []string { return []string{"-S", d.time()} },
		func() []string { return []string{"-U", d.time()} },
		func() []string {
			return []string{"-S", d.pick("yesterday", "-1h", "2000-01-01", "1970-01-01 00:00:00", "now")}
		},
		func() []string { return []string{"--cursor=" + cursor()} },
		func() []string { return []string{"--after-cursor=" + cursor()} },
		func() []string { return []string{d.match()} },
		func() []string { return []string{d.match(), d.match()} },
		func() []string { return []string{d.match(), "+", d.match()} },
		func() []string { return []string{d.match(), d.match(), "+", d.match(), d.match()} },
		func() []string { return []string{"-F", d.pick(d.fields...)} },
		func() []string { return []string{d.pick("-N", "--list-boots", "--header", "--disk-usage")} },
	}
}

// line draws a whole command line for source.
func (d *drawer) line(source querySource) []string {
	options := d.options()
	for {
		var words []string
		for range d.r.IntN(6) {
			words = append(words, options[d.r.IntN(len(options))]()...)
		}
		if !differs(words, source) {
			return words
		}
	}
}

// env draws an environment for a line.
func (d *drawer) env(line []string) []string {
	if d.r.IntN(3) > 0 {
		return nil
	}
	env := []string{"TZ=" + d.pick("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"), "LC_ALL=" + d.pick("C", "C.UTF-8"), "COLUMNS=" + d.pick("20", "40", "81", "200")}
	if a := askedOf(line); !strings.HasPrefix(a.mode, "json") && a.mode != "help" {
		env = append(env, "SYSTEMD_URLIFY=0", "SYSTEMD_LOG_COLOR=0", "SYSTEMD_COLORS="+d.pick("16", "256", "1", "0"))
	}
	return env
}

// differs reports whether tidemark does on purpose what journalctl does not:
// docs/PROTOCOLS.md has the list.
func differs(line []string, source querySource) bool {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(line, w) })
	}
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(line, func(w string) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(w, p) })
		})
	}
	if has("-g") && (has("-N", "-F", "--list-boots", "--header", "--disk-usage", "-n0", "0") || begins("--after-cursor")) {
		return true // the exit code does not depend on what is found
	}
	if slices.ContainsFunc(line, regexp.MustCompile(`^\d{4}-\d\d-\d\dT`).MatchString) {
		return true // times of RFC 3339 are newer
	}
	if has("--verify") && (source.damaged || strings.HasPrefix(source.name, "sealed")) {
		return true
	}
	// What a damaged file holds is found by a scan, not by its index.
	match := slices.ContainsFunc(line, func(w string) bool { return !strings.HasPrefix(w, "-") && strings.Contains(w, "=") })
	return source.damaged && (match || has("-N", "-F", "-u", "-t", "-p", "-k", "--user-unit") || begins("--facility", "-b", "--list-boots"))
}

// TestStressQuery draws command lines at random and compares tidemark query
// with journalctl.
func TestStressQuery(t *testing.T) {
	needJournalctl(t)
	seeds := 0
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_SEEDS")); err == nil {
		seeds = n
	}
	if seeds == 0 {
		t.Skip("draws as many command lines as TIDEMARK_SEEDS says")
	}
	first := rand.Uint64N(1 << 32)
	if n, err := strconv.ParseUint(os.Getenv("TIDEMARK_SEED"), 10, 64); err == nil {
		first = n
	}
	bin := tidemarkBinary(t)
	sources := manySources(t)
	drawers := make([]*drawer, len(sources))
	for i, s := range sources {
		drawers[i] = newDrawer(t, nil, s)
	}
	for seed := first; seed < first+uint64(seeds); seed++ {
		i := int(seed % uint64(len(sources)))
		drawers[i].r = rand.New(rand.NewPCG(seed, 0))
		line := drawers[i].line(sources[i])
		env := drawers[i].env(line)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			args := append(slices.Clone(sources[i].args), line...)
			got, want := runBoth(t, bin, env, args, args)
			compareOutcomes(t, line, got, want)
			if t.Failed() {
				t.Logf("%s %q %q; again: TIDEMARK_SEED=%d TIDEMARK_SEEDS=1 go test -run TestStressQuery ./internal/compat", sources[i].name, env, line, seed)
			}
		})
	}
}
