package store

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

// TestChangesAreTold: who watches is told when the disk is full or fails, when it
// does no more, and when there are other files.
func TestChangesAreTold(t *testing.T) {
	disk := &hookfs.FS{}
	cfg := testConfig(t.TempDir(), disk)
	told := make(chan struct{}, 1)
	cfg.Changed = func() {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	s := open(t, cfg)
	until := func(what string, is func(Status) bool) {
		t.Helper()
		for !is(s.Status()) {
			<-told
		}
		t.Log(what)
	}
	var fault atomic.Uint32
	disk.Set(func(op, _ string) error {
		if errno := fault.Load(); errno != 0 && op == "write" {
			return syscall.Errno(errno)
		}
		return nil
	})
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		fault.Store(uint32(errno))
		if _, err := s.Append(t.Context(), []entry.Entry{line(0, "a message")}); err != nil {
			t.Fatal(err)
		}
		until(errno.Error(), func(st Status) bool {
			return st.Full == (errno == syscall.ENOSPC) && (st.Failing != nil) == (errno == syscall.EIO)
		})
		fault.Store(0)
		until("no more", func(st Status) bool { return !st.Full && st.Failing == nil })
	}
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	until("archived", func(st Status) bool { return st.Usage.Archived == 1 && len(st.Files) == 1 })
}
