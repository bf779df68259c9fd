package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// placesOf moves j to its end and returns where it was.
func placesOf(t *testing.T, j *Journal) (all []Place) {
	t.Helper()
	for {
		n, err := j.Skip(1)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return all
		}
		p, ok := j.Place()
		if !ok {
			t.Fatal("no place of an entry that was moved to")
		}
		all = append(all, p)
	}
}

// Readers in several goroutines read what the Journal reads, in any order, while
// it goes on.
func TestReaders(t *testing.T) {
	path, want := repeats(t)
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, path)
			if _, ok := j.Place(); ok {
				t.Error("a place before the first entry")
			}
			all := placesOf(t, j)
			if len(all) != len(want) {
				t.Fatalf("%d places of %d entries", len(all), len(want))
			}
			j.SetFields("NEW")
			j.SeekHead()
			var joined sync.WaitGroup
			readers := []*Reader{j.NewReader(), j.NewReader(), j.NewReader()}
			for k, r := range readers {
				joined.Go(func() {
					for n := range all {
						i := (n*7 + k*1000) % len(all)
						e, ok := r.Read(&all[i])
						if !ok || len(e.Fields) != 1 || string(e.Fields[0]) != want[i][5] || len(r.FieldIDs()) != 1 {
							t.Errorf("entry %d: %v, want %q", i, e, want[i][5])
							return
						}
						if n%9 != 0 {
							continue
						}
						if e, ok = r.Whole(&all[i]); !ok || e.Seqnum != uint64(i+1) {
							t.Errorf("entry %d whole: %v", i, e)
							return
						}
						if diff := cmp.Diff(want[i], sorted(e.Fields)); diff != "" {
							t.Errorf("entry %d whole (-written +read):\n%s", i, diff)
							return
						}
					}
				})
			}
			if n := len(placesOf(t, j)); n != len(all) {
				t.Errorf("%d entries beside readers, want %d", n, len(all))
			}
			joined.Wait()
			for _, r := range readers {
				r.Close()
			}
		})
	}
}

// A file that is cut under a Reader gives fewer entries and warnings, instead of
// SIGBUS; so does a Journal that gives its mapping up meanwhile.
func TestFileIsCutUnderReaders(t *testing.T) {
	b := damageSample(t)
	objects := layoutOf(t, b)
	end := objects[len(objects)/2].off
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cut.journal")
			readerMust(t, os.WriteFile(path, b, 0o600))
			j := openSample(t, o, path)
			all := placesOf(t, j)
			r := j.NewReader()
			readerMust(t, os.Truncate(path, int64(end)))
			j.SeekHead()
			left := len(placesOf(t, j)) // it meets the fault first
			got := 0
			for i := range all {
				if _, ok := r.Read(&all[i]); ok {
					got++
				}
			}
			if got == 0 || got > left {
				t.Errorf("%d entries, the journal finds %d", got, left)
			}
			before := len(j.Warnings())
			r.Close()
			if len(j.Warnings()) == before && before < maxWarnings {
				t.Error("no warning of the reader")
			}
		})
	}
}

func TestReaderAllocatesNothing(t *testing.T) {
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, sample(t, "r-11"))
			all := placesOf(t, j)
			r := j.NewReader()
			defer r.Close()
			i := 0
			next := func() {
				if _, ok := r.Read(&all[i%len(all)]); !ok {
					t.Fatal("no entry")
				}
				i++
			}
			for range 200 {
				next()
			}
			if n := testing.AllocsPerRun(500, next); n != 0 {
				t.Errorf("%v allocations an entry", n)
			}
		})
	}
}

// Places goes where Skip goes, both ways, no further than to the last that is wanted.
func TestPlaces(t *testing.T) {
	for mode, o := range readModes {
		for _, step := range []int{1, -1} {
			t.Run(fmt.Sprintf("%s, %d", mode, step), func(t *testing.T) {
				one, many := openSample(t, o, sample(t, "r-10")), openSample(t, o, sample(t, "r-10"))
				if step < 0 {
					one.SeekTail()
					many.SeekTail()
				}
				var want, got []Place
				for {
					k, err := one.Skip(step)
					readerMust(t, err)
					if k == 0 {
						break
					}
					p, _ := one.Place()
					want = append(want, p)
				}
				for n := 1; ; n++ {
					before := len(got)
					var err error
					got, err = many.Places(got, n*step, func(*Place) bool { return false })
					readerMust(t, err)
					if len(got) < before+n {
						break
					}
				}
				if len(want) < 10 || !slices.Equal(got, want) {
					t.Errorf("%d places, want %d", len(got), len(want))
				}
				many.SeekHead()
				got, err := many.Places(nil, 10, func(p *Place) bool { return p.Realtime() >= 1 })
				if c, _ := many.Current(); err != nil || len(got) != 1 || c.Realtime != got[0].Realtime() {
					t.Errorf("%d places to the first that is the last, %v", len(got), err)
				}
			})
		}
	}
}
