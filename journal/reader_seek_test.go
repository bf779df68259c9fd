package journal

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

// cursorsOf lists the cursors of all entries in order.
func cursorsOf(t testing.TB, j *Journal) []entry.Cursor {
	t.Helper()
	j.SeekHead()
	var out []entry.Cursor
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Cursor())
	}
	return out
}

// moved returns the cursor that the move arrives at; none at the end.
func moved(t testing.TB, move func() (*entry.Entry, error)) entry.Cursor {
	t.Helper()
	e, err := move()
	if errors.Is(err, io.EOF) {
		return entry.Cursor{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return e.Cursor()
}

func TestSeekFindsEveryEntry(t *testing.T) {
	paths := remoteFiles(t)
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, paths...)
			all := cursorsOf(t, j)
			at := func(i int) entry.Cursor {
				if i < 0 || i >= len(all) {
					return entry.Cursor{}
				}
				return all[i]
			}
			check := func(i int, what string, got, want entry.Cursor) {
				t.Helper()
				if got != want {
					t.Fatalf("%s at entry %d: %v, want %v", what, i, got, want)
				}
			}
			for i := 0; i < len(all); i += 7 {
				c := all[i]
				j.SeekCursor(c)
				check(i, "cursor, next", moved(t, j.Next), c)
				check(i, "then next", moved(t, j.Next), at(i+1))
				check(i, "then previous", moved(t, j.Previous), c)
				check(i, "then previous", moved(t, j.Previous), at(i-1))
				if i > 0 { // at the beginning Previous stays where it is
					check(i, "then next again", moved(t, j.Next), c)
				}
				j.SeekCursor(c)
				check(i, "cursor, previous", moved(t, j.Previous), c)

				j.SeekRealtime(c.Realtime)
				check(i, "realtime, next", moved(t, j.Next), c)
				j.SeekRealtime(c.Realtime)
				check(i, "realtime, previous", moved(t, j.Previous), c)
				j.SeekRealtime(c.Realtime - 1)
				check(i, "realtime before, next", moved(t, j.Next), c)
				j.SeekRealtime(c.Realtime + 1)
				check(i, "realtime behind, previous", moved(t, j.Previous), c)

				short := entry.Cursor{Has: entry.HasBootID | entry.HasMonotonic, BootID: c.BootID, Monotonic: c.Monotonic}
				j.SeekCursor(short)
				j.SetMatch(Term(entry.Field("_BOOT_ID=" + c.BootID.String())))
				check(i, "monotonic, next", moved(t, j.Next), c)
				j.SetMatch(Match{})
			}
			j.SeekTail()
			check(len(all), "tail, previous", moved(t, j.Previous), at(len(all)-1))
			j.SeekTail()
			check(len(all), "tail, next", moved(t, j.Next), entry.Cursor{})
			check(len(all), "then previous", moved(t, j.Previous), at(len(all)-1))
			j.SeekHead()
			check(0, "head, previous", moved(t, j.Previous), entry.Cursor{})
			check(0, "then next", moved(t, j.Next), at(0))
			j.SeekRealtime(0)
			check(0, "realtime 0, next", moved(t, j.Next), at(0))
			j.SeekRealtime(1 << 60)
			check(0, "realtime far, previous", moved(t, j.Previous), at(len(all)-1))
		})
	}
}

func TestCursorOptionsEqualJournalctl(t *testing.T) {
	paths := remoteFiles(t)
	j := openSample(t, ReadOptions{}, paths...)
	all := cursorsOf(t, j)
	for _, i := range []int{0, 1, 200, 331, 332, len(all) - 1} {
		for name, c := range map[string]entry.Cursor{
			"whole":     all[i],
			"sequence":  {Has: entry.HasSeqnumID | entry.HasSeqnum, SeqnumID: all[i].SeqnumID, Seqnum: all[i].Seqnum},
			"realtime":  {Has: entry.HasRealtime, Realtime: all[i].Realtime},
			"other":     {Has: entry.HasSeqnumID | entry.HasSeqnum | entry.HasRealtime, SeqnumID: entry.ID{1}, Seqnum: 5, Realtime: all[i].Realtime},
			"monotonic": {Has: entry.HasBootID | entry.HasMonotonic | entry.HasRealtime, BootID: all[i].BootID, Monotonic: all[i].Monotonic, Realtime: all[i].Realtime},
		} {
			t.Run(fmt.Sprintf("%d/%s", i, name), func(t *testing.T) {
				j.SeekCursor(c)
				want := journalctl(t, fileArgs(paths, "-o", "export", "--cursor="+c.String(), "-n", "40", "--no-tail")...)
				if diff := cmp.Diff(want, export(t, j, down)); diff != "" {
					t.Errorf("--cursor (-journalctl +ours):\n%s", diff)
				}
			})
		}
	}
}

func TestSkip(t *testing.T) {
	j := openSample(t, ReadOptions{}, sample(t, "r-11"))
	all := cursorsOf(t, j)
	j.SeekHead()
	if n, err := j.Skip(10); n != 10 || err != nil {
		t.Fatalf("Skip(10) = %d, %v", n, err)
	}
	if got := moved(t, j.Next); got != all[10] {
		t.Errorf("after Skip(10): %v, want %v", got, all[10])
	}
	if n, err := j.Skip(-20); n != 10 || err != nil {
		t.Errorf("Skip(-20) from entry 10 = %d, %v", n, err)
	}
	if c, ok := j.Current(); !ok || c != all[0] {
		t.Errorf("Current = %v, %v, want %v", c, ok, all[0])
	}
}

// The same entries in files of different flavours are delivered once.
func TestDuplicatesAreDeliveredOnce(t *testing.T) {
	var paths []string
	for _, name := range []string{"r-00", "r-01", "r-10", "r-11"} {
		paths = append(paths, sample(t, name))
	}
	one := openSample(t, ReadOptions{}, paths[0])
	four := openSample(t, ReadOptions{}, paths...)
	want, got := cursorsOf(t, one), cursorsOf(t, four)
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	four.SeekHead()
	if diff := cmp.Diff(journalctl(t, fileArgs(paths, "-o", "export")...), export(t, four, down)); diff != "" {
		t.Errorf("(-journalctl +ours):\n%s", diff)
	}
	four.SeekTail()
	if diff := cmp.Diff(journalctl(t, fileArgs(paths, "-o", "export", "-r")...), export(t, four, up)); diff != "" {
		t.Errorf("backward (-journalctl +ours):\n%s", diff)
	}
}

func TestBootsEqualJournalctl(t *testing.T) {
	paths := remoteFiles(t)
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, paths...)
			boots, err := j.Boots()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range boots {
				got = append(got, b.ID.String())
			}
			want := regexp.MustCompile(`[0-9a-f]{32}`).FindAllString(journalctl(t, fileArgs(paths, "--list-boots")...), -1)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-journalctl +ours):\n%s", diff)
			}
			for _, b := range boots {
				j.SetMatch(Term(entry.Field("_BOOT_ID=" + b.ID.String())))
				j.SeekHead()
				if first := moved(t, j.Next); first.Realtime != b.First {
					t.Errorf("boot %v begins at %d, want %d", b.ID, b.First, first.Realtime)
				}
				j.SeekTail()
				if last := moved(t, j.Previous); last.Realtime != b.Last {
					t.Errorf("boot %v ends at %d, want %d", b.ID, b.Last, last.Realtime)
				}
			}
		})
	}
}

func TestUniqueValuesEqualJournalctl(t *testing.T) {
	paths := append(remoteFiles(t), sample(t, "r-10"))
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, paths...)
			for _, name := range []string{"_SYSTEMD_UNIT", "PRIORITY", "EMPTY", "TAG", "_BOOT_ID", "NOSUCH"} {
				var got []string
				for v, err := range j.UniqueValues(name) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(v)+"\n")
				}
				want := journalctl(t, fileArgs(paths, "-F", name)...)
				if diff := cmp.Diff(want, strings.Join(got, "")); diff != "" {
					t.Errorf("%s (-journalctl +ours):\n%s", name, diff)
				}
			}
			var names []string
			for n, err := range j.FieldNames() {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, n)
			}
			slices.Sort(names)
			want := strings.Fields(journalctl(t, fileArgs(paths, "-N")...))
			slices.Sort(want)
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("names (-journalctl +ours):\n%s", diff)
			}
		})
	}
}

func TestHeaderEqualsJournalctl(t *testing.T) {
	oneGoroutine(t)
	for _, name := range append(slices.Clone(sampleNames), "foreign") {
		t.Run(name, func(t *testing.T) {
			path := sample(t, name)
			f, err := OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			h := f.Header()
			out := journalctl(t, "--file", path, "--header")
			for key, want := range map[string]string{
				"File ID":                h.FileID.String(),
				"Machine ID":             h.MachineID.String(),
				"Boot ID":                h.TailEntryBootID.String(),
				"Sequential number ID":   h.SeqnumID.String(),
				"State":                  h.State.String(),
				"Header size":            fmt.Sprint(h.HeaderSize),
				"Arena size":             fmt.Sprint(h.ArenaSize),
				"Data hash table size":   fmt.Sprint(h.DataBuckets()),
				"Field hash table size":  fmt.Sprint(h.FieldBuckets()),
				"Head sequential number": fmt.Sprintf("%d (%[1]x)", h.HeadEntrySeqnum),
				"Tail sequential number": fmt.Sprintf("%d (%[1]x)", h.TailEntrySeqnum),
				"Objects":                fmt.Sprint(h.NObjects),
				"Entry objects":          fmt.Sprint(h.NEntries),
				"Data objects":           fmt.Sprint(h.NData),
				"Field objects":          fmt.Sprint(h.NFields),
				"Tag objects":            fmt.Sprint(h.NTags),
				"Entry array objects":    fmt.Sprint(h.NEntryArrays),
			} {
				if !strings.Contains(out, "\n"+key+": "+want+"\n") {
					t.Errorf("no line %q in\n%s", key+": "+want, out)
				}
			}
		})
	}
}
