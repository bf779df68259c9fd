package journal

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// wHoldIndex has no write include the index any more unless it must, and the
// index settler wait for the end of the window.
func wHoldIndex(w *Writer) {
	w.io.Lock()
	defer w.io.Unlock()
	w.due.paid.Store(math.MaxInt64 / 2)
}

// dueRig is a writer in a bubble of virtual time, and what a reader who opens its
// file finds.
type dueRig struct {
	*Writer
	t   *testing.T
	mem *crashfs.FS
	n   int         // entries appended
	at  []time.Time // when each was
}

func newDueRig(t *testing.T, index time.Duration) *dueRig {
	t.Helper()
	w, mem := wMemWriter(t, Options{MaxSize: 4 << 20, Index: index})
	return &dueRig{Writer: w, t: t, mem: mem}
}

// add appends n entries and waits for them.
func (r *dueRig) add(n int) {
	r.t.Helper()
	var batch []entry.Entry
	for range n {
		r.n++
		r.at = append(r.at, time.Now())
		batch = append(batch, wFields("MESSAGE=m", fmt.Sprintf("N=%d", r.n), fmt.Sprintf("K=%d", r.n%7)))
	}
	pos, _, err := r.Append(r.t.Context(), batch)
	if err == nil {
		err = r.Wait(r.t.Context(), pos, settle.Appended)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// seen is how many entries the header counts.
func (r *dueRig) seen() int {
	synctest.Wait()
	return int(decodeHeader(r.mem.Bytes(wCrashPath)).NEntries)
}

// lag is for how long the oldest entry has been waiting that is not whole.
func (r *dueRig) lag() time.Duration {
	synctest.Wait()
	r.io.Lock()
	n := r.indexed
	r.io.Unlock()
	if n == uint64(len(r.at)) {
		return 0
	}
	return time.Since(r.at[n])
}

// wantWhole wants everything to be seen, with and without matches.
func (r *dueRig) wantWhole(when string) {
	r.t.Helper()
	if n := r.seen(); n != r.n {
		r.t.Errorf("%s: %d entries are counted of %d", when, n, r.n)
	}
	b := r.mem.Bytes(wCrashPath)
	wVerifyBytes(r.t, b)
	f, err := NewFile(strings.NewReader(string(b)), func() int64 { return int64(len(b)) }, "a")
	if err != nil {
		r.t.Fatal(err)
	}
	j := ReadOptions{}.New()
	j.AddFile(f)
	defer j.Close()
	j.SetMatch(Or(Term(entry.Field(fmt.Sprintf("N=%d", r.n))), Term(entry.Field("N=1"))))
	n := 0
	for _, err := range j.All() {
		if err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	if want := min(r.n, 2); n != want {
		r.t.Errorf("%s: a match finds %d of %d", when, n, want)
	}
}

func (r *dueRig) close() {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
}

const lightLag = indexShare * indexLeast // how long a line may stay unseen without load

// What is appended by itself is whole when Wait returns, also several times in a
// row, for as long as saved time pays for it; after that a few ms later.
func TestIndexGoesAlongWithABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDueRig(t, 0)
		burst := int(indexSaved / lightLag)
		for i := range burst {
			r.add(1)
			r.wantWhole(fmt.Sprint("entry ", i))
		}
		r.add(1) // paid up to now, exactly
		r.wantWhole("the last that is paid for")
		r.add(1)
		if n := r.seen(); n != r.n-1 {
			t.Errorf("%d entries are counted of %d, want one kept back", n, r.n)
		}
		r.add(1)
		time.Sleep(lightLag)
		r.wantWhole("a little later")
		time.Sleep(indexSaved)
		for i := range burst {
			r.add(1)
			r.wantWhole(fmt.Sprint("after a quiet time, entry ", i))
		}
		r.close()
	})
}

// A steady stream is whole a few ms behind, and pays for no more than one index
// in that time.
func TestIndexFollowsASteadyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDueRig(t, 0)
		longest := time.Duration(0)
		for begin := time.Now(); time.Since(begin) < 2*time.Second; {
			r.add(1)
			longest = max(longest, r.lag())
			time.Sleep(time.Millisecond)
		}
		if longest > lightLag || longest < lightLag/2 {
			t.Errorf("an entry waited %v for the index, want about %v", longest, lightLag)
		}
		paid := 2*time.Second + indexSaved
		if n, most := int(r.Stats().Indexes), int(paid/lightLag)+2; n > most {
			t.Errorf("%d times the index in 2 s, want at most %d", n, most)
		}
		r.close()
	})
}

// A flood, for which the index is dear, pays for it once a window when it has used
// up what was saved; after a quiet time that is saved again.
func TestIndexOfAFloodComesOnceAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 250 * time.Millisecond
		var d wIndexDue
		d.init(window)
		begin, last := time.Now(), time.Now()
		var spent []time.Duration // in each window
		var gaps []time.Duration  // in the second half
		for time.Since(begin) < 20*window {
			time.Sleep(time.Millisecond)
			if d.in() > 0 {
				continue
			}
			since := time.Since(last)
			took := indexLeast + since/10 // what gathers makes it dear
			time.Sleep(took)
			d.pay(took)
			last = time.Now()
			i := int(last.Sub(begin) / window)
			for len(spent) <= i {
				spent = append(spent, 0)
			}
			spent[i] += took
			if i >= 10 {
				gaps = append(gaps, since)
			}
		}
		if spent[0] > window/10 { // until it is known as a flood
			t.Errorf("the index took %v of the first %v", spent[0], window)
		}
		for _, gap := range gaps {
			if gap < window || gap > window+time.Millisecond {
				t.Errorf("%v between two, the window is %v", gap, window)
			}
		}
		if len(gaps) < 8 {
			t.Errorf("%d times the index in ten windows", len(gaps))
		}
		time.Sleep(2 * window)
		for i := range int(indexSaved / lightLag) {
			if d.in() > 0 {
				t.Fatalf("after a quiet time only %d lines are whole at once", i)
			}
			d.pay(0)
		}
	})
}

// One index that took long, because the process had to wait, does not count as a
// flood; several do, for as long as it lasts.
func TestIndexOnceSlowIsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d wIndexDue
		d.init(DefaultIndexWindow)
		for d.in() <= 0 { // saved time is spent
			d.pay(0)
		}
		time.Sleep(d.in())
		for i, tt := range []struct{ took, want time.Duration }{
			{0, lightLag},
			{time.Second, 2 * lightLag},
			{0, lightLag},
			{time.Second, 2 * lightLag},
			{time.Second, 4 * lightLag},
			{time.Second, 8 * lightLag},
			{3 * indexLeast, 3 * lightLag},
			{time.Second, 6 * lightLag},
			{time.Second, 12 * lightLag},
			{time.Second, 24 * lightLag},
			{time.Second, 48 * lightLag},
			{time.Second, DefaultIndexWindow},
			{time.Second, DefaultIndexWindow},
			{0, lightLag},
		} {
			d.pay(tt.took)
			if got := d.in(); got != tt.want {
				t.Errorf("index %d: the next is due in %v, want %v", i, got, tt.want)
			}
			time.Sleep(d.in())
		}
	})
}

func TestIndexWithEveryWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDueRig(t, -1)
		for range 100 {
			r.add(3)
			if n := r.seen(); n != r.n {
				t.Fatalf("%d entries are counted of %d", n, r.n)
			}
		}
		r.wantWhole("in the end")
		r.close()
	})
}

// What was waited for is there for any reader: here the real journalctl, after
// each of a few lines in a row. However slow this machine is, so many are paid
// for: 4+8+16+32+64 ms of 250.
func TestJournalctlSeesEachOfAFewLines(t *testing.T) {
	tool := wNeedTool(t, "journalctl")
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "system.journal"), Options{BootID: entry.ID{1}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range 5 {
		all = append(all, fmt.Sprint("m", i))
		pos, _, err := w.Append(t.Context(), []entry.Entry{wFields("MESSAGE="+all[i], "UNIT=u", "N="+all[i])})
		if err == nil {
			err = w.Wait(t.Context(), pos, settle.Appended)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, look := range []struct {
			args string
			want []string
		}{
			{"", all},
			{"-n 1", all[i:]},
			{"UNIT=u", all},
			{"N=" + all[i], all[i:]},
		} {
			args := append([]string{"-D", dir, "-q", "-o", "cat"}, strings.Fields(look.args)...)
			out, err := exec.Command(tool, args...).Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(string(out)); strings.Join(got, " ") != strings.Join(look.want, " ") {
				t.Errorf("after line %d: journalctl %s shows %q, want %q", i, look.args, got, look.want)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
