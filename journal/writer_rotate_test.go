package journal

import (
	"bytes"
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

// Rotation as a store does it: the successor is prepared under another name and
// takes over the sequence when the old file is full; nothing is lost or doubled.
func TestWriterRotation(t *testing.T) {
	wNeedTool(t, "journalctl")
	dir := t.TempDir()
	path := filepath.Join(dir, "system.journal")
	o := Options{MaxSize: MinMaxSize, BootID: entry.ID{1}}
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	g := newWGen(41)
	var want []entry.Entry
	var tickets []Ticket
	files := 1
	for files < 4 {
		next, err := Create(path+".next", o)
		if err != nil {
			t.Fatal(err)
		}
		for {
			b := g.batch(20)
			want = append(want, b...)
			pos, n, err := w.Append(t.Context(), b)
			var tk Ticket
			tk.Add(w, pos)
			if errors.Is(err, ErrFull) {
				id, tail := w.Seqnum()
				next.Adopt(id, tail)
				pos, _, err := next.Append(t.Context(), b[n:])
				if err != nil {
					t.Fatal(err)
				}
				tk.Add(next, pos)
				tickets = append(tickets, tk)
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, tk)
		}
		id, _ := w.Seqnum()
		if err := w.Rename(filepath.Join(dir, ArchiveName("system", id, w.HeadSeqnum(), w.HeadRealtime()))); err != nil {
			t.Fatal(err)
		}
		if err := w.Archive(t.Context()); err != nil {
			t.Fatal(err)
		}
		wVerify(t, w.Path())
		if err := next.Rename(path); err != nil {
			t.Fatal(err)
		}
		w = next
		files++
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for i, tk := range tickets {
		if err := tk.Wait(t.Context(), settle.Synced); err != nil {
			t.Fatalf("ticket %d: %v", i, err)
		}
	}
	j, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n := len(j.Files()); n != files {
		t.Errorf("%d files, want %d", n, files)
	}
	i, seqnum := 0, uint64(0)
	var id entry.ID
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			id = e.SeqnumID
		}
		if e.Seqnum != seqnum+1 || e.SeqnumID != id {
			t.Fatalf("entry %d has number %d of %s, after %d of %s", i, e.Seqnum, e.SeqnumID, seqnum, id)
		}
		seqnum = e.Seqnum
		if d := cmp.Diff(wFlatten(want[i:i+1]), wFlatten([]entry.Entry{*e})); d != "" {
			t.Fatalf("entry %d (-want +got):\n%s", i, d)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d entries, want %d", i, len(want))
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
