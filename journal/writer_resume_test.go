package journal

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// wResume is what it took to write a busy life: pwrites, and those that failed.
type wResume struct{ writes, failed int }

// wBusy appends batches of many new values, each of which takes hundreds of
// pwrites with its links, and waits until all of it is in the file, on a disk
// that fails every nth pwrite, 0: none. It gives up after limit of them.
func wBusy(t *testing.T, kind crashfs.Kind, every, limit int) (r wResume) {
	synctest.Test(t, func(t *testing.T) {
		s := newWScene(1)
		_ = s.fs.MkdirAll("/d", 0o755)
		if s.w, s.createErr = Create(wCrashPath, Options{FS: s.fs, MaxSize: 8 << 20}); s.createErr != nil {
			t.Fatal(s.createErr)
		}
		s.created.Store(true)
		s.fs.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
			if op.Name != "write" {
				return 0, nil
			}
			if r.writes++; every == 0 || r.writes%every != 0 || r.writes > limit {
				return 0, nil
			}
			r.failed++
			return kind, syscall.EIO
		})
		for range 4 {
			batch := make([]entry.Entry, 400)
			for i := range batch {
				batch[i] = s.entry(s.accepted + i)
			}
			s.submitted.Add(int64(len(batch)))
			pos, n, err := s.w.TryAppend(batch)
			if err != nil {
				t.Fatal(err)
			}
			s.accepted += n
			for s.w.Wait(t.Context(), pos, settle.Appended) != nil {
			}
			for s.w.SettleIndex(t.Context()) != nil {
			}
		}
		s.fs.FailWhen(nil)
		if err := s.w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.whole(s.fs, s.accepted); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A disk that fails every nth pwrite costs every nth pwrite once more, however
// many it takes to write what has gathered.
func TestBusyWriterMakesProgressThroughFailures(t *testing.T) {
	needed := wBusy(t, 0, 0, 0).writes
	if needed < 400 {
		t.Fatalf("%d pwrites: a stage has too few for this test", needed)
	}
	for name, kind := range map[string]crashfs.Kind{"not done": crashfs.NotDone, "done but failed": crashfs.DoneButFailed, "short": crashfs.Short} {
		for _, every := range []int{2, 3, 10, 100} {
			t.Run(fmt.Sprintf("%s, one in %d", name, every), func(t *testing.T) {
				r := wBusy(t, kind, every, 4*needed)
				if r.writes-r.failed > needed+needed/10 || r.failed == 0 {
					t.Errorf("took %d pwrites and %d that failed, %d are needed", r.writes-r.failed, r.failed, needed)
				}
			})
		}
	}
}

// A disk on which every pwrite is short is written to, too.
func TestWriterMakesProgressByShortWrites(t *testing.T) {
	r := wBusy(t, crashfs.Short, 1, 100_000)
	if r.writes >= 100_000 {
		t.Errorf("%d pwrites", r.writes)
	}
}

// What was written before the failure is not written again, and what is written
// afterwards is what it would have been.
func TestStageGoesOnWhereItFailed(t *testing.T) {
	m, g := newWMem(t), newWGen(1)
	var s wStage
	for range 2 { // the second is linked into what is in the file
		for _, e := range g.batch(100) {
			if err := m.build(&e, wStamp{e.Realtime, e.Monotonic, e.BootID}); err != nil {
				t.Fatal(err)
			}
		}
		s.reset()
		m.take(&s, true)
	}
	want := &wPatched{b: make([]byte, 8<<20)}
	if err := s.write(want, func(error) { t.Error("told of a failure") }); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= want.writes; n += 1 + n/16 {
		s.past = wPast{}
		f := &wPatched{b: make([]byte, 8<<20), failAt: n}
		failed := 0
		err := s.write(f, func(error) { failed++ })
		if n == 1 && err != nil && failed == 0 { // nothing was written: who called tries again
			err = s.write(f, func(error) { failed++ })
			failed++
		}
		if err != nil || failed != 1 {
			t.Fatalf("failure of write %d: %v, told of %d failures", n, err, failed)
		}
		if f.writes != want.writes+1 || !bytes.Equal(f.b, want.b) {
			t.Fatalf("failure of write %d: %d writes, want %d and the same bytes", n, f.writes, want.writes+1)
		}
	}
}
