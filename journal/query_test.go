package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

// queryText is what identifies an entry, and its fields.
func queryText(e *entry.Entry) string { return fmt.Sprintf("%v %q", e.Cursor(), e.Fields) }

func queryTexts(t testing.TB, j *Journal, q Query) []string {
	t.Helper()
	var out []string
	for e, err := range j.Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, queryText(e))
	}
	return out
}

// queryReference does what Query says with copies of all entries, oldest first.
func queryReference(all []*entry.Entry, q Query) []string {
	list := slices.Clone(all)
	if q.Reverse {
		slices.Reverse(list)
	}
	if q.Cursor.Has != 0 {
		i := slices.IndexFunc(list, q.Cursor.Match)
		if q.After {
			i++
		}
		list = list[i:]
	}
	var kept []*entry.Entry
	for _, e := range list {
		at := time.UnixMicro(int64(e.Realtime))
		boot := entry.Field("_BOOT_ID=" + q.BootID.String())
		if !q.Match.Matches(e) || !q.BootID.IsZero() && !slices.ContainsFunc(e.Fields, func(f entry.Field) bool { return string(f) == string(boot) }) ||
			!q.Since.IsZero() && at.Before(q.Since) || !q.Until.IsZero() && at.After(q.Until) {
			continue
		}
		c := *e
		if len(q.Fields) > 0 {
			c.Fields = slices.DeleteFunc(slices.Clone(e.Fields), func(f entry.Field) bool {
				name, _, _ := strings.Cut(string(f), "=")
				return !slices.Contains(q.Fields, name)
			})
		}
		if q.Keep == nil || q.Keep(&c) {
			kept = append(kept, &c)
		}
	}
	if n := q.Limit; n > 0 && n < len(kept) {
		if !q.Reverse && !q.Oldest && q.Cursor.Has == 0 && q.Since.IsZero() {
			kept = kept[len(kept)-n:]
		} else {
			kept = kept[:n]
		}
	}
	var out []string
	for _, e := range kept {
		out = append(out, queryText(e))
	}
	return out
}

// drawQuery makes a query about some of these entries.
func drawQuery(r *rand.Rand, all []*entry.Entry) Query {
	one := func() *entry.Entry { return all[r.IntN(len(all))] }
	sometimes := func() bool { return r.IntN(3) == 0 }
	// just before, at and just behind an entry
	near := func() time.Time {
		return time.UnixMicro(int64(one().Realtime)).Add(time.Duration(r.IntN(5)-2) * 500)
	}
	q := Query{Reverse: r.IntN(2) == 0, Oldest: sometimes(), After: r.IntN(2) == 0}
	if sometimes() {
		e := one()
		q.Match = Or(Term(slices.Clone(e.Fields[r.IntN(len(e.Fields))])), Not(Term(entry.Field("PRIORITY=3"))))
	}
	if sometimes() {
		q.Since = near()
	}
	if sometimes() {
		q.Until = near()
	}
	if r.IntN(5) == 0 {
		q.BootID = one().BootID
	}
	if sometimes() {
		q.Cursor = one().Cursor()
	}
	if r.IntN(2) == 0 {
		q.Limit = 1 + r.IntN(len(all)+3)>>r.IntN(7)
	}
	if sometimes() {
		q.Fields = []string{"MESSAGE", "PRIORITY"}
	}
	if sometimes() {
		q.Keep = func(e *entry.Entry) bool { m, _ := e.Get("MESSAGE"); return len(m)%3 != 0 }
	}
	return q
}

func TestQueryEqualsReference(t *testing.T) {
	oneGoroutine(t)
	for name, paths := range map[string][]string{"remote": remoteFiles(t), "r-11": {sample(t, "r-11")}, "foreign": {sample(t, "foreign")}} {
		for mode, o := range readModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				j := openSample(t, o, paths...)
				var all []*entry.Entry
				for e, err := range j.All() {
					readerMust(t, err)
					c := *e
					c.Fields = nil
					for _, f := range e.Fields {
						c.Fields = append(c.Fields, slices.Clone(f))
					}
					all = append(all, &c)
				}
				if len(all) > 0 && len(queryTexts(t, j, Query{})) != len(all) {
					t.Fatal("the zero Query is not all entries")
				}
				found := 0
				for seed := range uint64(inFull(150, 5)) {
					q := drawQuery(rand.New(rand.NewPCG(seed, 7)), all)
					if q.Cursor.Has != 0 && !(q.Match.All() && q.BootID.IsZero()) {
						q.Match, q.BootID = Match{}, entry.ID{}
					}
					want := queryReference(all, q)
					found += len(want)
					for range 2 { // an iterator may be used again
						if diff := cmp.Diff(want, queryTexts(t, j, q)); diff != "" {
							t.Fatalf("seed %d: %+v (-want +got):\n%s", seed, q, diff)
						}
					}
				}
				if found == 0 {
					t.Error("no query found anything")
				}
			})
		}
	}
}

// The cursor's entry need not be there: the query begins at the next one, and
// passes over none.
func TestQueryAfterAnEntryThatIsGone(t *testing.T) {
	j := openSample(t, ReadOptions{}, sample(t, "r-11"))
	all := cursorsOf(t, j)
	gone := entry.Cursor{Has: entry.HasRealtime, Realtime: all[4].Realtime + 1}
	for reverse, want := range map[bool]entry.Cursor{false: all[5], true: all[4]} {
		for e, err := range j.Query(t.Context(), Query{Cursor: gone, After: true, Reverse: reverse}) {
			readerMust(t, err)
			if got := e.Cursor(); got != want {
				t.Errorf("reverse %t: begins at %v, want %v", reverse, got, want)
			}
			break
		}
	}
}

// TestQueryAfter begins behind each entry in turn.
func TestQueryAfter(t *testing.T) {
	j := openSample(t, ReadOptions{}, sample(t, "r-11"))
	all := cursorsOf(t, j)
	for i, c := range all {
		for reverse, at := range map[bool]int{false: i + 1, true: i - 1} {
			var want, got []entry.Cursor
			if at >= 0 && at < len(all) {
				want = []entry.Cursor{all[at]}
			}
			for e, err := range j.Query(t.Context(), Query{Cursor: c, After: true, Reverse: reverse, Limit: 1}) {
				readerMust(t, err)
				got = append(got, e.Cursor())
			}
			if !slices.Equal(got, want) {
				t.Errorf("behind %d, reverse %t: %v, want %v", i, reverse, got, want)
			}
		}
	}
}

func TestQueryEndsWithItsContext(t *testing.T) {
	j := openSample(t, ReadOptions{}, sample(t, "r-11"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for e, err := range j.Query(ctx, Query{}) {
		if last = err; err != nil {
			if e != nil {
				t.Error("an entry beside an error")
			}
			continue
		}
		if n++; n == 3 {
			cancel()
		}
	}
	if n != 3 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d entries, %v; want 3 and that it was cancelled", n, last)
	}
}

func TestQueryTimesFarAway(t *testing.T) {
	j := openSample(t, ReadOptions{}, sample(t, "r-11"))
	all := len(cursorsOf(t, j))
	past, future := time.Date(-9000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<61, 999_999_999)
	for _, limit := range []int{0, 1 << 40} {
		for _, reverse := range []bool{false, true} {
			for _, tt := range []struct {
				since, until time.Time
				want         int
			}{{past, future, all}, {past, time.Time{}, all}, {time.Time{}, future, all}, {future, time.Time{}, 0}, {time.Time{}, past, 0}, {future, past, 0}} {
				q := Query{Since: tt.since, Until: tt.until, Reverse: reverse, Limit: limit}
				if got := len(queryTexts(t, j, q)); got != tt.want {
					t.Errorf("%+v: %d entries, want %d", q, got, tt.want)
				}
			}
		}
	}
}
