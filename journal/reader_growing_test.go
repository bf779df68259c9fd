package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// growingFile is a file in memory that becomes another, with more in it, after a
// number of reads.
type growingFile struct {
	before, after []byte
	reads         int // until it grows
}

func (g *growingFile) now() []byte {
	if g.reads > 0 {
		return g.before
	}
	return g.after
}

func (g *growingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := (&patched{base: g.now()}).ReadAt(b, off)
	g.reads--
	return n, err
}

func (g *growingFile) size() int64 { return int64(len(g.now())) }

// growingImages are files before and after entries were appended.
func growingImages(t *testing.T) map[string]growingFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.journal")
	image := func(path string) []byte {
		b, err := os.ReadFile(path)
		readerMust(t, err)
		return b
	}
	w := create(t, path, Options{MaxSize: 1 << 20, Clock: newClock().now})
	fill := func(from, to int, boot byte) {
		for i := from; i < to; i++ {
			e := entry.Entry{BootID: entry.ID{boot}, Fields: []entry.Field{
				entry.Field("_BOOT_ID=" + entry.ID{boot}.String()), fmt.Appendf(nil, "PRIORITY=%d", i%8),
				fmt.Appendf(nil, "N=%d", i), fmt.Appendf(nil, "F%d=x", i/10),
			}}
			_, _, err := w.Append(t.Context(), []entry.Entry{e})
			readerMust(t, err)
		}
		readerMust(t, w.Settle(t.Context()))
	}
	fill(0, 200, 1)
	own := growingFile{before: image(path)}
	fill(200, 300, 2)
	own.after = image(path)
	files := map[string]growingFile{"own": own}
	if _, err := os.Stat(readerRemotePath); err == nil {
		path := filepath.Join(filepath.Dir(path), "remote.journal")
		s := newStream(4)
		remote(t, path, s.append(nil, 100, 0))
		closed := growingFile{before: image(path)}
		remote(t, path, s.append(nil, 50, 1))
		closed.after = image(path)
		files["closed"] = closed // and opened again, as journald does
		open := growingFile{before: slices.Clone(closed.before), after: slices.Clone(closed.after)}
		open.before[object.HdrState], open.after[object.HdrState] = byte(StateOnline), byte(StateOnline)
		files["open"] = open
	}
	for name, g := range files {
		// The size, too, may be behind: nothing is behind the last object yet.
		h := decodeHeader(g.before)
		end := object.Align8(h.TailObjectOffset + object.U64(g.before[h.TailObjectOffset:], object.ObjSize))
		short := slices.Clone(g.before[:end])
		object.PutU64(short, object.HdrArenaSize, end-h.HeaderSize)
		files[name+", short"] = growingFile{before: short, after: g.after}
	}
	return files
}

// growingJournal reads the file that grows after so many reads. What of it was
// read before everything else is in its windows as it was.
func growingJournal(t *testing.T, g growingFile, o ReadOptions, reads int) (*Journal, *growingFile) {
	t.Helper()
	g.reads = reads
	f, err := NewFile(&g, g.size, "growing")
	readerMust(t, err)
	j := o.New()
	j.AddFile(f)
	t.Cleanup(func() { readerMust(t, j.Close()) })
	return j, &g
}

func seqnums(t *testing.T, j *Journal) (out []uint64) {
	t.Helper()
	for e, err := range j.All() {
		readerMust(t, err)
		out = append(out, e.Seqnum)
	}
	return out
}

// A file may grow between any two reads of it. Nothing is taken for damage,
// nothing is lost, and nothing comes twice.
func TestReadBetweenAppends(t *testing.T) {
	oneGoroutine(t)
	matches := map[string]Match{
		"all":  {},
		"or":   Or(terms("PRIORITY=1", "PRIORITY=2")...),
		"new":  Or(terms("N=250", "_SYSTEMD_UNIT=u3.service")...),
		"boot": Or(terms("_BOOT_ID="+entry.ID{2}.String(), "_BOOT_ID="+newStream(4).boots[1])...),
	}
	for name, g := range growingImages(t) {
		for what, m := range matches {
			for _, scan := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/scan=%v", name, what, scan), func(t *testing.T) {
					full, _ := growingJournal(t, g, ReadOptions{}, 0)
					full.SetMatch(m)
					want := seqnums(t, full)
					for reads := 1; ; reads++ {
						j, r := growingJournal(t, g, ReadOptions{Scan: scan}, reads)
						seqnums(t, j)
						j.SetMatch(m)
						j.SeekHead()
						got := seqnums(t, j)
						done := r.reads > 0 // all of this came before
						r.reads = 0
						readerMust(t, j.Refresh())
						got = append(got, seqnums(t, j)...)
						if !slices.Equal(got, want) {
							t.Fatalf("grown after %d reads: got %d, want %d", reads, got, want)
						}
						if w := j.Warnings(); len(w) > 0 {
							t.Fatalf("grown after %d reads: %v", reads, w)
						}
						if done {
							break
						}
					}
				})
			}
		}
	}
}

// The same for values, names, boots and places.
func TestAskBetweenAppends(t *testing.T) {
	for name, g := range growingImages(t) {
		t.Run(name, func(t *testing.T) {
			for reads := 1; ; reads++ {
				j, r := growingJournal(t, g, ReadOptions{}, reads)
				first := seqnums(t, j)
				values := 0
				for _, err := range j.UniqueValues("PRIORITY") {
					readerMust(t, err)
					values++
				}
				if values != 8 {
					t.Errorf("grown after %d reads: %d values", reads, values)
				}
				for _, field := range []string{"N", "_BOOT_ID", "MESSAGE"} {
					for _, err := range j.UniqueValues(field) {
						readerMust(t, err)
					}
				}
				for _, err := range j.FieldNames() {
					readerMust(t, err)
				}
				boots, err := j.Boots()
				readerMust(t, err)
				for _, b := range boots {
					j.SeekMonotonic(b.ID, 1)
					if _, err := j.Next(); err != nil {
						t.Errorf("grown after %d reads: boot %s: %v", reads, b.ID, err)
					}
				}
				// A boot that came later.
				for _, id := range []string{entry.ID{2}.String(), newStream(4).boots[1]} {
					boot, err := entry.ParseID(id)
					readerMust(t, err)
					j.SeekMonotonic(boot, 1)
					if _, err := j.Next(); err != nil {
						t.Errorf("grown after %d reads: %v", reads, err)
					}
				}
				j.SeekTail()
				if e, err := j.Previous(); err != nil || e.Seqnum < uint64(len(first)) {
					t.Errorf("grown after %d reads: the last entry is %v, %v", reads, e, err)
				}
				if w := j.Warnings(); len(w) > 0 {
					t.Fatalf("grown after %d reads: %v", reads, errors.Join(w...))
				}
				if r.reads > 0 {
					break
				}
			}
		})
	}
}
