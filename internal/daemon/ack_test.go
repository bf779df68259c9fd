package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/settle"
)

// syncFS is the machine's file system, whose fdatasyncs can be held, fail, and are
// counted.
type syncFS struct {
	vfs.OS
	mu       sync.Mutex
	err      error         // of every fdatasync
	held     chan struct{} // not nil: an fdatasync ends when it is closed
	began    chan struct{} // gets a value for each held fdatasync
	running  int           // fdatasyncs now
	together int           // the most that ran at a time
	n        int           // ended since hold
}

// hold holds every fdatasync from now on; began has room for many.
func (f *syncFS) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held, f.began = make(chan struct{}), make(chan struct{}, 1000)
	f.n, f.together = 0, 0
}

// release lets them go on. It may be called twice.
func (f *syncFS) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		close(f.held)
		f.held = nil
	}
}

func (f *syncFS) released() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held == nil
}

// awaitHeld waits until an fdatasync is held.
func (f *syncFS) awaitHeld(t *testing.T) {
	t.Helper()
	select {
	case <-f.began:
	case <-time.After(hangs):
		t.Fatal("no sync begins")
	}
}

// OpenFile implements vfs.FS.
func (f *syncFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return syncFile{file, f}, nil
}

type syncFile struct {
	vfs.File
	fs *syncFS
}

// Datasync implements vfs.File.
func (f syncFile) Datasync() error {
	f.fs.mu.Lock()
	held := f.fs.held
	f.fs.running++
	f.fs.together = max(f.fs.together, f.fs.running)
	if held != nil {
		f.fs.began <- struct{}{}
	}
	f.fs.mu.Unlock()
	if held != nil {
		<-held
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.running--
	f.fs.n++
	if f.fs.err != nil {
		return f.fs.err
	}
	return f.File.Datasync()
}

// startSyncing runs a daemon that syncs only when asked, on a syncFS.
func startSyncing(t *testing.T) (*running, *syncFS) {
	t.Helper()
	p := newPlace(t)
	p.configure(t, "Sync=auto\n")
	fsys := &syncFS{}
	r := start(t, p, func(d *daemon) { d.fs = fsys })
	t.Cleanup(fsys.release)
	waitUntil(t, r, "the next file", func() bool { return r.daemon.store.Status().Prepared == 1 }) // its making syncs too
	command(t, p, control.MethodSynchronize)
	return r, fsys
}

// way is one way in with an acknowledgement.
type way struct {
	name string
	// send sends a message, and returns the answer, and whether it is an ack.
	send func(ctx context.Context, r *running, message, ack string) (answer string, acked bool)
}

func ways(t *testing.T) []way {
	return []way{
		{"http", func(_ context.Context, r *running, message, ack string) (string, bool) {
			answer := post(t, url(r.lines), ack, `{"message":"`+message+`"}`)
			return answer, answer == `{"accepted":1,"ack":"`+ack+`"}`
		}},
		{"varlink", func(ctx context.Context, r *running, message, ack string) (string, bool) {
			raw, err := control.Call(ctx, filepath.Join(r.Run, config.ControlSocket), control.MethodAppend,
				control.AppendCall{Entries: []control.Entry{{Fields: []string{"MESSAGE=" + message}}}, Ack: ack})
			if err != nil {
				return err.Error(), false
			}
			return string(raw), string(raw) == `{"accepted":1,"dropped":0,"ack":"`+ack+`"}`
		}},
	}
}

// TestNoAckBeforeItsSync holds every sync: no answer leaves that says synced,
// while one that says appended does; after the release it does.
func TestNoAckBeforeItsSync(t *testing.T) {
	r, fsys := startSyncing(t)
	for _, w := range ways(t) {
		t.Run(w.name, func(t *testing.T) {
			fsys.hold()
			type result struct {
				answer       string
				acked, early bool
			}
			done := make(chan result, 1)
			go func() {
				answer, acked := w.send(t.Context(), r, w.name+" synced", "synced")
				done <- result{answer, acked, !fsys.released()}
			}()
			fsys.awaitHeld(t)
			// The whole way, there and back, while the sync is held.
			if answer, acked := w.send(t.Context(), r, w.name+" appended", "appended"); !acked {
				t.Errorf("appended is answered with %s", answer)
			}
			fsys.release()
			if got := <-done; !got.acked || got.early {
				t.Errorf("answer %+v, want the ack of synced after the release", got)
			}
			if fsys.n == 0 {
				t.Error("acked without a sync")
			}
		})
	}
	if diff := cmp.Diff([]string{"http synced", "http appended", "varlink synced", "varlink appended"}, messages(t, r.place)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestFailedSyncIsNoAck fails the sync: whoever waits for it hears so.
func TestFailedSyncIsNoAck(t *testing.T) {
	for _, w := range ways(t) {
		t.Run(w.name, func(t *testing.T) {
			r, fsys := startSyncing(t)
			r.fails = true
			fsys.mu.Lock()
			fsys.err = syscall.EIO
			fsys.mu.Unlock()
			if answer, acked := w.send(t.Context(), r, "lost", "synced"); acked || !strings.Contains(answer, "input/output error") {
				t.Errorf("answer %s, want the error", answer)
			}
		})
	}
}

// TestFullDiskIsNoAck lets no file take anything: the answer says so, also when
// it was full before, and the same call works when there is space.
func TestFullDiskIsNoAck(t *testing.T) {
	for _, w := range ways(t) {
		for _, ack := range []string{"appended", "synced"} {
			t.Run(w.name+" "+ack, func(t *testing.T) {
				p := newFaultyPlace(t)
				r := start(t, p)
				p.fail(t, syscall.ENOSPC)
				for range 3 {
					if answer, acked := w.send(t.Context(), r, "early", ack); acked || !strings.Contains(answer, "no space left") && !strings.Contains(answer, "disk is full") {
						t.Errorf("answer %s, want that the disk is full", answer)
					}
				}
				p.fail(t, 0)
				command(t, p, control.MethodSynchronize)
				if answer, acked := w.send(t.Context(), r, "late", ack); !acked {
					t.Errorf("answer %s once there is space", answer)
				}
			})
		}
	}
}

// TestStopIsNoAck ends the daemon while a sync is held: what waits for the sync is
// answered when it has ended, not by the end of the daemon.
func TestStopIsNoAck(t *testing.T) {
	for _, w := range ways(t) {
		t.Run(w.name, func(t *testing.T) {
			r, fsys := startSyncing(t)
			fsys.hold()
			done := make(chan bool, 1)
			go func() {
				answer, acked := w.send(t.Context(), r, "last", "synced")
				if !acked {
					t.Errorf("answer %s", answer)
				}
				done <- fsys.released()
			}()
			fsys.awaitHeld(t)
			stopped := make(chan error, 1)
			go func() { stopped <- r.stop() }()
			waitUntil(t, r, "the stop", func() bool {
				return strings.Contains(strings.Join(ownEntries(t, r.place), "\n"), "stopping")
			})
			fsys.release()
			if !<-done {
				t.Error("acked before the sync has ended")
			}
			if err := <-stopped; err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
}

// TestGoneClientOfAppend: who hangs up while a sync is held leaves nothing behind
// but the entry.
func TestGoneClientOfAppend(t *testing.T) {
	r, fsys := startSyncing(t)
	fsys.hold()
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := control.Call(ctx, filepath.Join(r.Run, config.ControlSocket), control.MethodAppend,
			control.AppendCall{Entries: []control.Entry{{Fields: []string{"MESSAGE=gone"}}}, Ack: "synced"})
		done <- err
	}()
	fsys.awaitHeld(t)
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want context.Canceled", err)
	}
	fsys.release()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"gone"}, messages(t, r.place)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestUrgentStormSharesSyncs: while the sync of the first urgent entry is held,
// many more come, by datagrams and otherwise, with and without somebody who waits.
// They cost one more sync together, and no two run at a time.
func TestUrgentStormSharesSyncs(t *testing.T) {
	r, fsys := startSyncing(t)
	st := r.daemon.store
	urgent := func(text string) entry.Entry {
		return entry.Entry{Urgent: true, Fields: []entry.Field{entry.Field("MESSAGE=" + text), entry.Field("PRIORITY=1")}}
	}
	before := st.Status()
	fsys.hold()
	if _, err := st.TryAppend([]entry.Entry{urgent("first")}); err != nil {
		t.Fatal(err)
	}
	fsys.awaitHeld(t) // nobody waits for it
	const storm, datagrams = 200, 50
	var all sync.WaitGroup
	for i := range storm {
		all.Go(func() {
			ticket, err := st.TryAppend([]entry.Entry{urgent(fmt.Sprint(i))})
			if err == nil && i%2 == 0 {
				err = st.Wait(t.Context(), ticket, settle.Synced)
			}
			if err != nil {
				t.Error(err)
			}
			if i%2 == 0 && !fsys.released() {
				t.Error("synced while the sync is held")
			}
		})
	}
	for i := range datagrams {
		native(t, r.place, fmt.Sprintf("%d\nPRIORITY=0", i)) // of two the first counts
	}
	waitUntil(t, r, "the storm", func() bool { return st.Status().Unsynced == 1+storm+datagrams })
	// Once another entry is written, what came before it is, and has asked for its sync.
	last, err := st.TryAppend([]entry.Entry{{Fields: []entry.Field{entry.Field("MESSAGE=last")}}})
	if err == nil {
		err = st.Wait(t.Context(), last, settle.Appended)
	}
	if err != nil {
		t.Fatal(err)
	}
	fsys.release()
	all.Wait()
	waitUntil(t, r, "the sync", func() bool { return st.Status().Unsynced == 0 })
	fsys.mu.Lock()
	defer fsys.mu.Unlock()
	if fsys.together != 1 || fsys.n != 2 {
		t.Errorf("%d fdatasyncs, %d at a time; want 2, one by one", fsys.n, fsys.together)
	}
	if n := st.Status().Syncs - before.Syncs; n != 2 {
		t.Errorf("%d syncs counted, want 2", n)
	}
}

// TestAppendEntries: what an entry of varlink looks like, and what is not stored.
func TestAppendEntries(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "MaxLevelStore=notice\nSystemMaxFileSize=512K\nCompress=no\n")
	r := start(t, p)
	c, err := control.Dial(t.Context(), filepath.Join(p.Run, config.ControlSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	say := func(priority, message string) control.Entry {
		return control.Entry{Fields: []string{"MESSAGE=" + message, "PRIORITY=" + priority}}
	}
	done, err := c.Append(t.Context(), []control.Entry{say("5", "one"), say("6", "info"), say("2", "two")}, "appended")
	if err != nil || done != (control.Appended{Accepted: 3, Dropped: 1, Ack: "appended"}) {
		t.Errorf("Append = %+v, %v", done, err)
	}
	done, err = c.Append(t.Context(), []control.Entry{say("5", "three"), say("5", strings.Repeat("x", 1<<20)), say("5", "four")}, "synced")
	if err == nil || !strings.Contains(err.Error(), "entry 1: no journal file can hold it") || done != (control.Appended{Accepted: 1, Ack: "synced"}) {
		t.Errorf("Append of a large entry = %+v, %v", done, err)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, messages(t, p)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	// One, two and three are taken, info is above the level.
	counted := map[string]uint64{}
	for _, c := range r.daemon.Status().Counts {
		if c.Name == "varlink" {
			counted[c.Reason] = c.N
		}
	}
	if diff := cmp.Diff(map[string]uint64{"entries": 3, "level": 1}, counted); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	got, err := json.Marshal(stored(t, p, false)[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"_TRANSPORT":"varlink"`, fmt.Sprintf(`"_UID":"%d"`, r.daemon.o.Env.UID), fmt.Sprintf(`"_PID":"%d"`, syscall.Getpid()), `"_GID":"`,
		`"_BOOT_ID":"` + r.daemon.boot.String(), `"_MACHINE_ID":"` + r.daemon.machine.String(), `"_HOSTNAME":"`, `"_RUNTIME_SCOPE":"system"`,
		`"_COMM":"daemon.test"`, `"_EXE":"/`, `"_CMDLINE":"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("entry %s lacks %s", got, want)
		}
	}
}

// TestAckUnderAll: under the policy all every answer waits for its sync.
func TestAckUnderAll(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "Sync=all\n")
	r := start(t, p)
	for _, w := range ways(t) {
		if answer, _ := w.send(t.Context(), r, w.name, "appended"); !strings.Contains(answer, `"ack":"synced"`) {
			t.Errorf("%s: answer %s, want synced", w.name, answer)
		}
	}
}
