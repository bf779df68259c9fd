package linelog

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/settle"
)

func TestLinesAndRests(t *testing.T) {
	r := newRig(t, Options{}, nil)
	a, b := r.Stream(), r.Stream()
	for _, step := range []struct {
		w    interface{ Write(p []byte) (int, error) }
		text string
	}{
		{r, "one\ntw"}, {a, "alph"}, {b, "beta\n"}, {r, "o\n"}, {a, "a\ngam"}, {b, ""}, {r, "thr"},
	} {
		if n, err := step.w.Write([]byte(step.text)); n != len(step.text) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", step.text, n, err)
		}
	}
	r.appended()
	r.want("one\n", "beta\n", "two\n", "alpha\n")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("x\n")); !errors.Is(err, ErrClosed) {
		t.Errorf("Write to a closed stream: %v", err)
	}
	if pos := r.append1("four"); pos != r.Pos() {
		t.Errorf("Append = %d, Pos = %d", pos, r.Pos())
	}
	r.close()
	r.want("one\n", "beta\n", "two\n", "alpha\n", "gam\n", "four\n", "thr\n")
	if _, err := r.Write([]byte("x\n")); !errors.Is(err, ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if _, err := r.Append(context.Background(), []byte("x\n")); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if err := r.Reopen(); !errors.Is(err, ErrClosed) {
		t.Errorf("Reopen after Close: %v", err)
	}
	if st := r.Stats(); st.Lines != 7 || st.Bytes != 32 || st.Buffered != 0 || st.Unsynced != 0 {
		t.Errorf("%+v", st)
	}
	r.close() // again
}

// A lone line is written at once, a stream of them once per window or when a
// buffer is full.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Window: 10 * time.Millisecond, Buffer: 100}, nil)
		step := func(text string, wait time.Duration, writes uint64) {
			t.Helper()
			r.put(text)
			time.Sleep(wait)
			synctest.Wait()
			if n := r.Stats().Writes; n != writes {
				t.Errorf("%.10q: %d writes, want %d", text, n, writes)
			}
		}
		step("a\n", 0, 1) // the first after a quiet window
		step("b\n", 5*time.Millisecond, 1)
		step("c\n", 4*time.Millisecond, 1)
		step("d\n", time.Millisecond, 2) // b, c, d, 10 ms after a
		step("e\n", 0, 2)
		step(strings.Repeat("x", 98)+"\n", 0, 4) // does not fit in beside e
		r.close()
		r.want("a\nb\nc\nd\ne\n", strings.Repeat("x", 98)+"\n")
	})
}

func TestLongLines(t *testing.T) {
	r := newRig(t, Options{MaxLine: 20, Buffer: 32}, nil)
	exact := strings.Repeat("x", 19) + "\n"
	r.put(exact)
	r.put(strings.Repeat("y", 25) + "\nshort\n")
	r.put("aaaaaaaaaaaaaaaé") // é would be cut
	r.put("ö" + "bbbb\n")
	r.append1(strings.Repeat("z", 40))
	r.close()
	r.want(exact, strings.Repeat("y", 16)+"…\n", strings.Repeat("y", 9)+"\n", "short\n",
		"aaaaaaaaaaaaaaa…\n", "éöbbbb\n",
		strings.Repeat("z", 16)+"…\n", strings.Repeat("z", 16)+"…\n", strings.Repeat("z", 8)+"\n")
	if st := r.Stats(); st.Cut != 4 {
		t.Errorf("%d cuts, want 4", st.Cut)
	}
}

// A line longer than the buffer is one write.
func TestLineLongerThanTheBuffer(t *testing.T) {
	r := newRig(t, Options{Buffer: 64}, nil)
	long := strings.Repeat("x", 1000) + "\n"
	r.put("a\n" + long + "b\n")
	r.close()
	r.want("a\n", long, "b\n")
	if st := r.Stats(); st.Writes != 3 {
		t.Errorf("%d writes, want 3", st.Writes)
	}
}

func TestTornTailIsMarked(t *testing.T) {
	long := strings.Repeat("y", 100<<10)
	for _, tt := range []struct {
		name, before, after string
		torn                Torn
	}{
		{"empty", "", "", Comment},
		{"whole", "one\n", "one\n", Comment},
		{"piece", "one\ntwo", "one\n#w\n", Comment},
		{"one byte", "one\nt", "one\n\n", Comment},
		{"no line", "two", "#w\n", Comment},
		{"spaces", "one\ntwo", "one\n  \n", Spaces},
		{"long", "one\n" + long, "one\n#" + long[2:] + "\n", Comment},
		{"longer than a line", strings.Repeat(long, 20), strings.Repeat(long, 20)[1:] + "\n", Comment},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Options{Torn: tt.torn}, seed(tt.before))
			r.put("next\n")
			r.close()
			if got := r.fs.Bytes(logPath); !bytes.Equal(got, []byte(tt.after+"next\n")) {
				t.Errorf("the log holds %.40q … (%d), want %.40q (%d)", got, len(got), tt.after, len(tt.after)+5)
			}
		})
	}
}

func TestWaitAndLevels(t *testing.T) {
	r := newRig(t, Options{}, nil)
	defer r.close()
	ctx := context.Background()
	pos := r.append1("one\n")
	if err := r.Wait(ctx, pos, settle.Accepted); err != nil {
		t.Error(err)
	}
	if err := r.Wait(ctx, pos, settle.Appended); err != nil {
		t.Error(err)
	}
	if st := r.Stats(); st.Syncs != 0 || st.Unsynced != 1 {
		t.Errorf("before a sync: %+v", st)
	}
	if err := r.Wait(ctx, pos, settle.Synced); err != nil {
		t.Error(err)
	}
	if st := r.Stats(); st.Syncs != 1 || st.Unsynced != 0 {
		t.Errorf("after a sync: %+v", st)
	}
	if err := r.Wait(ctx, pos, settle.Replicated); !errors.Is(err, ErrLevel) {
		t.Errorf("replicated: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.Wait(gone, r.Pos()+1, settle.Synced); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// In the long run an append allocates nothing, and what pays for it neither.
func TestAppendAllocatesNothing(t *testing.T) {
	w, err := Open(filepath.Join(t.TempDir(), "log"), Options{Sync: settle.Every(10 * time.Millisecond), Keep: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	line := []byte("127.0.0.1 - - [01/Dec/2026:00:00:00 +0000] \"GET /ping HTTP/1.1\" 200 5\n")
	both := func() {
		if _, err := w.Append(context.Background(), line); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	for range 20000 { // fill what is kept
		both()
	}
	if n := testing.AllocsPerRun(20000, both); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
