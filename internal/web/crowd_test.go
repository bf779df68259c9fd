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

// Who is alone is never waited for, and a gather lasts a part of a long sync, or until
// a crowd that a short one is worth.
func TestPlanOfAGather(t *testing.T) {
	for _, tt := range []struct {
		name      string
		sent, due int
		sync      time.Duration
		want      int
		limit     time.Duration
	}{
		{"alone, long", 1, 0, 100 * time.Millisecond, 0, 0},
		{"alone, short", 1, 0, 100 * time.Microsecond, 0, 0},
		{"two, long", 2, 1, 100 * time.Millisecond, 3, 25 * time.Millisecond},
		{"few, short", 10, 5, 100 * time.Microsecond, 0, 0},
		{"many, short", 30, 10, 100 * time.Microsecond, 40, time.Millisecond},
		{"very many, short", 100, 50, 100 * time.Microsecond, 64, time.Millisecond},
		{"enough, short", 100, 64, 100 * time.Microsecond, 0, 0},
	} {
		var c crowd
		if want, limit := c.plan(tt.sent+tt.due, tt.sent, tt.due, tt.sync); want != tt.want || limit != tt.limit {
			t.Errorf("%s: %d for %s, want %d for %s", tt.name, want, limit, tt.want, tt.limit)
		}
	}
}

// A gather is for all clients and no more. After gathers in vain fewer syncs are gathered for, until one was not in vain.
func TestGathersInVain(t *testing.T) {
	var quick crowd // some have asked again while others were answered: nobody is there twice
	if want, _ := quick.plan(20, 20, 5, time.Second); want != 20 {
		t.Errorf("a gather for %d of 20 clients", want)
	}
	var c crowd
	gathers := 0
	for range 100 {
		if want, _ := c.plan(10, 10, 0, time.Second); want > 0 {
			gathers++
			c.result(0, 0, want)
		}
	}
	if gathers != 7 { // after 0, 1, 2, 4 … skipped
		t.Errorf("%d gathers of 100, want 7", gathers)
	}
	c.skip = 0
	c.result(0, 5, 10)
	if want, _ := c.plan(10, 10, 0, time.Second); want == 0 {
		t.Error("no gather after one that was not in vain")
	}
}

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
