package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
	"github.com/tidemark-log/tidemark/settle"
)

// watchFS calls look after every write.
type watchFS struct {
	vfs.FS
	look func()
}

type watchFile struct {
	vfs.File
	look func()
}

func (w *watchFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := w.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return watchFile{f, w.look}, nil
}

func (f watchFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.look()
	return n, err
}

// oReader follows files as journalctl -f does, as fast as can be: it shows what
// has come to light in the order of time, and never goes back.
type oReader struct {
	list  func(b []byte) []uint64 // times of the entries that it finds in a file
	found map[string]int
	shown uint64
	from  string // the file of the latest entry that was shown
	all   int
	bad   string
}

func (r *oReader) look(fs *crashfs.FS, paths []string) {
	latest, from := r.shown, r.from
	for _, path := range paths {
		b := fs.Bytes(path)
		times := r.list(b)
		for _, at := range times[min(r.found[path], len(times)):] {
			r.all++
			if (at < r.shown || at == r.shown && path != r.from) && r.bad == "" {
				r.bad = fmt.Sprintf("%s: an entry of time %d comes to light after one of %d", path, at, r.shown)
			}
			if at >= latest {
				latest, from = at, path
			}
		}
		r.found[path] = max(r.found[path], len(times))
	}
	r.shown, r.from = latest, from
}

// oTimes follows a list of entries.
func oTimes(b []byte, c *chain, n uint64) (times []uint64) {
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		panic(err)
	}
	for i := range n {
		at, err := c.slot(f, i)
		if err != nil {
			panic(err)
		}
		times = append(times, object.U64(b, int(at)+object.EntryMonotonic))
	}
	return times
}

// oPlain is what a reader finds by the header, oMatching by a match.
func oPlain(b []byte) []uint64 {
	h := decodeHeader(b)
	return oTimes(b, &chain{first: h.EntryArrayOffset}, h.NEntries)
}

func oMatching(b []byte) []uint64 {
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		panic(err)
	}
	off, err := f.findInTable(object.Data, f.hdr.DataHashTableOffset, f.hdr.DataHashTableSize, []byte("A=constant"))
	if err != nil {
		panic(err)
	}
	if off == 0 {
		return nil
	}
	c := chain{inline: object.U64(b, int(off)+object.DataEntry), first: object.U64(b, int(off)+object.DataEntryArray)}
	return oTimes(b, &c, object.U64(b, int(off)+object.DataNEntries))
}

// TestOrderOfSeveralFiles has a reader look at three files between all calls of
// their writers. What comes to light is always later than what was there.
func TestOrderOfSeveralFiles(t *testing.T) {
	mem := crashfs.New(1)
	_ = mem.MkdirAll("/d", 0o755)
	paths := []string{"/d/a.journal", "/d/b.journal", "/d/c.journal"}
	plain := &oReader{list: oPlain, found: map[string]int{}}
	matching := &oReader{list: oMatching, found: map[string]int{}}
	var looking sync.Mutex
	var begun atomic.Bool
	fs := &watchFS{mem, func() {
		looking.Lock()
		defer looking.Unlock()
		if !begun.Load() {
			return
		}
		plain.look(mem, paths)
		matching.look(mem, paths)
	}}
	var clock atomic.Uint64
	clock.Store(1000)
	order := NewOrder()
	var writers []*Writer
	for _, path := range paths {
		w, err := Create(path, Options{
			FS: fs, MaxSize: MinMaxSize, Order: order,
			Clock: func() (uint64, uint64) { now := clock.Add(1); return 1e15 + now, now },
		})
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	begun.Store(true)
	r := rand.New(rand.NewPCG(3, 4))
	n := 0
	for range inFull(120, 50) {
		w := writers[r.IntN(3)]
		var batch []entry.Entry
		for range 1 + r.IntN(5) {
			n++
			batch = append(batch, wFields("A=constant", fmt.Sprintf("N=%d", n)))
		}
		pos, _, err := w.TryAppend(batch)
		if err == nil && r.IntN(4) == 0 {
			err = w.Wait(t.Context(), pos, settle.Appended)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range writers {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]*oReader{"plain": plain, "with a match": matching} {
		if r.bad != "" {
			t.Errorf("%s: %s", name, r.bad)
		}
		if r.all != n {
			t.Errorf("%s: %d entries came to light, of %d", name, r.all, n)
		}
	}
	for _, path := range paths {
		wVerifyBytes(t, mem.Bytes(path))
		if times := oPlain(mem.Bytes(path)); decodeHeader(mem.Bytes(path)).TailEntryMonotonic != times[len(times)-1] {
			t.Errorf("%s: the header has another time than the last entry", path)
		}
	}
}

// Raised times stay in order, also where the wall clock was bridged.
func TestRaisedTimes(t *testing.T) {
	now := [][2]uint64{{100, 10}, {100, 20}, {100, 30}, {140, 50}}
	order := NewOrder()
	order.monotonic = 24
	w, mem := wMemWriter(t, Options{Order: order, Clock: func() (uint64, uint64) { return 0, 0 }})
	order.io.Lock() // nothing is written yet
	for i, at := range now {
		w.o.Clock = func() (uint64, uint64) { return at[0], at[1] }
		if _, _, err := w.TryAppend([]entry.Entry{wFields(fmt.Sprintf("N=%d", i))}); err != nil {
			t.Fatal(err)
		}
	}
	order.io.Unlock()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := [][2]uint64{{115, 25}, {115, 25}, {115, 30}, {140, 50}}
	b := mem.Bytes(wCrashPath)
	wVerifyBytes(t, b)
	for i, e := range wEntriesOf(t, b) {
		if got := [2]uint64{e.Realtime, e.Monotonic}; got != want[i] {
			t.Errorf("entry %d has the times %v, want %v", i, got, want[i])
		}
	}
	if h := decodeHeader(b); h.HeadEntryRealtime != 115 || h.TailEntryRealtime != 140 {
		t.Errorf("the header has %d to %d", h.HeadEntryRealtime, h.TailEntryRealtime)
	}
}

func TestOrderRefusesTimes(t *testing.T) {
	w, _ := wMemWriter(t, Options{Order: NewOrder()})
	_, _, err := w.TryAppend([]entry.Entry{wAt(wFields("A=1"), 100, 100)})
	if !errors.Is(err, ErrTime) {
		t.Errorf("an entry with a time: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// A successor that is written first has its predecessor written before, with the
// times that it took.
func TestSuccessorComesSecond(t *testing.T) {
	mem := crashfs.New(1)
	_ = mem.MkdirAll("/d", 0o755)
	order := NewOrder()
	now := uint64(0)
	o := Options{FS: mem, MaxSize: MinMaxSize, Order: order, Clock: func() (uint64, uint64) { now++; return 1e15 + now, now }}
	old, err := Create("/d/old.journal", o)
	if err != nil {
		t.Fatal(err)
	}
	next, err := Create("/d/next.journal", o)
	if err != nil {
		t.Fatal(err)
	}
	order.io.Lock() // nothing is written yet
	if _, _, err := old.TryAppend([]entry.Entry{wFields("N=1")}); err != nil {
		t.Fatal(err)
	}
	next.Succeed(old)
	if _, _, err := next.TryAppend([]entry.Entry{wFields("N=2")}); err != nil {
		t.Fatal(err)
	}
	if _, err := next.putNow(1, true); err != nil {
		t.Fatal(err)
	}
	if old.indexed != 1 {
		t.Error("the predecessor is not written")
	}
	order.io.Unlock()
	// Closed, it has no part in the turns any more.
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"/d/old.journal", "/d/next.journal"} {
		e := wEntriesOf(t, mem.Bytes(path))
		if len(e) != 1 || e[0].Monotonic != uint64(i+3) || e[0].Seqnum != uint64(i+1) {
			t.Errorf("%s: %+v", path, e)
		}
	}
}

// What a file could not write before its successor has written keeps its times:
// those of a sequence go forward, whatever other files have shown meanwhile.
func TestSequenceGoesForwardInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := crashfs.New(1)
		_ = mem.MkdirAll("/d", 0o755)
		order := NewOrder()
		now := uint64(0)
		o := Options{FS: mem, MaxSize: MinMaxSize, Order: order, Clock: func() (uint64, uint64) { now++; return 1e15 + now, now }}
		var writers [3]*Writer
		for i, name := range []string{"old", "next", "other"} {
			w, err := Create("/d/"+name+".journal", o)
			if err != nil {
				t.Fatal(err)
			}
			writers[i] = w
		}
		old, next, other := writers[0], writers[1], writers[2]
		mem.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
			if op.Name == "write" && op.Path == old.path {
				return crashfs.NotDone, syscall.ENOSPC
			}
			return 0, nil
		})
		add := func(w *Writer) {
			if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1")}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		add(old) // staged
		add(old) // waits for that
		next.Succeed(old)
		add(next)
		add(other)
		mem.FailWhen(nil)
		for _, w := range writers {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var times []uint64
		for _, w := range writers[:2] {
			for _, e := range wEntriesOf(t, mem.Bytes(w.path)) {
				times = append(times, e.Monotonic)
			}
		}
		if len(times) != 3 || !slices.IsSorted(times) {
			t.Errorf("the entries of the sequence have the times %d", times)
		}
		if order.monotonic <= times[2] {
			t.Errorf("time goes on at %d", order.monotonic)
		}
	})
}

// Files of an Order share the buffer: who finds it filled by another waits until
// the other was written.
func TestOrderSharesTheBuffer(t *testing.T) {
	mem := crashfs.New(1)
	_ = mem.MkdirAll("/d", 0o755)
	order := NewOrder()
	var writers [3]*Writer
	for i := range writers {
		o := Options{FS: mem, MaxSize: MinMaxSize, Order: order, Buffer: 4000}
		if i == 2 {
			o.Order = nil
		}
		w, err := Create(fmt.Sprintf("/d/%d.journal", i), o)
		if err != nil {
			t.Fatal(err)
		}
		writers[i] = w
	}
	line := []entry.Entry{wFields("MESSAGE=a line that takes some room")}
	order.io.Lock() // nothing is written yet
	for {
		if _, _, err := writers[0].TryAppend(line); errors.Is(err, ErrBufferFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := writers[1].TryAppend(line); !errors.Is(err, ErrBufferFull) {
		t.Errorf("another file of the order takes an entry: %v", err)
	}
	if _, _, err := writers[2].TryAppend(line); err != nil {
		t.Errorf("a file for itself: %v", err)
	}
	waited := make(chan error)
	go func() {
		_, _, err := writers[1].Append(t.Context(), line)
		waited <- err
	}()
	for writers[1].Stats().Blocked < 2 {
		runtime.Gosched()
	}
	order.io.Unlock()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	for _, w := range writers {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if held := order.held.Load(); held != 0 {
		t.Errorf("%d bytes are held by files that are closed", held)
	}
}
