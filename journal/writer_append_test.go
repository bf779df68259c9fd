package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// wFields makes an entry without a time.
func wFields(f ...string) entry.Entry {
	var e entry.Entry
	for _, s := range f {
		e.Fields = append(e.Fields, entry.Field(s))
	}
	return e
}

func wAt(e entry.Entry, realtime, monotonic uint64) entry.Entry {
	e.Realtime, e.Monotonic, e.BootID = realtime, monotonic, entry.ID{9}
	return e
}

func wMemWriter(t *testing.T, o Options) (*Writer, *crashfs.FS) {
	t.Helper()
	fs := crashfs.New(1)
	_ = fs.MkdirAll("/d", 0o755)
	o.FS = fs
	if o.MaxSize == 0 {
		o.MaxSize = MinMaxSize
	}
	w, err := Create(wCrashPath, o)
	if err != nil {
		t.Fatal(err)
	}
	return w, fs
}

func TestAppendRefusesWhatJournaldRefuses(t *testing.T) {
	ok := wAt(wFields("A=1"), 100, 100)
	tests := []struct {
		name  string
		e     entry.Entry
		want  error
		field int
	}{
		{"no fields", wAt(entry.Entry{}, 100, 100), ErrNoFields, -1},
		{"no equals sign", wAt(wFields("A=1", "B"), 100, 100), ErrFieldName, 1},
		{"empty name", wAt(wFields("=1"), 100, 100), ErrFieldName, 0},
		{"lower case", wAt(wFields("A=1", "B=2", "c=3"), 100, 100), ErrFieldName, 2},
		{"digit first", wAt(wFields("1A=1"), 100, 100), ErrFieldName, 0},
		{"65 bytes", wAt(wFields(strings.Repeat("A", 65)+"=1"), 100, 100), ErrFieldName, 0},
		{"realtime too large", wAt(wFields("A=1"), 1<<55, 100), ErrTime, -1},
		{"monotonic too large", wAt(wFields("A=1"), 100, 1<<55), ErrTime, -1},
		{"order broken", wAt(wFields("A=1"), 101, 99), ErrOrder, -1},
		{"too large", wAt(wFields("A="+strings.Repeat("x", MinMaxSize)), 101, 100), ErrTooLarge, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, fs := wMemWriter(t, Options{})
			pos, n, err := w.TryAppend([]entry.Entry{ok, tt.e, ok})
			var ee *EntryError
			if pos != 1 || n != 1 || !errors.Is(err, tt.want) || !errors.As(err, &ee) || ee.Index != 1 || ee.Field != tt.field {
				t.Fatalf("TryAppend = %d, %d, %v; want 1, 1, %v at entry 1, field %d", pos, n, err, tt.want, tt.field)
			}
			if pos, n, err = w.TryAppend([]entry.Entry{ok}); pos != 2 || n != 1 || err != nil {
				t.Errorf("the next entry: %d, %d, %v", pos, n, err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if h := decodeHeader(fs.Bytes(wCrashPath)); h.NEntries != 2 || h.NData != 1 || h.NFields != 1 {
				t.Errorf("file has %d entries, %d data, %d fields; want 2, 1, 1", h.NEntries, h.NData, h.NFields)
			}
		})
	}
}

func TestAppendTakesTimeThatNeverGoesBack(t *testing.T) {
	clock := [][2]uint64{{1, 1}, {1000, 500}, {900, 501}, {1001, 400}, {1002, 502}}
	i := 0
	w, fs := wMemWriter(t, Options{BootID: entry.ID{7}, Clock: func() (uint64, uint64) {
		c := clock[min(i, len(clock)-1)]
		i++
		return c[0], c[1]
	}})
	for range 4 {
		// Two entries of one call have one time.
		if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1"), wFields("A=2")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got [][2]uint64
	for _, e := range wEntriesOf(t, fs.Bytes(wCrashPath)) {
		if e.BootID != (entry.ID{7}) {
			t.Errorf("boot id %s", e.BootID)
		}
		got = append(got, [2]uint64{e.Realtime, e.Monotonic})
	}
	want := [][2]uint64{
		{1000, 500},
		{1000, 500},
		{1000, 501},
		{1000, 501},
		{1001, 501},
		{1001, 501},
		{1002, 502},
		{1002, 502},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("times (-want +got):\n%s", d)
	}
}

func TestAppendReportsFullAndLosesNothing(t *testing.T) {
	w, fs := wMemWriter(t, Options{})
	g := newWGen(5)
	total := 0
	for {
		b := g.batch(7)
		_, n, err := w.Append(t.Context(), b)
		total += n
		if err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if reason, due := w.RotateDue(); !due {
		t.Error("rotation is not due")
	} else {
		t.Log(reason)
	}
	if _, n, err := w.Append(t.Context(), g.batch(1)); n != 0 || !errors.Is(err, ErrFull) {
		t.Errorf("Append to a full file: %d, %v", n, err)
	}
	if err := w.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := fs.Bytes(wCrashPath)
	h := decodeHeader(b)
	if h.State != StateArchived || h.NEntries != uint64(total) || uint64(len(b)) != h.HeaderSize+h.ArenaSize {
		t.Errorf("archived: state %s, %d entries of %d, %d bytes of %d", h.State, h.NEntries, total, len(b), h.HeaderSize+h.ArenaSize)
	}
	wVerifyBytes(t, b)
}

func TestAppendRotatesAtTheLimitsOfTheTables(t *testing.T) {
	w, _ := wMemWriter(t, Options{MaxSize: 4 << 20})
	for i := 0; ; i++ {
		_, _, err := w.TryAppend([]entry.Entry{wFields(fmt.Sprintf("F%d=x", i))})
		if errors.Is(err, ErrFull) {
			// journald asks before the append whether n_fields*4 > 333*3.
			if i != 250 {
				t.Errorf("full after %d fields, want 250", i)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if reason, due := w.RotateDue(); !due || reason != "field hash table full" {
		t.Errorf("RotateDue = %q, %v", reason, due)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "a.journal"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newWSteady()
	one := func() {
		if _, _, err := w.Append(t.Context(), s.next()); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for range 3000 {
		one()
	}
	// What grows with the file is amortized: it must not show in an average.
	if n := testing.AllocsPerRun(3000, func() { _, _, _ = w.Append(ctx, s.next()) }); n != 0 {
		t.Errorf("%v allocations an append", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// While a write is stuck, appends go on, until the buffer is full; then Append
// waits, TryAppend says so, and both go on when the write has come through.
func TestAppendIsBoundedByTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, fs := wMemWriter(t, Options{Buffer: 64 << 10})
		stuck := make(chan struct{})
		var calls atomic.Int64
		fs.Hook(func(int, crashfs.Op) error {
			calls.Add(1)
			<-stuck
			return nil
		})
		g := newWGen(6)
		total := 0
		for {
			_, n, err := w.TryAppend(g.batch(1))
			total += n
			if errors.Is(err, ErrBufferFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls of the file system while one was stuck", n)
		}
		if st := w.Stats(); st.Buffered < 64<<10 || st.Unwritten != uint64(total) || st.Blocked == 0 {
			t.Errorf("stats: %d bytes buffered, %d of %d unwritten, %d blocked", st.Buffered, st.Unwritten, total, st.Blocked)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, n, err := w.Append(ctx, g.batch(1)); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Append to a full buffer: %d, %v", n, err)
		}
		done := make(chan error)
		go func() {
			_, _, err := w.Append(context.WithoutCancel(ctx), g.batch(1))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("Append did not wait: %v", err)
		default:
		}
		close(stuck)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(wEntriesOf(t, fs.Bytes(wCrashPath))); n != total+1 {
			t.Errorf("file has %d entries, want %d", n, total+1)
		}
	})
}

// A full disk keeps what was appended waiting, tells those who wait, and goes on
// by itself when there is space.
func TestAppendSurvivesAFullDisk(t *testing.T) {
	for name, sparse := range map[string]bool{"allocation fails": false, "writes fall short": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, fs := wMemWriter(t, Options{MaxSize: 64 << 20})
				fs.SetSparse(sparse)
				fs.SetSpace(100_000)
				g := newWGen(8)
				total := 0
				var pos Pos
				for {
					p, n, err := w.Append(t.Context(), g.batch(50))
					total += n
					if err != nil {
						t.Fatal(err)
					}
					pos = p
					if err := w.Wait(t.Context(), pos, settle.Appended); err != nil {
						if !errors.Is(err, syscall.ENOSPC) && !strings.Contains(err.Error(), "short write") {
							t.Fatal(err)
						}
						break
					}
				}
				if st := w.Stats(); st.WriteErr == nil || st.Unwritten == 0 {
					t.Errorf("stats: error %v, %d unwritten", st.WriteErr, st.Unwritten)
				}
				for range 20 {
					_, n, err := w.Append(t.Context(), g.batch(50))
					total += n
					if err != nil {
						t.Fatal(err)
					}
				}
				fs.SetSpace(1 << 30)
				time.Sleep(5 * time.Second) // nobody asks: the back-off ends
				if st := w.Stats(); st.Unwritten != 0 || st.WriteErr != nil {
					t.Errorf("with space again: %d unwritten, error %v", st.Unwritten, st.WriteErr)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				b := fs.Bytes(wCrashPath)
				wVerifyBytes(t, b)
				if n := len(wEntriesOf(t, b)); n != total {
					t.Errorf("file has %d entries, want %d", n, total)
				}
			})
		})
	}
}

// A failed sync is final, and told to everyone.
func TestSyncFailureIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, fs := wMemWriter(t, Options{})
		pos, _, err := w.TryAppend([]entry.Entry{wFields("A=1")})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(t.Context(), pos, settle.Appended); err != nil {
			t.Fatal(err)
		}
		fail := true
		fs.Hook(func(_ int, op crashfs.Op) error {
			if fail && op.Name == "sync" {
				return syscall.EIO
			}
			return nil
		})
		if err := w.Wait(t.Context(), pos, settle.Synced); !errors.Is(err, syscall.EIO) {
			t.Errorf("Wait: %v", err)
		}
		fail = false
		if err := w.Wait(t.Context(), pos, settle.Synced); !errors.Is(err, syscall.EIO) {
			t.Errorf("second Wait: %v", err)
		}
		pos2, _, err := w.TryAppend([]entry.Entry{wFields("A=2")})
		if err != nil {
			t.Errorf("Append after a failed sync: %v", err)
		}
		if err := w.Wait(t.Context(), pos2, settle.Appended); err != nil {
			t.Errorf("appended after a failed sync: %v", err)
		}
		if err := w.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Close: %v", err)
		}
		if h := decodeHeader(fs.Bytes(wCrashPath)); h.State != StateOnline {
			t.Errorf("state %s after a failed sync", h.State)
		}
	})
}

func TestWaitAndAppendAfterClose(t *testing.T) {
	w, _ := wMemWriter(t, Options{})
	pos, _, err := w.TryAppend([]entry.Entry{wFields("A=1")})
	if err != nil {
		t.Fatal(err)
	}
	var tk Ticket
	if err := tk.Wait(t.Context(), settle.Synced); err != nil {
		t.Errorf("zero Ticket: %v", err)
	}
	tk.Add(w, pos)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := tk.Wait(t.Context(), settle.Synced); err != nil {
		t.Errorf("Wait for what Close has synced: %v", err)
	}
	if err := tk.Wait(t.Context(), settle.Replicated); !errors.Is(err, ErrLevel) {
		t.Errorf("Wait(replicated): %v", err)
	}
	if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1")}); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if st := w.Stats(); st.Entries != 1 || st.Unsynced != 0 {
		t.Errorf("stats after Close: %+v", st)
	}
}

// What comes inside a window gets its links when the window ends, though nobody
// asks and nothing more comes: then the file verifies. Until then the last entry
// is kept back.
func TestIndexFollowsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type effect struct {
			name    string
			covered uint64
		}
		var mu sync.Mutex
		var seen []effect
		var rung atomic.Int64
		w, fs := wMemWriter(t, Options{
			Index:   time.Second,
			OnWrite: func() { rung.Add(1) },
			Observe: func(name string, _ time.Duration, covered uint64, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				seen = append(seen, effect{name, covered})
			},
		})
		entries := func() uint64 { return decodeHeader(fs.Bytes(wCrashPath)).NEntries }
		add := func() {
			if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1", "B=2"), wFields("A=1", "B=3")}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		add()
		if n := entries(); n != 2 {
			t.Errorf("%d entries after a lone append, want 2", n)
		}
		wVerifyBytes(t, fs.Bytes(wCrashPath))
		wHoldIndex(w)
		add()
		if n := entries(); n != 3 {
			t.Errorf("%d entries inside the window, want 3 and one kept back", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := entries(); n != 4 {
			t.Errorf("%d entries after the window, want 4", n)
		}
		wVerifyBytes(t, fs.Bytes(wCrashPath))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want := []effect{{"write", 2}, {"write", 4}, {"index", 4}, {"sync", 4}}
		if d := cmp.Diff(want, seen, cmp.AllowUnexported(effect{})); d != "" {
			t.Errorf("effects (-want +got):\n%s", d)
		}
		if n := rung.Load(); n != 3 {
			t.Errorf("%d bells, want 3", n)
		}
	})
}

// An urgent entry has a sync begun at once; nobody waits for it.
func TestUrgentEntriesAreSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := wMemWriter(t, Options{}) // auto: no sync by itself
		e := wFields("A=1")
		if _, _, err := w.TryAppend([]entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := w.Stats(); st.Unsynced != 1 {
			t.Errorf("%d unsynced, want 1", st.Unsynced)
		}
		e.Urgent = true
		if _, _, err := w.TryAppend([]entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := w.Stats(); st.Unsynced != 0 {
			t.Errorf("%d unsynced after an urgent entry", st.Unsynced)
		}
		e.Urgent = false
		if _, _, err := w.TryAppend([]entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
		w.Urge()
		synctest.Wait()
		if st := w.Stats(); st.Unsynced != 0 {
			t.Errorf("%d unsynced after Urge", st.Unsynced)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// What an entry repeats of the one before is known by its place, which must not
// take one field for another.
func TestAppendRepeatsOfTheEntryBefore(t *testing.T) {
	long := "LONG=" + strings.Repeat("x", wLastMax)
	given := [][]string{
		{"A=1", "B=2", "C=3", long},
		{"A=1", "B=2", "C=3", long},            // the same
		{"A=1", "C=3", "B=2", long + "y"},      // other places; the same as far as is kept
		{"A=", "AB=2", "A=1", long[:wLastMax]}, // a name that begins as another, a shorter value
		{"A=2", "A=2", "A=2", long},            // the same new value thrice
		{"A=1"},
		{"AB=3"},
		{"A=1", "B=2", "B=2", "C=3"},
		append(slices.Repeat([]string{"A=1"}, wLastFields), "N=1", "N=2"),
		append(slices.Repeat([]string{"A=1"}, wLastFields), "N=2", "N=1"),
	}
	w, fs := wMemWriter(t, Options{})
	data, names := map[string]bool{}, map[string]bool{}
	for i, f := range given {
		// A field in the same memory, as a caller has it who fills a buffer again.
		e := wAt(wFields(f...), uint64(i+1), uint64(i+1))
		if _, _, err := w.TryAppend([]entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
		for j := range f {
			data[f[j]] = true
			name, _, _ := strings.Cut(f[j], "=")
			names[name] = true
			clear(e.Fields[j])
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := fs.Bytes(wCrashPath)
	if h := decodeHeader(b); h.NData != uint64(len(data)) || h.NFields != uint64(len(names)) {
		t.Errorf("file has %d data, %d fields; want %d, %d", h.NData, h.NFields, len(data), len(names))
	}
	for i, e := range wEntriesOf(t, b) {
		want, got := slices.Clone(given[i]), []string(nil)
		for _, f := range e.Fields {
			got = append(got, string(f))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
			t.Errorf("entry %d (-want +got):\n%s", i, diff)
		}
	}
	wVerifyBytes(t, b)
}
