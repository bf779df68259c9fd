package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

func unitFacts(unit string) *facts {
	f := unknownFacts()
	f.unit = unit
	return &f
}

func TestLimiter(t *testing.T) {
	l := newLimiter(10*time.Second, 3, nil)
	a, b := unitFacts("a.service"), unitFacts("b.service")
	type step struct {
		unit       *facts
		priority   uint8
		at         int
		ok         bool
		suppressed uint32
	}
	for i, s := range []step{
		{a, 6, 1, true, 0},
		{a, 6, 2, true, 0},
		{a, 5, 2, true, 0}, // one pool with 6
		{a, 6, 3, false, 0},
		{a, 5, 4, false, 0},
		{a, 3, 4, true, 0}, // another pool
		{b, 6, 4, true, 0}, // another unit
		{a, 6, 11, false, 0},
		{a, 6, 12, true, 3}, // the interval from 1 has ended
		{a, 6, 13, true, 0},
		{unitFacts(""), 6, 13, true, 0},
	} {
		ok, n := l.admit(s.unit, s.priority, time.Duration(s.at)*time.Second)
		if ok != s.ok || n != s.suppressed {
			t.Errorf("step %d: %v, %d suppressed, want %v, %d", i, ok, n, s.ok, s.suppressed)
		}
	}
}

func TestLimiterOfUnit(t *testing.T) {
	l := newLimiter(0, 0, nil)
	f := unitFacts("a.service")
	for range 100 {
		if ok, _ := l.admit(f, 6, 0); !ok {
			t.Fatal("limited without a limit")
		}
	}
	f.limitSet, f.rateInterval, f.rateBurst = true, time.Second, 1
	if ok, _ := l.admit(f, 6, time.Hour); !ok {
		t.Error("the first is limited")
	}
	if ok, _ := l.admit(f, 6, time.Hour); ok {
		t.Error("the second is not limited")
	}
}

func TestLimiterIsBounded(t *testing.T) {
	l := newLimiter(time.Hour, 1, nil)
	for i := range 3 * maxGroups {
		l.admit(unitFacts(fmt.Sprintf("u%d.service", i)), 6, time.Duration(i))
	}
	if len(l.groups) != maxGroups {
		t.Errorf("%d groups, want %d", len(l.groups), maxGroups)
	}
	// The most recent are kept, and what has run out is forgotten first.
	if ok, _ := l.admit(unitFacts(fmt.Sprintf("u%d.service", 3*maxGroups-1)), 6, time.Minute); ok {
		t.Error("the latest unit was forgotten")
	}
	l.admit(unitFacts("late.service"), 6, 3*time.Hour)
	if len(l.groups) > 2 {
		t.Errorf("%d groups after their time, want 2 at most", len(l.groups))
	}
}

func TestModulate(t *testing.T) {
	for free, want := range map[uint64]uint32{0: 100, 1 << 20: 100, 2 << 20: 125, 16 << 20: 200, 256 << 20: 300, 4 << 30: 400} {
		if got := modulate(100, free); got != want {
			t.Errorf("%d free: %d, want %d", free, got, want)
		}
	}
}

// fakeUnits makes this process be in a unit for which systemd has set things.
func fakeUnits(t *testing.T, cfg *Config, links map[string]string, extra string) {
	t.Helper()
	proc, units := t.TempDir(), t.TempDir()
	dir := filepath.Join(proc, itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"stat": "1 (a) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0\n", "cgroup": "0::/system.slice/a.service\n", "comm": "a\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(units, name+":a.service")); err != nil {
			t.Fatal(err)
		}
	}
	if extra != "" {
		if err := os.WriteFile(filepath.Join(units, "log-extra-fields:a.service"), []byte(extra), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.proc, cfg.units = proc, units
}

func TestRateLimit(t *testing.T) {
	cfg := testConfig(t)
	fakeUnits(t, &cfg, map[string]string{"log-rate-limit-interval": "3600000000", "log-rate-limit-burst": "2"}, "")
	r := startWith(t, cfg, &fakeSink{})
	nat, sys := r.dial(nativeSocket), r.dial(syslogSocket)
	for range 4 {
		r.write(nat, "MESSAGE=a\n\nMESSAGE=b\nPRIORITY=3\n")
	}
	r.barrier() // 2 of priority 6 and 2 of priority 3
	r.write(sys, "<14>x")
	if n := len(r.barrier()); n != 0 {
		t.Errorf("%d entries over the limit", n)
	}
	if n, s := r.count("native", "rate_limited"), r.count("syslog", "rate_limited"); n != 4 || s != 1 {
		t.Errorf("counted %d and %d, want 4 and 1", n, s)
	}
}

func TestSuppressedIsSaid(t *testing.T) {
	var events [][]string
	cfg := testConfig(t)
	cfg.Event = func(priority int, id, text string, fields ...entry.Field) {
		all := []string{itoa(priority), id, text}
		for _, f := range fields {
			all = append(all, string(f))
		}
		events = append(events, all)
	}
	in := &Ingest{cfg: cfg, limits: newLimiter(time.Second, 1, nil)}
	p := &peer{peerKey: credentials{77, 1, 2}, facts: *unitFacts("a.service")}
	var b batch
	var got []bool
	for _, at := range []time.Duration{1, 2, 3, 2 * time.Second} {
		got = append(got, in.passes(&b, p, 6, at, nativeReasons()))
	}
	wantDiff(t, "passed", []bool{true, false, false, true}, got)
	wantDiff(t, "events", [][]string{{
		"6", messageDropped, "Suppressed 2 messages from a.service", "N_DROPPED=2",
		"OBJECT_PID=77", "OBJECT_UID=1", "OBJECT_GID=2", "OBJECT_SYSTEMD_UNIT=a.service",
	}}, events)
}

func TestUnitSettings(t *testing.T) {
	cfg := testConfig(t)
	field := func(text string) string { return string([]byte{byte(len(text)), 0, 0, 0, 0, 0, 0, 0}) + text }
	fakeUnits(t, &cfg, map[string]string{
		"log-level-max": "notice", "invocation": "0123456789abcdef0123456789abcdef",
	}, field("EXTRA=one")+field("_MORE=two"))
	r := startWith(t, cfg, &fakeSink{})
	c := r.dial(nativeSocket)
	r.write(c, "MESSAGE=a\nPRIORITY=6\n")
	r.write(c, "MESSAGE=b\nPRIORITY=5\n")
	entries := r.barrier()
	if len(entries) != 1 || r.count("native", "level") != 1 {
		t.Fatalf("%d entries, %d dropped by level", len(entries), r.count("native", "level"))
	}
	for name, want := range map[string]string{
		"MESSAGE": "b", "_SYSTEMD_UNIT": "a.service", "_SYSTEMD_SLICE": "system.slice", "_SYSTEMD_CGROUP": "/system.slice/a.service",
		"_SYSTEMD_INVOCATION_ID": "0123456789abcdef0123456789abcdef", "EXTRA": "one", "_MORE": "two",
	} {
		if got := get(t, entries[0], name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestExtraFieldsMalformed(t *testing.T) {
	for _, file := range []string{"x", "\xff\xff\xff\xff\xff\xff\xff\xffA=1", "\x03\x00\x00\x00\x00\x00\x00\x00A=", "\x00\x00\x00\x00\x00\x00\x00\x00", "\x03\x00\x00\x00\x00\x00\x00\x00a=1", "\x01\x00\x00\x00\x00\x00\x00\x00A"} {
		if got := appendExtraFields(nil, file); len(got) != 0 {
			t.Errorf("%q: %q", file, got)
		}
	}
}

// The invocation ID of a user's unit lies in a directory of the user's: what is
// a link to elsewhere is not followed.
func TestInvocationOfUserUnit(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	users := t.TempDir()
	p := newProcReader("/proc", "", users)
	f := unknownFacts()
	f.userUnit, f.owner = "app.service", 1000
	units := filepath.Join(users, "1000", "systemd", "units")
	if err := os.MkdirAll(units, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(id, filepath.Join(units, "invocation:app.service")); err != nil {
		t.Fatal(err)
	}
	if got, ok := p.invocation(&f); !ok || got != id {
		t.Errorf("%q, %v", got, ok)
	}
	away := t.TempDir()
	if err := os.Rename(filepath.Join(users, "1000", "systemd"), filepath.Join(away, "systemd")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(away, "systemd"), filepath.Join(users, "1000", "systemd")); err != nil {
		t.Fatal(err)
	}
	if got, ok := p.invocation(&f); ok {
		t.Errorf("followed a link: %q", got)
	}
}

// TestMaxLevel sends each level on each path: what is above the highest level is
// dropped and counted, and a change of it holds from then on.
func TestMaxLevel(t *testing.T) {
	cfg := testConfig(t)
	cfg.MaxLevel = new(4)
	r := startWith(t, cfg, &fakeSink{})
	nat, sys, out := r.dial(nativeSocket), r.dial(syslogSocket), r.dial(stdoutSocket)
	r.write(out, "ident\n\n6\n1\n0\n0\n0\n")
	round := func(most int) map[string]int {
		kernel := &kmsg{in: r.Ingest}
		for level := range 8 {
			n := itoa(level)
			r.write(nat, "MESSAGE=m\nPRIORITY="+n+"\n")
			r.write(sys, "<"+itoa(8+level)+">m")
			r.write(out, "<"+n+">m\n")
			kernel.record([]byte(n + "," + n + ",1,-;m\n"))
			d := r.NewJSONDecoder("")
			e, err := d.Decode([]byte(`{"message":"m","level":` + n + `}`))
			if err != nil || (len(e.Fields) > 0) != (level <= most) {
				t.Errorf("HTTP, level %d: %d fields, %v", level, len(e.Fields), err)
			}
		}
		got := map[string]int{}
		for _, e := range append(r.barrier(), kernel.batch.entries...) {
			got[get(t, e, "_TRANSPORT")]++
			if p := get(t, e, "PRIORITY"); p > itoa(most) {
				t.Errorf("level %s was stored", p)
			}
		}
		return got
	}
	wantDiff(t, "stored", map[string]int{"journal": 5, "syslog": 5, "stdout": 5, "kernel": 5}, round(4))
	for _, path := range []string{"native", "syslog", "stdout", "kmsg", "http"} {
		if n := r.count(path, "level"); n != 3 {
			t.Errorf("%s: %d counted, want 3", path, n)
		}
	}
	r.SetMaxLevel(0)
	wantDiff(t, "stored up to emerg", map[string]int{"journal": 1, "syslog": 1, "stdout": 1, "kernel": 1}, round(0))
	r.SetMaxLevel(7)
	wantDiff(t, "all stored", map[string]int{"journal": 8, "syslog": 8, "stdout": 8, "kernel": 8}, round(7))
}
