package daemon

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// openAccessLog opens the log of requests, if there is to be one.
func (d *daemon) openAccessLog() error {
	cfg := d.config()
	if cfg.AccessLog == "" {
		return nil
	}
	policy := cfg.AccessLogSync
	if policy.IsAll() {
		// Each answer waits for its line, and answers are gathered for a sync: one that
		// begins at the first line of many would be waited for by all others.
		policy = settle.Every(abandoned)
	}
	w, err := linelog.Open(cfg.AccessLog, linelog.Options{
		FS:    d.fs,
		Sync:  policy,
		Limit: int64(min(cfg.Buffer, math.MaxInt64)),
		Full:  linelog.Drop,
		Say:   func(text string) { d.store.Event(levelWarning, messageAccessLog, text) },

		Observe: d.logEffects.Of(),
	})
	if err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	d.accessLog = w
	return nil
}

// abandoned is when a line is synced at the latest, under the policy all, whose client
// has gone before its answer was due.
const abandoned = time.Second

// messageAccessLog is the id of entries about the access log.
const messageAccessLog = "6b0d2f8a91c74e53b7a4d5e8f3c01926"

// reopenAccessLog has lines go to a new file when the log was renamed.
func (d *daemon) reopenAccessLog() {
	if d.accessLog == nil {
		return
	}
	if err := d.accessLog.Reopen(); err != nil {
		d.store.Event(levelErr, messageAccessLog, "access log: "+err.Error()+"; lines go to the file before")
	}
}

// syncAccessLog returns nil when the lines of all answered requests are synced.
func (d *daemon) syncAccessLog(ctx context.Context) error {
	if d.accessLog == nil {
		return nil
	}
	return d.accessLog.Sync(ctx)
}

// closeAccessLog writes and syncs what is left.
func (d *daemon) closeAccessLog() error {
	if d.accessLog == nil {
		return nil
	}
	return d.accessLog.Close()
}
