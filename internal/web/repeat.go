package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// keyHeader names a request, so that it can be repeated without storing anything
// twice.
const keyHeader = "Idempotency-Key"

// requestField is the name of the trusted field that each entry of a request with
// a key carries.
const requestField = "_TIDEMARK_REQUEST="

// maxKey is the longest key, in bytes.
const maxKey = 128

// maxTries bounds the keys that are remembered: of requests that are being taken,
// and of those whose entries are not in a file yet.
const maxTries = 4096

// sweepEvery is how many keys more have those that need no remembering looked for.
const sweepEvery = 64

// Requests finds what earlier tries of a request have left in the log. Its methods
// are called concurrently, and wait for no writer.
type Requests interface {
	// Stored counts the entries of the last 24 h with this field that any reader
	// sees; aside are those of them that no sync can make safe any more.
	Stored(ctx context.Context, field entry.Field) (n, aside int, err error)
	// Synchronize returns nil when everything appended before is synced.
	Synchronize(ctx context.Context) error
}

// try is one request with a key.
type try struct {
	field entry.Field
	had   int // entries that earlier tries have left: the first ones of the body
}

// another refuses a body of n entries that is shorter than what its earlier tries
// have left.
func (t *try) another(n int) *refusal {
	return &refusal{status: http.StatusUnprocessableEntity, err: fmt.Errorf(
		"another request has had this %s: its entries were %d, here %d", keyHeader, t.had, n)}
}

// tries are the keys that cannot be looked up in the log. The rest is in there.
type tries struct {
	mu sync.Mutex
	// byKey has nil for a request that is being taken, else the entries of one that
	// were not known to be in a file when it ended.
	byKey map[string]*journal.Ticket
}

// begin enters a request. left stands for what an earlier try has not seen in a
// file; nil: nothing.
func (ts *tries) begin(key string) (left *journal.Ticket, refused *refusal) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	left, known := ts.byKey[key]
	switch {
	case known && left == nil:
		return nil, &refusal{status: http.StatusConflict, err: errors.New("a request with this Idempotency-Key is being taken: send again when it is answered")}
	case !known && len(ts.byKey) >= maxTries:
		return nil, &refusal{status: http.StatusServiceUnavailable, err: errors.New("too many requests with an Idempotency-Key are not written yet: send again later")}
	}
	if ts.byKey == nil {
		ts.byKey = make(map[string]*journal.Ticket)
	}
	ts.byKey[key] = nil
	return left, nil
}

// end lets the next try of key begin. left is what is not known to be in a file;
// nil: nothing.
func (ts *tries) end(key string, left *journal.Ticket) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if left == nil {
		delete(ts.byKey, key)
		return
	}
	ts.byKey[key] = left
}

// sweep forgets the tries whose entries have come to a file since. It waits for
// nothing.
func (s *Server) sweep() {
	ended, end := context.WithCancel(context.Background())
	end()
	s.tries.mu.Lock()
	defer s.tries.mu.Unlock()
	if len(s.tries.byKey)%sweepEvery != 0 {
		return
	}
	for key, left := range s.tries.byKey {
		if left != nil && s.cfg.Sink.Wait(ended, *left, settle.Appended) == nil {
			delete(s.tries.byKey, key)
		}
	}
}

// key is the request's; empty when it has none.
func (s *Server) key(r *http.Request) (string, *refusal) {
	keys := r.Header.Values(keyHeader)
	if len(keys) == 0 {
		return "", nil
	}
	ok := len(keys) == 1 && len(keys[0]) > 0 && len(keys[0]) <= maxKey && s.cfg.Requests != nil
	for i := 0; ok && i < len(keys[0]); i++ {
		ok = keys[0][i] > ' ' && keys[0][i] <= '~'
	}
	if !ok {
		return "", &refusal{status: http.StatusBadRequest, err: fmt.Errorf("the %s header must be there once, with 1 to %d visible ASCII characters", keyHeader, maxKey)}
	}
	return keys[0], nil
}

// ingestOnce is ingest for a request with a key: entries that an earlier try has
// left are not appended again, and are answered for as if they were.
func (s *Server) ingestOnce(w http.ResponseWriter, r *http.Request, key string, level settle.Level) {
	s.sweep()
	left, refused := s.tries.begin(key)
	if refused != nil {
		s.reply(w, answer{}, refused)
		return
	}
	rest := left
	defer func() { s.tries.end(key, rest) }()
	// What is only in memory yet, no reader can find.
	if left != nil {
		if err := s.cfg.Sink.Wait(r.Context(), *left, settle.Appended); err != nil {
			s.reply(w, answer{}, s.unreached(fmt.Errorf("an earlier try of this request: wait until appended: %w", err)))
			return
		}
	}
	rest = nil
	t := &try{field: entry.Field(requestField + key)}
	var err error
	if t.had, _, err = s.cfg.Requests.Stored(r.Context(), t.field); err != nil {
		s.counts.failed.Add(1)
		s.reply(w, answer{}, &refusal{status: http.StatusServiceUnavailable, err: fmt.Errorf("look for an earlier try of this request: %w", err)})
		return
	}
	n, dropped, ticket, refused := s.take(w, r, t)
	rest = &ticket
	reached, err := s.wait(r.Context(), ticket, level)
	if reached >= settle.Appended {
		rest = nil
	}
	if err == nil && reached >= settle.Synced && t.had > 0 {
		if err = s.syncEarlier(r.Context(), t); err != nil {
			reached = settle.Appended
		}
	}
	if err != nil {
		failure := s.unreached(err)
		if refused == nil || n > 0 {
			refused = failure
		}
	}
	s.reply(w, answer{Accepted: n, Dropped: dropped, Ack: reached.String()}, refused)
}

// syncEarlier returns nil when what earlier tries have left is synced.
func (s *Server) syncEarlier(ctx context.Context, t *try) error {
	if err := s.cfg.Requests.Synchronize(ctx); err != nil {
		return fmt.Errorf("wait until synced: %w", err)
	}
	n, aside, err := s.cfg.Requests.Stored(ctx, t.field)
	switch {
	case err != nil:
		return fmt.Errorf("look for an earlier try of this request: %w", err)
	case aside > 0 || n < t.had:
		return fmt.Errorf("wait until synced: entries of an earlier try that are in a file that was set aside, or are gone: %d", max(aside, t.had-n))
	default:
		return nil
	}
}
