package query

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

const start = 1_700_000_000_000_000 // Tue 2023-11-14 22:13:20 UTC, in µs

var boots = [...]entry.ID{{0xaa}, {0xbb}, {0xcc}}

// testWriter writes numbered entries, a second apart.
type testWriter struct {
	t *testing.T
	w *journal.Writer
	n int
}

func newTestWriter(t *testing.T, path string) *testWriter {
	t.Helper()
	w, err := journal.Create(path, journal.Options{MaxSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return &testWriter{t: t, w: w}
}

// add appends entries of a boot, one for each list of fields, behind a message
// with their number.
func (w *testWriter) add(boot entry.ID, fields ...string) {
	w.t.Helper()
	for _, f := range fields {
		e := entry.Entry{Realtime: start + uint64(w.n)*usecPerSec, Monotonic: 1 + uint64(w.n)*usecPerSec, BootID: boot}
		for _, field := range append(strings.Fields(f), fmt.Sprintf("MESSAGE=m%d", w.n), "_BOOT_ID="+boot.String()) {
			e.Fields = append(e.Fields, entry.Field(field))
		}
		if _, _, err := w.w.Append(context.Background(), []entry.Entry{e}); err != nil {
			w.t.Fatal(err)
		}
		w.n++
	}
	if err := w.w.SettleIndex(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// sample is a file of three boots: m0 to m3, m4 and m5, m6 to m8.
func sample(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "system.journal")
	w := newTestWriter(t, path)
	w.add(boots[0], "PRIORITY=3 _SYSTEMD_UNIT=a.service", "PRIORITY=6 _SYSTEMD_UNIT=b.service", "PRIORITY=6 UNIT=a.service _PID=1", "_TRANSPORT=kernel")
	w.add(boots[1], "PRIORITY=3 SYSLOG_IDENTIFIER=x", "PRIORITY=4 SYSLOG_IDENTIFIER=y")
	w.add(boots[2], "PRIORITY=6 _SYSTEMD_UNIT=a.service", "PRIORITY=2", "SYSLOG_FACILITY=3 _TRANSPORT=kernel")
	return path
}

func openJournal(t *testing.T, paths ...string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// messages prints the message of each entry.
type messages struct{ w *bufio.Writer }

func (m messages) Print(e *entry.Entry) error {
	v, _ := e.Get("MESSAGE")
	_, err := m.w.WriteString(string(v) + "\n")
	return err
}

// show runs Show and returns what it printed.
func show(t *testing.T, j *journal.Journal, o Options, f Follower) (string, error) {
	t.Helper()
	if err := o.Complete(); err != nil {
		return "", err
	}
	q, err := New(j, o)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	err = Show(context.Background(), q, Output{W: w, Printer: messages{w}, Follower: f})
	return out.String(), err
}

// lines joins numbered messages and other lines as Show prints them.
func lines(words ...any) string {
	var b strings.Builder
	for _, w := range words {
		switch w := w.(type) {
		case int:
			fmt.Fprintf(&b, "m%d\n", w)
		default:
			fmt.Fprintln(&b, w)
		}
	}
	return b.String()
}

func TestShow(t *testing.T) {
	path := sample(t)
	between := func(i int) string { return "-- Boot " + boots[i].String() + " --" }
	none := "-- No entries --"
	all := lines(0, 1, 2, 3, between(1), 4, 5, between(2), 6, 7, 8)
	pattern, err := CompilePattern("M[147]", CaseInsensitive)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(o *Options)
		want   string
	}{
		{"all", func(*Options) {}, all},
		{"quiet", func(o *Options) { o.Quiet = true }, lines(0, 1, 2, 3, 4, 5, 6, 7, 8)},
		{"merge", func(o *Options) { o.Merge = true }, lines(0, 1, 2, 3, 4, 5, 6, 7, 8)},
		{"tail", func(o *Options) { o.Lines = 4 }, lines(5, between(2), 6, 7, 8)},
		{"longer tail", func(o *Options) { o.Lines = 99 }, all},
		{"no lines", func(o *Options) { o.Lines = 0 }, lines(none)},
		{"reverse", func(o *Options) { o.Reverse, o.Lines = true, 4 }, lines(8, 7, 6, between(1), 5)},
		{"last boot", func(o *Options) { o.Boot.Set = true }, lines(6, 7, 8)},
		{"boot before", func(o *Options) { o.Boot = Boot{Set: true, Offset: -1} }, lines(4, 5)},
		{"first boot", func(o *Options) { o.Boot = Boot{Set: true, Offset: 1} }, lines(0, 1, 2, 3)},
		{"boot by id", func(o *Options) { o.Boot = Boot{Set: true, ID: boots[1]} }, lines(4, 5)},
		{"boot by id and offset", func(o *Options) { o.Boot = Boot{Set: true, ID: boots[1], Offset: 1} }, lines(6, 7, 8)},
		{"this boot", func(o *Options) { o.Boot.Set, o.ThisBoot = true, boots[0] }, lines(0, 1, 2, 3)},
		{"kernel of a boot", func(o *Options) { o.Kernel, o.Boot = true, Boot{Set: true, Offset: 1} }, lines(3)},
		{"unit", func(o *Options) { o.Units = []string{"a"} }, lines(0, 2, between(2), 6)},
		{"glob", func(o *Options) { o.Units = []string{"[ab].*"} }, lines(0, 1, 2, between(2), 6)},
		{"identifiers", func(o *Options) { o.Identifiers = []string{"x", "y"} }, lines(4, 5)},
		{"priorities", func(o *Options) { o.Priorities = 0x0f }, lines(0, between(1), 4, between(2), 7)},
		{"facility", func(o *Options) { o.Facilities = []int{3} }, lines(8)},
		{"match", func(o *Options) { o.Matches = []string{"PRIORITY=3", "PRIORITY=4"} }, lines(0, between(1), 4, 5)},
		{"match and", func(o *Options) { o.Matches = []string{"PRIORITY=3", "_SYSTEMD_UNIT=a.service"} }, lines(0)},
		{"match or", func(o *Options) { o.Matches = []string{"PRIORITY=3", "_SYSTEMD_UNIT=a.service", "+", "PRIORITY=2"} }, lines(0, between(2), 7)},
		{"match not", func(o *Options) { o.Matches = []string{"PRIORITY!=6", "PRIORITY!=3"} }, lines(3, between(1), 5, between(2), 7, 8)},
		{"match not in a group", func(o *Options) { o.Matches = []string{"_SYSTEMD_UNIT=a.service", "PRIORITY!=6", "+", "PRIORITY=2"} }, lines(0, between(2), 7)},
		{"nothing", func(o *Options) { o.Matches = []string{"PRIORITY=99"} }, lines(none)},
		{"since", func(o *Options) { o.Since, o.SinceSet = start+6_500_000, true }, lines(7, 8)},
		{"until", func(o *Options) { o.Until, o.UntilSet = start+1_000_000, true }, lines(0, 1)},
		{"since and until, reverse", func(o *Options) {
			o.Since, o.SinceSet, o.Until, o.UntilSet, o.Reverse = start+2_000_000, true, start+3_999_999, true, true
		}, lines(3, 2)},
		{"pattern", func(o *Options) { o.Pattern = pattern }, lines(1, between(1), 4, between(2), 7)},
		{"last of a pattern", func(o *Options) { o.Pattern, o.Lines = pattern, 1 }, lines(7)},
	} {
		o := Defaults()
		c.change(&o)
		got, err := show(t, openJournal(t, path), o, nil)
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, d)
		}
	}
}

func TestShowRefuses(t *testing.T) {
	path := sample(t)
	pattern, err := CompilePattern("nothing", CaseAuto)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(o *Options){
		"Failed to add filter for units: No data available":                                                            func(o *Options) { o.Units = []string{"z*"} },
		"Failed to add match 'lower=1': Invalid argument":                                                              func(o *Options) { o.Matches = []string{"lower=1"} },
		"Failed to add match '!=1': Invalid argument":                                                                  func(o *Options) { o.Matches = []string{"!=1"} },
		`"+" can only be used between terms`:                                                                           func(o *Options) { o.Matches = []string{"A=1", "+"} },
		"Couldn't canonicalize path: No such file or directory":                                                        func(o *Options) { o.Matches = []string{"/no/such/file"} },
		"Data from the specified boot (-5) is not available: No such boot ID in journal":                               func(o *Options) { o.Boot = Boot{Set: true, Offset: -5} },
		"Data from the specified boot (0f000000000000000000000000000000) is not available: No such boot ID in journal": func(o *Options) { o.Boot = Boot{Set: true, ID: entry.ID{0x0f}} },
		"Failed to seek to cursor: Invalid argument":                                                                   func(o *Options) { o.Cursor = "x" },
		ErrNoMatch.Error():  func(o *Options) { o.Pattern = pattern },
		ErrNoCursor.Error(): func(o *Options) { o.ShowCursor, o.Matches = true, []string{"PRIORITY=99"} },
	} {
		o := Defaults()
		change(&o)
		if _, err := show(t, openJournal(t, path), o, nil); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestCursors goes through a journal by way of the cursors that Show prints and
// keeps.
func TestCursors(t *testing.T) {
	path := sample(t)
	o := Defaults()
	o.Quiet, o.ShowCursor = true, true
	o.Until, o.UntilSet = start+1_500_000, true
	got, err := show(t, openJournal(t, path), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	// As in journalctl the cursor is that of the entry that ended the search.
	printed, cursor, _ := strings.Cut(got, "-- cursor: ")
	cursor = strings.TrimSpace(cursor)
	if printed != lines(0, 1) {
		t.Fatalf("printed %q", got)
	}
	o = Defaults()
	o.Quiet = true
	o.Cursor = cursor
	if got, err := show(t, openJournal(t, path), o, nil); err != nil || got != lines(2, 3, 4, 5, 6, 7, 8) {
		t.Errorf("--cursor: %q, %v", got, err)
	}
	o.Cursor, o.AfterCursor = "", cursor
	if got, err := show(t, openJournal(t, path), o, nil); err != nil || got != lines(3, 4, 5, 6, 7, 8) {
		t.Errorf("--after-cursor: %q, %v", got, err)
	}

	o = Defaults()
	o.CursorFile = filepath.Join(t.TempDir(), "cursor")
	o.Quiet = true
	o.SinceSet, o.Since, o.Lines = true, start, 5
	if got, err := show(t, openJournal(t, path), o, nil); err != nil || got != lines(0, 1, 2, 3, 4) {
		t.Errorf("first run with a cursor file: %q, %v", got, err)
	}
	o = Options{Lines: LinesDefault, Priorities: AllPriorities, Quiet: true, CursorFile: o.CursorFile}
	for _, want := range []string{lines(5, 6, 7, 8), ""} {
		if got, err := show(t, openJournal(t, path), o, nil); err != nil || got != want {
			t.Errorf("next run with a cursor file: %q, %v; want %q", got, err, want)
		}
	}
	if text, err := os.ReadFile(o.CursorFile); err != nil || !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("cursor file holds %q, %v", text, err)
	}
	if list, err := os.ReadDir(filepath.Dir(o.CursorFile)); err != nil || len(list) != 1 {
		t.Errorf("files beside the cursor file: %v, %v", list, err)
	}
}

// steps is a Follower that does one thing each time it is waited on, then ends.
type steps struct {
	j    *journal.Journal
	todo []func()
}

func (s *steps) Wait(context.Context) error {
	if len(s.todo) == 0 {
		return io.EOF
	}
	s.todo[0]()
	s.todo = s.todo[1:]
	return s.j.Refresh()
}

// TestFollow checks that -n counts only what was there, and that later entries
// are shown once each, filtered, with lines between boots.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "system.journal")
	w := newTestWriter(t, path)
	w.add(boots[0], "A=1", "A=1", "A=2", "A=1")
	run := func(change func(*Options), todo ...func()) string {
		t.Helper()
		j := openJournal(t, path)
		o := Defaults()
		o.Follow = true
		o.Boot = Boot{}
		change(&o)
		got, err := show(t, j, o, &steps{j, todo})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	more := func() { w.add(boots[0], "A=1", "A=2") }
	if got := run(func(o *Options) { o.Lines = 2 }, func() {}, more, func() {}); got != lines(2, 3, 4, 5) {
		t.Errorf("-f -n 2: %q", got)
	}
	if got := run(func(o *Options) { o.Lines, o.Matches = 0, []string{"A=2"} }, more, more); got != lines(7, 9) {
		t.Errorf("-f -n 0 A=2: %q", got)
	}
	if got := run(func(o *Options) { o.Merge, o.Lines = true, 1 }, func() { w.add(boots[1], "A=1") }); got != lines(9, 10) {
		t.Errorf("-f -m over a new boot: %q", got)
	}
	j := openJournal(t, path)
	o := Defaults()
	o.Follow = true
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	q, err := New(j, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := bufio.NewWriter(io.Discard)
	if err := Show(ctx, q, Output{W: out, Printer: messages{out}, Follower: waitForContext{}}); err != nil {
		t.Errorf("a follower that is told to end returns %v", err)
	}
}

type waitForContext struct{}

func (waitForContext) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestEntries checks the iterator that other parts use.
func TestEntries(t *testing.T) {
	path := sample(t)
	o := Defaults()
	o.Priorities = 0x0f
	var got []string
	for e, err := range Run(context.Background(), openJournal(t, path), o) {
		if err != nil {
			t.Fatal(err)
		}
		v, _ := e.Get("MESSAGE")
		got = append(got, string(v))
	}
	if want := []string{"m0", "m4", "m7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	o.Matches = []string{"nonsense"}
	for e, err := range Run(context.Background(), openJournal(t, path), o) {
		if err == nil {
			t.Errorf("a wrong match delivered %v", e)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range Run(ctx, openJournal(t, path), Defaults()) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after cancelling: %v", err)
		}
	}
}

// TestLists checks what is not entries.
func TestLists(t *testing.T) {
	j := openJournal(t, sample(t))
	list := func(fn func(w *bufio.Writer) error) string {
		t.Helper()
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		if err := fn(w); err != nil {
			t.Error(err)
		}
		if err := w.Flush(); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	names := strings.Fields(list(func(w *bufio.Writer) error { return FieldNames(w, j) }))
	slices.Sort(names)
	if want := []string{"MESSAGE", "PRIORITY", "SYSLOG_FACILITY", "SYSLOG_IDENTIFIER", "UNIT", "_BOOT_ID", "_PID", "_SYSTEMD_UNIT", "_TRANSPORT"}; !slices.Equal(names, want) {
		t.Errorf("field names: %q", names)
	}
	values := strings.Fields(list(func(w *bufio.Writer) error { return FieldValues(w, j, "PRIORITY", LinesDefault) }))
	slices.Sort(values)
	if want := []string{"2", "3", "4", "6"}; !slices.Equal(values, want) {
		t.Errorf("values: %q", values)
	}
	if two := list(func(w *bufio.Writer) error { return FieldValues(w, j, "PRIORITY", 2) }); strings.Count(two, "\n") != 2 {
		t.Errorf("two values: %q", two)
	}
	if err := FieldValues(nil, j, "no name", LinesDefault); err == nil {
		t.Error("FieldValues of an invalid name")
	}
	b, err := Boots(j, false)
	if err != nil {
		t.Fatal(err)
	}
	want := "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n" +
		" -2 " + boots[0].String() + " Tue 2023-11-14 22:13:20 UTC Tue 2023-11-14 22:13:23 UTC\n" +
		" -1 " + boots[1].String() + " Tue 2023-11-14 22:13:24 UTC Tue 2023-11-14 22:13:25 UTC\n" +
		"  0 " + boots[2].String() + " Tue 2023-11-14 22:13:26 UTC Tue 2023-11-14 22:13:28 UTC\n"
	if d := cmp.Diff(want, list(func(w *bufio.Writer) error { return b.Table(w, time.UTC, true, nil) })); d != "" {
		t.Errorf("boots (-want +got):\n%s", d)
	}
	if got := list(func(w *bufio.Writer) error { return b.JSON(w, false, "<", ">") }); !strings.HasPrefix(got, `<[{"index":-2,"boot_id":"aa0000`) || !strings.HasSuffix(got, `"last_entry":1700000008000000}]>`) {
		t.Errorf("boots as json: %s", got)
	}
	header := list(func(w *bufio.Writer) error { return Headers(w, j, time.UTC) })
	for _, line := range []string{"State: ONLINE\n", "Incompatible flags: COMPRESSED-ZSTD KEYED-HASH COMPACT\n", "Entry objects: 9\n", "Head realtime timestamp: Tue 2023-11-14 22:13:20 UTC (60a24181e4000)\n", "Tail monotonic timestamp: 8.000s (7a1201)\n", "Rotate suggested: no\n"} {
		if !strings.Contains(header, line) {
			t.Errorf("no %q in the header:\n%s", line, header)
		}
	}
	if n, err := DiskUsage(j); err != nil || n == 0 {
		t.Errorf("DiskUsage = %d, %v", n, err)
	}
}
