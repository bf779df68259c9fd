package store

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// fullAtTimes is a disk that is full for some calls, time and again, and takes few
// names then; beside that it fails syncs, those of prepared files too.
func fullAtTimes(seed uint64, oneIn int) func(int, crashfs.Op) (crashfs.Kind, error) {
	r := rand.New(rand.NewPCG(seed, 9))
	left := 0 // calls for which it stays full
	syncs := failSyncsOf(seed, oneIn)
	return func(n int, op crashfs.Op) (crashfs.Kind, error) {
		if left == 0 && r.IntN(150) == 0 {
			left = 1 + r.IntN(120)
		}
		if left > 0 {
			left--
			switch op.Name {
			case "write", "allocate":
				return []crashfs.Kind{crashfs.NotDone, crashfs.Short}[r.IntN(2)], syscall.ENOSPC
			case "rename", "open":
				if r.IntN(2) == 0 {
					return crashfs.NotDone, syscall.ENOSPC
				}
			}
		}
		if op.Name == "sync" && isPreparedName(op.Path) && r.IntN(oneIn) == 0 {
			return crashfs.NotDone, syscall.EIO
		}
		return syncs(n, op)
	}
}

// TestCrashOnADiskThatIsFullAtTimes kills the process at any call on such a disk. The
// next start, on one that works, has everything that was appended, once, and a power
// cut after it too.
func TestCrashOnADiskThatIsFullAtTimes(t *testing.T) {
	for i := range uint64(sagas(8)) {
		synctest.Test(t, func(t *testing.T) {
			x := newSaga(t, i, 6)
			x.fs.FailWhen(fullAtTimes(i, 6))
			x.fs.StopAt(100 + x.r.IntN(3000))
			x.play(60)
			x.die()
			x.check("after the kill", x.fs, settle.Appended)
			x.open()
			rest(2 * time.Minute)
			if err := x.s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			x.check("after the end", x.fs, settle.Appended)
			for range 3 {
				x.check("after a power cut", x.fs.PowerCut(x.r.Uint64()), settle.Appended)
			}
		})
	}
}
