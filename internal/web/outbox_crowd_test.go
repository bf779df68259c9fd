package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/linelog"
)

// Clients that ask again as soon as they are answered share one sync, those of one half
// are not waited for by the other.
func TestCrowdBecomesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, rounds = 20, 10
		log := &slowLog{}
		log.wait = func(context.Context, linelog.Pos) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		box := newOutbox(t.Context(), New(logging(log, true)))
		begin := time.Now()
		var all sync.WaitGroup
		for client := range clients {
			c, peer := net.Pipe()
			late := newLateConn(c, box)
			all.Go(func() {
				if client >= clients/2 {
					time.Sleep(50 * time.Millisecond) // during the first sync
				}
				answer := make([]byte, 4)
				for range rounds {
					late.hold(linelog.Pos(log.lines.Add(1)), &http.Request{Method: "GET", URL: mustURL("/ping")})
					late.Write([]byte("PONG")) //nolint:errcheck // the answer tells
					if _, err := io.ReadFull(peer, answer); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if took, most := time.Since(begin), (rounds+2)*110*time.Millisecond; took > most {
			t.Errorf("%d answers each took %s, want at most %s", rounds, took, most)
		}
		box.end(t.Context())
	})
}
