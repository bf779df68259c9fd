package store

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

// TestWhileRoom has what waits for a sender, which waits for space, end when the
// disk becomes full, fail at once while it is, and go on when there is space.
func TestWhileRoom(t *testing.T) {
	tests := []struct {
		name string
		ops  []string // that find no space
		rot  bool     // the current file is full, so that a next one is needed
	}{
		{"the file cannot be written", []string{"create", "write", "allocate"}, false},
		{"the next file cannot be made", []string{"create"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testWhileRoom(t, tt.ops, tt.rot) })
		})
	}
}

func testWhileRoom(t *testing.T, ops []string, rotate bool) {
	fsys := &hookfs.FS{}
	cfg := testConfig(t.TempDir(), fsys)
	cfg.Buffer = 4000
	s := open(t, cfg)
	appendNumbered(t, s, 0, 10)
	synctest.Wait()
	begun := make(chan struct{})
	wait := func(ctx context.Context) error { // for a sender
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	ended := make(chan error)
	go func() { ended <- s.WhileRoom(t.Context(), wait) }()
	<-begun
	synctest.Wait()
	select {
	case err := <-ended:
		t.Fatalf("it ended while there was room: %v", err)
	default:
	}
	fsys.Set(func(op, _ string) error {
		for _, o := range ops {
			if op == o {
				return syscall.ENOSPC
			}
		}
		return nil
	})
	if rotate { // takes the prepared file; there is no other
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	sent := make(chan error)
	go func() {
		for range 10_000 {
			if _, err := s.Append(t.Context(), []entry.Entry{line(0, "a line that waits for space")}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	if err := <-ended; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("when the disk became full: %v, want ENOSPC", err)
	}
	go func() { ended <- s.WhileRoom(t.Context(), wait) }()
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("while the disk is full: %v, want ENOSPC", err)
		}
	case <-begun: // it had to find out
		if err := <-ended; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("while the disk is full: %v, want ENOSPC", err)
		}
	}
	fsys.Set(nil)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if err := s.WhileRoom(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("when there is space again: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestRotateOnFullDisk rotates where nobody sends anything: the next file cannot
// be made, so that it is said, each time, until there is space.
func TestRotateOnFullDisk(t *testing.T) {
	for _, tt := range []struct {
		name string
		grow bool // it is the current file that takes the space first, and gets none
	}{
		{"the next file cannot be made", false},
		{"the current file cannot grow", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRotateOnFullDisk(t, tt.grow) })
		})
	}
}

func testRotateOnFullDisk(t *testing.T, grow bool) {
	fsys := &hookfs.FS{}
	cfg := testConfig(t.TempDir(), fsys)
	cfg.Limits.MaxFileSize = 64 << 20 // grows
	s := open(t, cfg)
	appendNumbered(t, s, 0, 1)
	synctest.Wait()
	fsys.Set(func(op, _ string) error {
		if op == "allocate" {
			return syscall.ENOSPC
		}
		return nil
	})
	rotate := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return s.WhileRoom(ctx, s.Rotate)
	}
	if err := rotate(); err != nil {
		t.Fatalf("with a prepared file: %v", err)
	}
	s.system.f.grow.Store(grow)
	for i := range 3 {
		appendNumbered(t, s, 1+i, 1)
		synctest.Wait()
		if err := rotate(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("without one: %v, want ENOSPC", err)
		}
	}
	set := cfg.Settings
	set.CompressThreshold = 1000
	before := s.settings.Load().CompressThreshold
	if err := s.Configure(t.Context(), set); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("configure: %v, want ENOSPC", err)
	}
	if after := s.settings.Load().CompressThreshold; after != before {
		t.Errorf("settings that failed are in force: threshold %d, want %d", after, before)
	}
	if err := s.WhileRoom(t.Context(), s.Synchronize); err != nil {
		t.Errorf("sync of what has its place: %v", err)
	}
	fsys.Set(nil)
	if err := rotate(); err != nil {
		t.Errorf("when there is space again: %v", err)
	}
}

// TestWhileRoomLeavesLosses: a failed sync that is not reported yet stays for the
// next Synchronize, whoever finds out meanwhile that the disk takes entries again.
func TestWhileRoomLeavesLosses(t *testing.T) {
	s := open(t, testConfig(t.TempDir(), nil))
	appendNumbered(t, s, 0, 1)
	lost := errors.New("a sync that failed")
	s.queueMu.Lock()
	s.lost = append(s.lost, lost)
	s.queueMu.Unlock()
	s.room.end(syscall.ENOSPC)
	if err := s.WhileRoom(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("WhileRoom = %v", err)
	}
	if err := s.Synchronize(t.Context()); !errors.Is(err, lost) {
		t.Errorf("Synchronize = %v, want what was lost", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
