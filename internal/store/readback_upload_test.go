package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// uploaded leaves in dir what a peer's file leaves whose sync has failed: messages
// 0 to 9, of which the first four are synced and the last is lost.
func uploaded(t *testing.T, dir string) {
	t.Helper()
	fsys := &hookfs.FS{}
	w, err := journal.Create(filepath.Join(dir, "remote-p.journal"), journal.Options{FS: fsys, MachineID: testMachine, MaxSize: smallFile})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range numbered(0, 10) {
		if i == 4 {
			if err := w.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			fsys.Set(func(op, _ string) error {
				if op == "datasync" {
					return syscall.EIO
				}
				return nil
			})
		}
		e := entry.Entry{Fields: line(0, m).Fields, Realtime: uint64(1000 + i), Monotonic: uint64(1000 + i), BootID: entry.ID{77}}
		if _, _, err := w.TryAppend([]entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SettleIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context(), 10, settle.Synced); err == nil {
		t.Fatal("the sync has not failed")
	}
	name := journal.DisposedName("remote-p", 1e15, w.SyncedSeqnum())
	if err := w.Rename(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	w.Close() // fails
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	copy(b[bytes.Index(b, []byte("message 9")):], "lost")
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestUploadsAreReadBack: what no sync of an upload's file has covered is stored again,
// once, when it is set aside or by the next start.
func TestUploadsAreReadBack(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint("before the start ", before), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				data := filepath.Join(dir, testMachine.String())
				if err := os.Mkdir(data, 0o755); err != nil {
					t.Fatal(err)
				}
				fsys := &hookfs.FS{}
				cfg := testConfig(dir, fsys)
				if before {
					uploaded(t, data)
				}
				s := open(t, cfg)
				if !before {
					rest(time.Second)
					uploaded(t, data)
					fsys.Set(func(op, _ string) error {
						if op == "create" {
							return syscall.ENOSPC
						}
						return nil
					})
					s.LookAgain()
					rest(time.Second / 2)
					fsys.Set(nil)
				}
				s.LookAgain() // finds nothing new
				rest(10 * time.Second)
				if got := count(s, "read_back"); got != 5 {
					t.Errorf("%d entries read back, want 5", got)
				}
				if got := count(s, "not_read_back"); got != 1 {
					t.Errorf("%d entries could not be read back, want 1", got)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				var whole []string
				for _, name := range names(t, data) {
					if strings.HasPrefix(name, "remote-p@") && !strings.HasSuffix(name, "~") {
						whole = append(whole, name)
					}
				}
				if d := cmp.Diff(numbered(4, 9), storedIn(t, dir, false, whole...)); len(whole) != 1 || d != "" {
					t.Errorf("stored in %v (-want +got):\n%s", whole, d)
				}
				s = open(t, cfg)
				rest(time.Second)
				if got := count(s, "read_back") + count(s, "not_read_back"); got != 0 {
					t.Errorf("%d entries read back, or missed, by the next start", got)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
