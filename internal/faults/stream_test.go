package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/settle"
)

// ledger holds what was sent and what was promised about it.
type ledger struct {
	mu       sync.Mutex
	n        int
	sent     map[string]bool         // perhaps there, once
	promised map[string]settle.Level // surely there, after what the level survives
	began    chan struct{}           // closed by the first promise
}

func newLedger() *ledger {
	return &ledger{sent: map[string]bool{}, promised: map[string]settle.Level{}, began: make(chan struct{})}
}

const recordMark = "record "

// record is a text that was not sent before, with size bytes more.
func (l *ledger) record(how string, size int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	text := fmt.Sprintf("%s%d by %s %s", recordMark, l.n, how, strings.Repeat("filler ", size/7))
	text = strings.TrimSpace(text)
	l.sent[text] = true
	return text
}

func (l *ledger) promise(level settle.Level, texts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(texts) > 0 && len(l.promised) == 0 {
		close(l.began)
	}
	for _, t := range texts {
		l.promised[t] = max(l.promised[t], level)
	}
}

// surely returns what must be there after a fault that a level survives.
func (l *ledger) surely(level settle.Level) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]bool{}
	for text, have := range l.promised {
		if have >= level {
			out[text] = true
		}
	}
	return out
}

// check compares what is there with what must be, and what may be.
func (l *ledger) check(t *testing.T, found map[string]int, must map[string]bool) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	bad := 0
	complain := func(format string, args ...any) {
		if bad++; bad <= 5 {
			t.Errorf(format, args...)
		}
	}
	for text := range must {
		if found[text] != 1 {
			complain("%.60q was promised and is there %d times", text, found[text])
		}
	}
	for text, n := range found {
		switch {
		case !strings.HasPrefix(text, recordMark):
		case !l.sent[text]:
			complain("%.60q was never sent like that", text)
		case n > 1:
			complain("%.60q is there %d times", text, n)
		}
	}
	if bad > 5 {
		t.Errorf("and %d more", bad-5)
	}
}

// stream sends to a daemon on every way at once until it is gone or ctx is done. A
// lane sends a bounded number of records, so that files stay small enough to be
// looked through a thousand times.
type stream struct {
	*ledger
	d      *daemon
	handed []string // given to a socket, for the next Synchronize; guarded by the ledger's mu
	client *http.Client
	lane   int // records, about, of each way
	r      *rand.Rand
	rMu    sync.Mutex
}

func newStream(l *ledger, d *daemon, r *rand.Rand) *stream {
	return &stream{ledger: l, d: d, r: r, lane: 150, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
}

// seeded is a generator for a stream.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// intN draws a number.
func (s *stream) intN(n int) int {
	s.rMu.Lock()
	defer s.rMu.Unlock()
	return s.r.IntN(n)
}

// size is that of a record's text: most are short.
func (s *stream) size() int {
	if s.intN(10) == 0 {
		return s.intN(6000)
	}
	return s.intN(200)
}

// run returns when all lanes have ended.
func (s *stream) run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var lanes sync.WaitGroup
	lane := func(step func(ctx context.Context) error) {
		lanes.Go(func() {
			for range s.lane {
				if ctx.Err() != nil || step(ctx) != nil {
					return
				}
			}
		})
	}
	for _, kind := range kinds {
		if conn, err := s.d.dial(kind); err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
			lane(func(context.Context) error { return s.socket(kind, conn) })
		}
	}
	for _, ack := range []string{"appended", "synced"} {
		for range 2 {
			lane(func(ctx context.Context) error { return s.ingest(ctx, ack) })
		}
		lane(func(ctx context.Context) error { return s.varlink(ctx, ack) })
	}
	lane(s.uploadOne)
	lane(s.synchronize)
	lanes.Wait()
}

func (s *stream) socket(kind string, conn *sender) error {
	text := s.record(kind, s.size())
	if err := conn.send(text); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed = append(s.handed, text)
	return nil
}

// synchronize promises what was handed over before the call.
func (s *stream) synchronize(ctx context.Context) error {
	s.mu.Lock()
	handed := s.handed
	s.handed = nil
	s.mu.Unlock()
	if _, err := s.d.call(ctx, control.MethodSynchronize, nil); err != nil {
		return err
	}
	s.promise(settle.Synced, handed...)
	return nil
}

// ingest posts some records. The answer says what level they have reached.
func (s *stream) ingest(ctx context.Context, ack string) error {
	var texts []string
	body := ""
	for range 1 + s.intN(4) {
		text := s.record("ingest "+ack, s.size())
		texts = append(texts, text)
		body += `{"message":"` + text + `"}` + "\n"
	}
	return s.post(ctx, "ingest?ack="+ack, "application/x-ndjson", body, texts)
}

// uploadOne uploads a record.
func (s *stream) uploadOne(ctx context.Context) error {
	text := s.record("upload", s.size())
	s.mu.Lock()
	at := s.n
	s.mu.Unlock()
	const stamps = "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=0123456789abcdef0123456789abcdef\nMESSAGE=%s\n\n"
	return s.post(ctx, "upload?ack=synced", "application/vnd.fdo.journal", fmt.Sprintf(stamps, 1_700_000_000_000_000+at, 1_000_000+at, text), []string{text})
}

func (s *stream) post(ctx context.Context, path, kind, body string, texts []string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.d.http+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return nil // its buffer is full
	}
	if resp.StatusCode >= 300 {
		return &answerError{resp.StatusCode, resp.Header, string(b)}
	}
	level := settle.Synced // what was asked for; /upload answers in words
	var answer struct {
		Ack string `json:"ack"`
	}
	if json.Unmarshal(b, &answer) == nil && answer.Ack != "" {
		if level, err = settle.ParseLevel(answer.Ack); err != nil {
			return err
		}
	}
	s.promise(level, texts...)
	return nil
}

func (s *stream) varlink(ctx context.Context, ack string) error {
	c, err := control.Dial(ctx, filepath.Join(s.d.run, config.ControlSocket))
	if err != nil {
		return err
	}
	defer c.Close()
	for range 5 {
		var texts []string
		var entries []control.Entry
		for range 1 + s.intN(3) {
			text := s.record("varlink "+ack, s.size())
			texts = append(texts, text)
			entries = append(entries, control.Entry{Fields: []string{"MESSAGE=" + text}})
		}
		done, err := c.Append(ctx, entries, ack)
		if err != nil {
			return err
		}
		level, err := settle.ParseLevel(done.Ack)
		if err != nil {
			return err
		}
		s.promise(level, texts...)
	}
	return nil
}

// settings draws a configuration of a policy: half of them with files that are
// soon full.
func settings(r *rand.Rand, policy string) []string {
	lines := []string{"Sync=" + policy}
	if r.IntN(2) == 0 {
		lines = append(lines, "SystemMaxFileSize=512K")
	}
	if r.IntN(2) == 0 {
		lines = append(lines, "Compress=no")
	}
	return lines
}

// policies that crash tests go through.
func policies() []string { return []string{"auto", "50ms", "1s", "all"} }

// after waits for a random time of up to most.
func after(r *rand.Rand, most time.Duration) {
	timer := time.NewTimer(time.Duration(r.Int64N(int64(most))))
	defer timer.Stop()
	<-timer.C
}

// answered are all who got an answer, for tests that would show nothing without any.
func (l *ledger) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.promised)
}

var errNothing = errors.New("nothing was acknowledged in any round: the test shows nothing")
