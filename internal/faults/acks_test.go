package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/control"
)

// way is a way in whose answer says that something is synced.
type way struct {
	name string
	// ask sends a message, unless it is empty, and returns nil for an
	// acknowledgement.
	ask func(ctx context.Context, d *daemon, message string) error
}

// verb runs a verb of the program.
func (d *daemon) verb(ctx context.Context, verb string, args ...string) error {
	cmd := exec.CommandContext(ctx, d.bin, append([]string{verb, "--run", d.run}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("tidemark %s: %w: %s", verb, err, out)
	}
	return nil
}

// ways are all of them.
func ways() []way {
	return []way{
		{"ingest", func(ctx context.Context, d *daemon, m string) error { return d.post(ctx, m, "synced") }},
		{"ingest with a key", func(ctx context.Context, d *daemon, m string) error { return d.postOnce(ctx, m) }},
		{"varlink Append", func(ctx context.Context, d *daemon, m string) error { return d.append(ctx, m, "synced") }},
		{"upload", func(ctx context.Context, d *daemon, m string) error { return d.upload(ctx, m, "synced") }},
		{"send --ack", func(ctx context.Context, d *daemon, m string) error {
			return d.verb(ctx, "send", "--ack", "synced", m)
		}},
		{"Synchronize", func(ctx context.Context, d *daemon, m string) error {
			if err := d.datagram(m); err != nil {
				return err
			}
			_, err := d.call(ctx, control.MethodSynchronize, nil)
			return err
		}},
		{"sync", func(ctx context.Context, d *daemon, m string) error {
			if err := d.datagram(m); err != nil {
				return err
			}
			return d.verb(ctx, "sync")
		}},
	}
}

// datagram sends a message that promises nothing.
func (d *daemon) datagram(message string) error {
	s, err := d.dial("native")
	if err != nil {
		return err
	}
	return errors.Join(s.send(message), s.Close())
}

// postOnce is post of a request that may be sent again, which it is: the second
// time there is nothing to append.
func (d *daemon) postOnce(ctx context.Context, message string) error {
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.http+"ingest?ack=synced", strings.NewReader(`{"message":"`+message+`"}`))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		req.Header.Set("Idempotency-Key", strings.ReplaceAll(message, " ", "-"))
		answer, err := answerTo(req)
		if err != nil {
			return err
		}
		if !strings.Contains(answer, `"ack":"synced"`) {
			return errors.New("answer " + answer)
		}
	}
	return nil
}

// upload sends an entry as systemd-journal-upload does.
func (d *daemon) upload(ctx context.Context, message, ack string) error {
	const stamp = "__REALTIME_TIMESTAMP=1700000000000000\n__MONOTONIC_TIMESTAMP=1000000\n_BOOT_ID=0123456789abcdef0123456789abcdef\n"
	_, err := d.request(ctx, http.MethodPost, "upload?ack="+ack, "application/vnd.fdo.journal", stamp+"MESSAGE="+message+"\n\n")
	return err
}

// onlyAsked is a daemon that syncs only when somebody asks, and owes no sync.
func onlyAsked(t *testing.T) *daemon {
	t.Helper()
	d := start(t, newPlace(t, t.TempDir(), "Sync=auto"))
	noError(t, d.upload(guarded(t), "its file is there", "synced")) // a new file is synced twice
	settled(t, d)
	return d
}

// settled waits until all is synced and the next file is ready, which is synced too.
func settled(t testing.TB, d *daemon) {
	t.Helper()
	until(t, "the next file", func() bool { return d.state(t).Space.Prepared > 0 })
	_, err := d.call(guarded(t), control.MethodSynchronize, nil)
	noError(t, err)
}

// TestNoAckBeforeItsSync holds all syncs of the process: no answer comes that says
// synced, on any way, while others are answered there and back; after the release
// it comes.
func TestNoAckBeforeItsSync(t *testing.T) {
	d := onlyAsked(t)
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			ctx := guarded(t)
			h := hold(t, d, syncs...)
			done := make(chan error, 1)
			go func() { done <- w.ask(ctx, d, "by "+w.name) }()
			h.waitHeld(1)
			for i := range 20 {
				noError(t, errors.Join(d.post(ctx, fmt.Sprint("beside", i), "appended"), d.append(ctx, fmt.Sprint("beside", i), "appended")))
			}
			select {
			case err := <-done:
				t.Errorf("answered (error: %v) while the sync is held", err)
			default:
				h.release()
				if err := within(t, "the answer", done); err != nil {
					t.Errorf("after the release: %v", err)
				}
			}
		})
	}
}

// TestFailedSyncIsNoAck has all syncs of the process fail: who asked for one hears
// of it, on each way.
func TestFailedSyncIsNoAck(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			d := onlyAsked(t)
			h := attach(t, d, syncs, "error=EIO")
			if err := w.ask(guarded(t), d, "by "+w.name); err == nil {
				t.Error("acknowledged, though every sync fails")
			}
			h.release()
			d.kill() // it would say that not everything could be synced
		})
	}
}

// TestUrgentSharesItsSync: an entry of priority 2 begins a sync that nobody waits
// for; those that come while it is held cost one more together.
func TestUrgentSharesItsSync(t *testing.T) {
	d := onlyAsked(t)
	ctx := guarded(t)
	before := d.state(t).Syncs
	h := hold(t, d, syncs...)
	urgent := func(n int) {
		t.Helper()
		noError(t, d.datagram(fmt.Sprintf("urgent %d\nPRIORITY=2", n))) // a second one after the sender's own
	}
	urgent(0)
	h.waitHeld(1)
	const storm, waiters = 200, 20
	for n := range storm {
		urgent(n + 1)
	}
	done := make(chan error, waiters)
	for n := range waiters {
		go func() { done <- d.append(ctx, fmt.Sprint("waits ", n), "synced") }()
	}
	until(t, "the storm", func() bool {
		unsynced := uint64(0)
		for _, f := range d.state(t).Files {
			unsynced += f.Unsynced
		}
		return unsynced == 1+storm+waiters
	})
	noError(t, d.post(ctx, "last", "appended")) // so all before it is written
	if n := h.held(); n != 1 {
		t.Errorf("%d syncs at a time, want 1", n)
	}
	h.release()
	for range waiters {
		noError(t, within(t, "synced", done))
	}
	if n := d.state(t).Syncs - before; n != 2 {
		t.Errorf("%d syncs, want 2: that of the first, and one for all others", n)
	}
}
