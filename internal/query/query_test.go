package query

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

func TestParseTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2024, 3, 31, 12, 30, 15, 250_000_000, berlin)
	at := func(hour, minute, second, usec int, loc *time.Location) time.Time {
		return time.Date(2024, 3, 31, hour, minute, second, usec*1000, loc)
	}
	for s, want := range map[string]time.Time{
		"now":                              now,
		"today":                            at(0, 0, 0, 0, berlin),
		"yesterday":                        time.Date(2024, 3, 30, 0, 0, 0, 0, berlin),
		"tomorrow":                         time.Date(2024, 4, 1, 0, 0, 0, 0, berlin),
		"today UTC":                        at(0, 0, 0, 0, time.UTC),
		"2024-03-31":                       at(0, 0, 0, 0, berlin),
		"24-03-31":                         at(0, 0, 0, 0, berlin),
		"70-01-02 UTC":                     time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC),
		"2024-03-31 18:17":                 at(18, 17, 0, 0, berlin),
		"2024-03-31 18:17:16":              at(18, 17, 16, 0, berlin),
		"2024-03-31T18:17:16":              at(18, 17, 16, 0, berlin),
		"2024-03-31T18:17:16Z":             at(18, 17, 16, 0, time.UTC),
		"2024-03-31 18:17:16.000025":       at(18, 17, 16, 25, berlin),
		"18:17":                            at(18, 17, 0, 0, berlin),
		"18:17:16":                         at(18, 17, 16, 0, berlin),
		"Sun 2024-03-31 18:17":             at(18, 17, 0, 0, berlin),
		"sunday 2024-03-31":                at(0, 0, 0, 0, berlin),
		"2024-03-31 18:17 UTC":             at(18, 17, 0, 0, time.UTC),
		"2024-03-31 18:17 CET":             at(17, 17, 0, 0, time.UTC),
		"2024-03-31 18:17 America/Caracas": at(22, 17, 0, 0, time.UTC),
		"-1h":                              now.Add(-time.Hour),
		"+1h30min":                         now.Add(90 * time.Minute),
		"2 days ago":                       now.Add(-48 * time.Hour),
		"1.5h ago":                         now.Add(-90 * time.Minute),
		"90 ago":                           now.Add(-90 * time.Second),
		"5min left":                        now.Add(5 * time.Minute),
		"1w 2d 3hr 4m 5sec 6ms 7us ago":    now.Add(-(9*24*time.Hour + 3*time.Hour + 4*time.Minute + 5*time.Second + 6007*time.Microsecond)),
		"@1700000000":                      time.Unix(1700000000, 0),
		"@1700000000.25":                   time.Unix(1700000000, 250_000_000),
	} {
		got, err := ParseTime(s, now)
		if err != nil || int64(got) != want.UnixMicro() {
			t.Errorf("ParseTime(%q) = %v, %v; want %v", s, time.UnixMicro(int64(got)).In(berlin), err, want)
		}
	}
	for _, s := range []string{"", "x", "2024-13-01", "2024-03-32", "2024-03-31 24:00", "2024-03-31 18:60", "2024-03-31 18", "18:17:16.x", "Mon 2024-03-31", "2024-03-31 18:17 Nowhere/Land", "-", "+x", "@", "-100y", "5 parsecs ago", "1..5h ago", "99999999999999999999 ago", "2024-03-31 ", "ago"} {
		if got, err := ParseTime(s, now); err == nil {
			t.Errorf("ParseTime(%q) = %d, want an error", s, got)
		} else if err.Error() != "Failed to parse timestamp: "+s {
			t.Errorf("ParseTime(%q): %v", s, err)
		}
	}
}

func TestMangleUnit(t *testing.T) {
	for s, want := range map[string]string{
		"ssh":             "ssh.service",
		"ssh.service":     "ssh.service",
		"a@b":             "a@b.service",
		"a.b":             "a.b.service",
		"dev-sda.device":  "dev-sda.device",
		"/dev/sda":        "dev-sda.device",
		"/":               "-.mount",
		"/home/me-too":    `home-me\x2dtoo.mount`,
		"/home//x/":       "home-x.mount",
		"a/b c":           `a-b\x20c.service`,
		"s*":              "s*",
		"[sc]*.service":   "[sc]*.service",
		"s* t":            `s*\x20t`,
		"app-foo.slice":   "app-foo.slice",
		".service":        ".service.service",
		"user@1000":       "user@1000.service",
		`x\x2dy.service`:  `x\x2dy.service`,
		"multi.user.scop": "multi.user.scop.service",
	} {
		if got, err := MangleUnit(s); got != want || err != nil {
			t.Errorf("MangleUnit(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestFnmatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true},
		{"*", "a/b", true},
		{"a*c", "abbbc", true},
		{"a*c", "abbbd", false},
		{"a*b*c", "aXbYbZc", true},
		{"?", "", false},
		{"?", "x", true},
		{"a?c", "abc", true},
		{"[ab]c", "bc", true},
		{"[ab]c", "cc", false},
		{"[!ab]c", "cc", true},
		{"[^ab]c", "ac", false},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[]a]", "]", true},
		{"[a", "[a", true},
		{"[a", "a", false},
		{`\*`, `\x`, true},
		{"", "", true},
		{"", "x", false},
		{"a**", "a", true},
		{strings.Repeat("*a", 30), strings.Repeat("a", 200) + "b", false},
	} {
		if got := fnmatch(c.pattern, c.s); got != c.want {
			t.Errorf("fnmatch(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

func TestParseValues(t *testing.T) {
	id := entry.ID{0x71, 0x0d}
	for s, want := range map[string]Boot{
		"0": {Set: true}, "-1": {Set: true, Offset: -1}, "+2": {Set: true, Offset: 2}, "3": {Set: true, Offset: 3}, "all": {},
		id.String(): {Set: true, ID: id}, id.String() + "-2": {Set: true, ID: id, Offset: -2}, id.String() + "+1": {Set: true, ID: id, Offset: 1},
	} {
		if got, err := ParseBoot(s); err != nil || got != want {
			t.Errorf("ParseBoot(%q) = %+v, %v", s, got, err)
		}
	}
	for s, want := range map[string]Priorities{"err": 0x0f, "3": 0x0f, "emerg": 1, "debug": AllPriorities, "2..4": 0x1c, "warning..crit": 0x1c} {
		if got, err := ParsePriorities(s); err != nil || got != want {
			t.Errorf("ParsePriorities(%q) = %x, %v", s, got, err)
		}
	}
	for s, want := range map[string]int{"all": LinesAll, "0": 0, "12": 12, "0x10": 16} {
		if got, oldest, err := ParseLines(s); err != nil || oldest || got != want {
			t.Errorf("ParseLines(%q) = %d, %v", s, got, err)
		}
	}
	if got, oldest, err := ParseLines("+7"); err != nil || !oldest || got != 7 {
		t.Errorf("ParseLines(+7) = %d, %v, %v", got, oldest, err)
	}
	if got, err := ParseFacilities("kern,local7,,5"); err != nil || !cmp.Equal(got, []int{0, 23, 5}) {
		t.Errorf("ParseFacilities = %v, %v", got, err)
	}
	for what, err := range map[string]error{
		"Failed to parse boot descriptor 'x'":                            second(ParseBoot("x")),
		"Unknown log level x":                                            second(ParsePriorities("x")),
		"Failed to parse log level range 1..9":                           second(ParsePriorities("1..9")),
		"Failed to parse lines '-1'":                                     third(ParseLines("-1")),
		"Bad --facility= argument \"local9\".":                           second(ParseFacilities("local9")),
		"Bad pattern \"a(\": missing closing )":                          second(CompilePattern("a(", CaseAuto)),
		"Bad pattern \"(?=x)\": look-ahead is not supported: (?=":        second(CompilePattern("(?=x)", CaseAuto)),
		"Bad pattern \"a(?<!x)b\": look-behind is not supported: (?<!x)": second(CompilePattern("a(?<!x)b", CaseAuto)),
		"Bad pattern \"(a)\\1\": back references are not supported: \\1": second(CompilePattern(`(a)\1`, CaseAuto)),
		"Bad pattern \"a++\": possessive or nested rep":                  second(CompilePattern("a++", CaseAuto)),
		"Bad pattern \"x\\hy\": invalid escape sequence: \\h":            second(CompilePattern(`x\hy`, CaseAuto)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// TestPatternPerl: where PCRE and package regexp mean different things by the same
// pattern, PCRE's counts.
func TestPatternPerl(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"x$", "x", true},
		{"x$", "x\n", true},
		{"x$", "x\n\n", false},
		{"x$", "x\ny", false},
		{"^x$", "x\n", true},
		{"(?m)x$", "x\ny", true},
		{`x\z`, "x\n", false},
		{"(a|x$|b)", "X\n", true},
		{"X$", "x\n", false},
		{"$", "", true},
		{"", "", true},
	} {
		p, err := CompilePattern(c.pattern, CaseAuto)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match([]byte(c.text)); got != c.want {
			t.Errorf("-g %q in %q: %v", c.pattern, c.text, got)
		}
	}
}

// TestPattern compares the short cut with the regular expression alone.
func TestPattern(t *testing.T) {
	texts := []string{
		"", "error", "Error", "an ERROR here", "eerror", "erro", "xxerroR", "Connection closed", "connection is CLOSED", "closed connection", "\u212aelvin", "kelvin", "fu\u017f", "fuss", "FUSS",
		"err\nor", "e", "E", "rorerr", "grün", "GRÜN", "\u017f\u017f", "s\u017f", "fu\u017fS", "\u212au\u017fs ERR", "\u00c5\u00e2", "a.b", "aXb", "[x]", strings.Repeat("erro", 50) + "error", "\xff\xfeerror",
	}
	for _, c := range []struct {
		pattern string
		fold    Case
	}{
		{"error", CaseAuto},
		{"Error", CaseAuto},
		{"ERROR", CaseInsensitive},
		{"error", CaseSensitive},
		{"connection.*closed", CaseAuto},
		{"Connection.*closed", CaseAuto},
		{"(error|closed)", CaseAuto},
		{"^error$", CaseAuto},
		{"kelvin", CaseAuto},
		{"fuss", CaseAuto},
		{"er+or", CaseAuto},
		{"(err)(or)", CaseAuto},
		{"(?:err)+or", CaseAuto},
		{"x*", CaseAuto},
		{"grün", CaseAuto},
		{"a\\.b", CaseAuto},
		{"[[]x]", CaseAuto},
		{"e", CaseAuto},
		{"", CaseSensitive},
		{"err.or", CaseAuto},
		{"error|closed", CaseAuto},
		{"error|closed connection", CaseSensitive},
		{"errand|error", CaseAuto},
		{"error|x*", CaseAuto},
		{"(error|closed).*(connection|here)", CaseAuto},
		{"closed.*connection", CaseAuto},
		{"fuss|kelvin", CaseAuto},
		{"(?s)err.or", CaseAuto},
		{"error|erro", CaseAuto},
		{"(an |)error", CaseAuto},
		{"(fu|ku)ss|sk", CaseAuto},
		{"ss", CaseAuto},
		{"fuss", CaseSensitive},
		{"(?i:f)uss", CaseSensitive},
		{"[Ff]USS", CaseSensitive},
		{"(f|F)(u|U)(s|S)(s|S)", CaseSensitive},
		{"((a|b)(a|b)(a|b)(a|b)(a|b)(a|b)|X)", CaseSensitive},
		{"gr\u00fcn|err", CaseAuto},
		{"\ufffderror", CaseSensitive},
		{"err(or|)$", CaseAuto},
		{"(?:error)+", CaseAuto},
	} {
		p, err := CompilePattern(c.pattern, c.fold)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range texts {
			want := p.re.MatchString(s)
			if got := p.Match([]byte(s)); got != want {
				t.Errorf("%q in %q: %v, regexp %v (needs %+v)", c.pattern, s, got, want, p.need)
			}
		}
	}
	// A text or one of several decides by itself.
	for _, pattern := range []string{"closed", "shipped|declined", "s(hipped|ent)|fuss", "(error)", "Shipped|declined"} {
		p, err := CompilePattern(pattern, CaseAuto)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]answer{"was declined, closed": yes, "error: it fuss": yes, "not here": no, "Å": no} {
			if want == yes && !p.re.MatchString(text) {
				want = no
			}
			if got := p.need.look([]byte(text)); got != want {
				t.Errorf("%s in %q: %v, want %v", pattern, text, got, want)
			}
		}
	}
	p, err := CompilePattern("o", CaseAuto)
	if err != nil {
		t.Fatal(err)
	}
	if from, to, ok := p.Find([]byte("fOo")); from != 1 || to != 2 || !ok {
		t.Errorf("Find = %d, %d, %v", from, to, ok)
	}
}

// FuzzFolded compares the search with the obvious one.
func FuzzFolded(f *testing.F) {
	f.Add("Error in eRRor", "error")
	f.Add("aAaAb", "aab")
	f.Fuzz(func(t *testing.T, text, needle string) {
		needle = regexp.MustCompile(`[^a-z0-9 ]`).ReplaceAllString(needle, "")
		if needle == "" {
			return
		}
		lower := func(s string) string {
			b := []byte(s)
			for i, c := range b {
				if 'A' <= c && c <= 'Z' {
					b[i] = c | 0x20
				}
			}
			return string(b)
		}
		folded := newFolded([]byte(needle))
		if got, want := folded.in([]byte(text)), strings.Contains(lower(text), needle); got != want {
			t.Errorf("%q in %q: %v, want %v", needle, text, got, want)
		}
	})
}

func TestFormatSpan(t *testing.T) {
	for usec, want := range map[uint64]string{
		0: "0", 1: "1us", 999: "999us", 1000: "1ms", 1500: "1ms", 1_000_000: "1s", 1_999_000: "1.999s", 657493032: "10min 57.493s",
		86_400_000_000: "1d", 90_061_000_001: "1d 1h 1min 1.000s", usecPerYear + usecPerMonth + 1: "1y 1month",
	} {
		if got := FormatSpan(usec); got != want {
			t.Errorf("FormatSpan(%d) = %q, want %q", usec, got, want)
		}
	}
}

func TestComplete(t *testing.T) {
	follow := Defaults()
	follow.Follow = true
	if err := follow.Complete(); err != nil || follow.Lines != 10 || !follow.Boot.Set {
		t.Errorf("-f: %+v, %v", follow, err)
	}
	grep := Defaults()
	grep.Lines = 5
	grep.Pattern, _ = CompilePattern("x", CaseAuto)
	if err := grep.Complete(); err != nil || !grep.Reverse {
		t.Errorf("-g -n 5: %+v, %v", grep, err)
	}
	for want, change := range map[string]func(*Options){
		"--since= must be before --until=.":                                     func(o *Options) { o.Since, o.SinceSet, o.UntilSet = 5, true, true },
		"Please specify only one of --since=, --cursor=, and --after-cursor=.":  func(o *Options) { o.Cursor, o.AfterCursor = "t=1", "t=1" },
		"Please specify either --reverse= or --follow=, not both.":              func(o *Options) { o.Follow, o.Reverse = true, true },
		"--lines=+N is unsupported when --reverse or --follow is specified.":    func(o *Options) { o.Oldest, o.Reverse = true, true },
		"Using --invocation= with an offset wants one --unit= or --user-unit=.": func(o *Options) { o.Invocation = Invocation{Set: true, Offset: 2} },
		"Using --boot or --list-boots with --merge is not supported.":           func(o *Options) { o.Boot.Set, o.Merge = true, true },
	} {
		o := Defaults()
		change(&o)
		err := o.Conflict()
		if err == nil {
			err = o.Complete()
		}
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
