package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// wRotation rotates as a store does: the successor is prepared under another name
// and takes over the sequence when the old file is full.
type wRotation struct {
	t       *testing.T
	dir     string
	o       Options
	w       *Writer
	want    []entry.Entry
	tickets []Ticket
}

func (r *wRotation) path() string { return filepath.Join(r.dir, "system.journal") }

func (r *wRotation) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// fill appends what g makes until the file is full and the rest is in next.
func (r *wRotation) fill(g *wGen, next *Writer) {
	r.t.Helper()
	for full := false; !full; {
		b := g.batch(20)
		r.want = append(r.want, b...)
		pos, n, err := r.w.Append(r.t.Context(), b)
		var tk Ticket
		tk.Add(r.w, pos)
		if full = errors.Is(err, ErrFull); full {
			next.Adopt(r.w.Seqnum())
			pos, _, err = next.Append(r.t.Context(), b[n:])
			tk.Add(next, pos)
		}
		r.must(err)
		r.tickets = append(r.tickets, tk)
	}
}

// retire archives the full file and gives next its name.
func (r *wRotation) retire(next *Writer) {
	r.t.Helper()
	id, _ := r.w.Seqnum()
	r.must(r.w.Rename(filepath.Join(r.dir, ArchiveName("system", id, r.w.HeadSeqnum(), r.w.HeadRealtime()))))
	r.must(r.w.Archive(r.t.Context()))
	wVerify(r.t, r.w.Path())
	r.must(next.Rename(r.path()))
	r.w = next
}

// wantAll wants all entries in one sequence.
func (r *wRotation) wantAll(j *Journal) {
	r.t.Helper()
	i, seqnum := 0, uint64(0)
	var id entry.ID
	for e, err := range j.All() {
		r.must(err)
		if i == 0 {
			id = e.SeqnumID
		}
		if e.Seqnum != seqnum+1 || e.SeqnumID != id {
			r.t.Fatalf("entry %d has number %d of %s, after %d of %s", i, e.Seqnum, e.SeqnumID, seqnum, id)
		}
		seqnum = e.Seqnum
		if d := cmp.Diff(wFlatten(r.want[i:i+1]), wFlatten([]entry.Entry{*e})); d != "" {
			r.t.Fatalf("entry %d (-want +got):\n%s", i, d)
		}
		i++
	}
	if i != len(r.want) {
		r.t.Errorf("%d entries, want %d", i, len(r.want))
	}
}

// Nothing is lost or doubled by rotations, and what was appended before one can
// be waited for after it.
func TestWriterRotation(t *testing.T) {
	wNeedTool(t, "journalctl")
	r := &wRotation{t: t, dir: t.TempDir(), o: Options{MaxSize: MinMaxSize, BootID: entry.ID{1}}}
	var err error
	r.w, err = Create(r.path(), r.o)
	r.must(err)
	g := newWGen(41)
	const files = 4
	for range files - 1 {
		next, err := Create(r.path()+".next", r.o)
		r.must(err)
		r.fill(g, next)
		r.retire(next)
	}
	r.must(r.w.Close())
	for i, tk := range r.tickets {
		if err := tk.Wait(t.Context(), settle.Synced); err != nil {
			t.Fatalf("ticket %d: %v", i, err)
		}
	}
	j, err := OpenDir(r.dir)
	r.must(err)
	defer j.Close()
	if n := len(j.Files()); n != files {
		t.Errorf("%d files, want %d", n, files)
	}
	r.wantAll(j)
}

// An Archive whose context ends first leaves the file open: it can be appended
// to, and archived later.
func TestArchiveGivesUpWithItsContext(t *testing.T) {
	w, fs := wMemWriter(t, Options{})
	if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.io.Lock() // the entry cannot be written
	err := w.Archive(ctx)
	w.io.Unlock()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Archive whose context has ended: %v", err)
	}
	if _, _, err := w.TryAppend([]entry.Entry{wFields("A=2")}); err != nil {
		t.Errorf("Append after it: %v", err)
	}
	if err := w.Archive(t.Context()); err != nil {
		t.Error(err)
	}
	b := fs.Bytes(wCrashPath)
	wVerifyBytes(t, b)
	if h := decodeHeader(b); h.State != StateArchived || h.NEntries != 2 {
		t.Errorf("%d entries, %s", h.NEntries, h.State)
	}
}

func TestNames(t *testing.T) {
	id := entry.ID{0xf8, 0x33, 15: 0xff}
	got := []string{
		ArchiveName("system", id, 1, 0x6617b5bccd250),
		DisposedName("user-1000", 0x5ebbfd42fc981, 0x39a8842ec948769a),
	}
	want := []string{
		"system@f83300000000000000000000000000ff-0000000000000001-0006617b5bccd250.journal",
		"user-1000@0005ebbfd42fc981-39a8842ec948769a.journal~",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// GrowAhead allocates what the writing goroutine then need not.
func TestGrowAhead(t *testing.T) {
	w, fs := wMemWriter(t, Options{MaxSize: 20 << 20})
	var mu sync.Mutex
	var allocated []int64
	fail := false
	fs.Hook(func(_ int, op crashfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Name == "allocate" {
			if fail {
				return syscall.ENOSPC
			}
			allocated = append(allocated, op.Off+int64(op.Len))
		}
		return nil
	})
	large := wFields("A=" + string(bytes.Repeat([]byte("\x00\x01"), 1)))
	fill := func(upTo uint64) {
		for i := 0; w.Stats().Bytes < upTo; i++ {
			large.Fields[0] = fmt.Appendf(large.Fields[0][:0], "A=%d %d", upTo, i)
			for len(large.Fields[0]) < 500 { // not compressed
				large.Fields[0] = append(large.Fields[0], 'x')
			}
			if _, _, err := w.Append(t.Context(), []entry.Entry{large}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.SettleIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fill(8<<20 - growMargin + 4096)
	<-w.NeedGrow()
	fail = true
	if err := w.GrowAhead(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("GrowAhead on a full disk: %v", err)
	}
	fail = false
	if err := w.GrowAhead(); err != nil {
		t.Fatal(err)
	}
	fill(9 << 20)
	fill(16<<20 - growMargin + 4096)
	<-w.NeedGrow()
	fill(17 << 20) // nobody grew ahead
	if err := w.GrowAhead(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int64{16 << 20, 20 << 20}, allocated); d != "" {
		t.Errorf("allocated up to (-want +got):\n%s", d)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.GrowAhead(); err != nil {
		t.Errorf("GrowAhead after Close: %v", err)
	}
	wVerifyBytes(t, fs.Bytes(wCrashPath))
}

// Large fields are hashed and compressed before the lock is taken; what is
// stored is the same.
func TestAppendOfLargeFields(t *testing.T) {
	for name, fl := range wFlavours {
		t.Run(name, func(t *testing.T) {
			w, fs := wMemWriter(t, Options{Flavour: fl, MaxSize: 8 << 20})
			zeros := "Z=" + string(make([]byte, 100<<10))
			noise := []byte("NOISE=")
			for i := range uint64(20 << 10) {
				noise = fmt.Appendf(noise, "%x", i*i*0x9e3779b97f4a7c15)
			}
			e := wFields("A=1", zeros, string(noise), zeros, "B=2")
			var want []entry.Entry
			for i := range 3 {
				e := wAt(e, uint64(i+1), uint64(i+1))
				want = append(want, e)
			}
			if _, _, err := w.TryAppend(want[:2]); err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.TryAppend(want[2:]); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			b := fs.Bytes(wCrashPath)
			wVerifyBytes(t, b)
			if h := decodeHeader(b); h.NData != 4 {
				t.Errorf("%d data objects, want 4", h.NData)
			}
			if d := cmp.Diff(wFlatten(want), wFlatten(wEntriesOf(t, b))); d != "" {
				t.Errorf("(-want +got):\n%.1000s", d)
			}
		})
	}
}
