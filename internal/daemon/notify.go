package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/tidemark-log/tidemark/settle"
)

// notifyLimit is how long a service manager may leave its socket full. It must
// not keep the daemon from working, or from ending.
const notifyLimit = time.Second

// notify tells the service manager, if there is one. That it does not listen is
// said once, until it does again: the watchdog is fed all the time.
func (d *daemon) notify(state string) {
	err := notify(state)
	if again := d.unheard.Swap(err != nil); err != nil && !again {
		d.say("notify the service manager: " + err.Error())
	}
}

// notify is sd_notify(3), but gives up after notifyLimit.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(notifyLimit)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return err
}

// statusWindow is how long changes of the state gather, after the first.
const statusWindow = 250 * time.Millisecond

// tellStatus keeps the service manager's status line up to date, until the returned
// function is called. It is told of changes, and sleeps in between.
func (d *daemon) tellStatus() (stop func()) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return func() {}
	}
	last := ""
	tell := func(upTo uint64) (uint64, error) {
		if text := d.statusLine(); text != last {
			last = text
			d.notify("STATUS=" + text)
		}
		return upTo, nil
	}
	s := settle.New(tell, settle.Options{Policy: settle.Every(statusWindow), Leading: true})
	d.teller.Store(s)
	d.changed()
	return func() {
		d.teller.Store(nil)
		s.Close() //nolint:errcheck // the effect cannot fail
	}
}

// changed is called when the status line may have become another one. It does not
// block, and may be called from anywhere.
func (d *daemon) changed() {
	if s := d.teller.Load(); s != nil {
		s.Mark(d.changes.Add(1))
	}
}

// statusLine says in one line what the daemon does, and what keeps it from that.
func (d *daemon) statusLine() string {
	st, far := d.store.Status(), d.remote.Status()
	trouble := ""
	switch {
	case st.Full:
		trouble = "The disk is full: senders wait or are refused. "
	case st.Failing != nil:
		trouble = "Writes fail and are tried again: " + oneLine(st.Failing.Error()) + ". "
	}
	if d.stopping.Load() {
		return trouble + "Storing what was received"
	}
	files := len(st.Files) + len(far.Files) + st.Usage.Archived
	word := "files"
	if files == 1 {
		word = "file"
	}
	return fmt.Sprintf("%sLogging to %s, %d %s, sync %s", trouble, st.Dir, files, word, d.config().Sync)
}

// oneLine keeps a text from being several assignments.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// feedWatchdog tells the service manager that the daemon lives, as often as it
// wants to hear it, until the returned function is called. Before that it goes where
// an append goes, and looks at all parts: none of it waits for the disk, so a daemon
// that waits for a sync is alive, and one whose appends are stuck is not.
func (d *daemon) feedWatchdog(ctx context.Context) (stop func()) {
	every, err := sd.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every / 2)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.store.Pass()
				d.looks.Put(d.look())
				d.notify(sd.SdNotifyWatchdog)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
