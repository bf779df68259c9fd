package daemon

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/funnel"
	"github.com/tidemark-log/tidemark/internal/histogram"
	"github.com/tidemark-log/tidemark/internal/web"
)

// messageLines is the id of entries about files of clients.
const messageLines = "a6c1f0d27be94d7b8f53c7d1e0942b6e"

// openFunnel makes what writes the lines of AppendLines. No file is open yet.
func (d *daemon) openFunnel() {
	d.funnel = funnel.New(funnel.Config{
		Say:     func(text string) { d.store.Event(levelWarning, messageLines, text) },
		Observe: d.lineEffects.Of,
	})
}

// OpenLines implements control.Daemon.
func (d *daemon) OpenLines(ctx context.Context, from control.Peer, appending, repairing int) (control.Lines, error) {
	c, err := d.funnel.Open(ctx, from.UID, appending, repairing)
	if err != nil {
		return nil, err // not a nil client in an interface
	}
	return c, nil
}

// closeFunnel waits until all calls are answered, and writes and syncs what clients
// have sent. A file on a disk that does not answer keeps it only for drainFor.
func (d *daemon) closeFunnel(answered *sync.WaitGroup) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.drainFor)
	defer cancel()
	stop := context.AfterFunc(ctx, d.funnel.GiveUp)
	defer stop()
	done := make(chan struct{})
	go func() {
		answered.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	err := d.funnel.Close(ctx)
	if err == nil {
		<-done
		return nil
	}
	return fmt.Errorf("lines of clients: %w", err)
}

// lookAtFunnel adds what clients of AppendLines have brought.
func (d *daemon) lookAtFunnel(s *snapshot) {
	st := d.funnel.Stats()
	s.Counts = append(s.Counts,
		web.Count{Name: "funnel", Reason: "refused", N: st.Refused},
		web.Count{Name: "funnel", Reason: "lost", N: st.Lost},
	)
	s.funnel = web.FunnelStats{Files: st.Files, Clients: st.Clients, LogStats: web.LogStats{
		Lines: st.Lines, Unsynced: st.Unsynced, Syncs: st.Syncs, SyncErrors: st.SyncErrors, Buffered: st.Buffered,
	}}
	s.Funnel = &s.funnel
	effects := func(name string, h *histogram.Histogram) {
		s.Effects = append(s.Effects, web.Effect{Log: "funnel", Name: name, Counts: h.Counts()})
	}
	effects("write", &d.lineEffects.Write)
	effects("sync", &d.lineEffects.Sync)
}
