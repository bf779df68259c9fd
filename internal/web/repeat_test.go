package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// fakeRequests says what is stored of every request.
type fakeRequests struct {
	n, aside  int
	err, sync error
}

func (q *fakeRequests) Stored(context.Context, entry.Field) (n, aside int, err error) {
	return q.n, q.aside, q.err
}

func (q *fakeRequests) Synchronize(context.Context) error { return q.sync }

// postKeys sends a request with the keys to s and returns the status, the
// Retry-After and the answer.
func postKeys(s *Server, ack, body string, keys ...string) string {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:19531/ingest?ack="+ack, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header[keyHeader] = keys
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return fmt.Sprintf("%d%s %s", w.Code, w.Header().Get("Retry-After"), strings.TrimSpace(w.Body.String()))
}

func TestKeys(t *testing.T) {
	cfg := config(&fakeSink{})
	cfg.Requests = &fakeRequests{}
	s := New(cfg)
	const bad = `400 {"accepted":0,"error":"the Idempotency-Key header must be there once, with 1 to 128 visible ASCII characters"}`
	const good = `200 {"accepted":1,"ack":"appended"}`
	for _, tt := range []struct {
		keys []string
		want string
	}{
		{[]string{"k"}, good},
		{[]string{`"8e03978e-40d5-43e8-bc93-6894a57f9324"`}, good},
		{[]string{"!~="}, good},
		{[]string{strings.Repeat("k", 128)}, good},
		{[]string{strings.Repeat("k", 129)}, bad},
		{[]string{""}, bad},
		{[]string{"a b"}, bad},
		{[]string{"a\tb"}, bad},
		{[]string{"a\x7f"}, bad},
		{[]string{"ä"}, bad},
		{[]string{"a", "b"}, bad},
	} {
		if got := postKeys(s, "", "{a}", tt.keys...); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.keys, got, tt.want)
		}
	}
	if got := postKeys(New(config(&fakeSink{})), "", "{a}", "k"); got != bad {
		t.Errorf("a server without Requests: %s", got)
	}
	if len(s.tries.byKey) != 0 {
		t.Errorf("%d keys are remembered", len(s.tries.byKey))
	}
}

// TestRepeat: what is stored of a request is not appended again, and is part of the
// answer; what cannot be known is no ack.
func TestRepeat(t *testing.T) {
	for _, tt := range []struct {
		name     string
		requests fakeRequests
		ack      string
		body     string
		want     string
		kept     []string
	}{
		{"new", fakeRequests{}, "synced", "{a}\n{-}\n{b}\n", `200 {"accepted":2,"dropped":1,"ack":"synced"}`, []string{"a@192.0.2.1", "b@192.0.2.1"}},
		{"half", fakeRequests{n: 1}, "synced", "{a}\n{-}\n{b}\n", `200 {"accepted":2,"dropped":1,"ack":"synced"}`, []string{"b@192.0.2.1"}},
		{"whole", fakeRequests{n: 2}, "appended", "{a}\n{-}\n{b}\n", `200 {"accepted":2,"dropped":1,"ack":"appended"}`, nil},
		{"bad line behind", fakeRequests{n: 1}, "appended", "{a}\n{b}\nc\n", `400 {"accepted":2,"ack":"appended","error":"line 3: want an object","line":3}`, []string{"b@192.0.2.1"}},
		{"bad line within", fakeRequests{n: 2}, "appended", "{a}\nc\n{b}\n", `400 {"accepted":1,"ack":"appended","error":"line 2: want an object","line":2}`, nil},
		{"shorter", fakeRequests{n: 2}, "synced", "{a}\n", `422 {"accepted":0,"error":"another request has had this Idempotency-Key: its entries were 2, here 1"}`, nil},
		{"cannot look", fakeRequests{err: syscall.EMFILE}, "appended", "{a}\n", `5031 {"accepted":0,"error":"look for an earlier try of this request: too many open files"}`, nil},
		{"aside", fakeRequests{n: 2, aside: 1}, "synced", "{a}\n{b}\n", `500 {"accepted":2,"ack":"appended","error":"wait until synced: entries of an earlier try that are in a file that was set aside, or are gone: 1"}`, nil},
		{"aside, appended", fakeRequests{n: 2, aside: 1}, "appended", "{a}\n{b}\n", `200 {"accepted":2,"ack":"appended"}`, nil},
		{"sync fails", fakeRequests{n: 1, sync: syscall.EIO}, "synced", "{a}\n{b}\n", `500 {"accepted":2,"ack":"appended","error":"wait until synced: input/output error"}`, []string{"b@192.0.2.1"}},
		{"sync fails, nothing old", fakeRequests{sync: syscall.EIO}, "synced", "{a}\n", `200 {"accepted":1,"ack":"synced"}`, []string{"a@192.0.2.1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink := &fakeSink{}
			cfg := config(sink)
			cfg.Requests = &tt.requests
			s := New(cfg)
			if diff := cmp.Diff(tt.want, postKeys(s, tt.ack, tt.body, "k")); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.kept, sink.last()); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if len(s.tries.byKey) != 0 {
				t.Errorf("%d keys are remembered", len(s.tries.byKey))
			}
		})
	}
}

// TestUnwrittenTries: while what a try has left is not in a file, the next one
// waits for it and appends nothing. Such keys are bounded in number, and forgotten
// once it is.
func TestUnwrittenTries(t *testing.T) {
	sink := &fakeSink{waitErr: map[settle.Level]error{settle.Appended: errors.New("write: input/output error")}}
	cfg := config(sink)
	cfg.Requests = &fakeRequests{}
	s := New(cfg)
	if got, want := postKeys(s, "", "{a}", "k"), `500 {"accepted":1,"ack":"accepted","error":"wait until appended: write: input/output error"}`; got != want {
		t.Errorf("first try: %s, want %s", got, want)
	}
	if got, want := postKeys(s, "", "{a}", "k"), `500 {"accepted":0,"error":"an earlier try of this request: wait until appended: write: input/output error"}`; got != want {
		t.Errorf("second try: %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"a@192.0.2.1"}, sink.last()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	for i := range maxTries {
		postKeys(s, "", "{a}", fmt.Sprint(i))
	}
	const full = `5031 {"accepted":0,"error":"too many requests with an Idempotency-Key are not written yet: send again later"}`
	if got := postKeys(s, "", "{a}", "more"); got != full || len(s.tries.byKey) != maxTries {
		t.Errorf("%d keys, then %s; want %d, %s", len(s.tries.byKey), got, maxTries, full)
	}
	sink.mu.Lock()
	sink.waitErr = nil
	sink.mu.Unlock()
	if got, want := postKeys(s, "", "{a}", "more"), `200 {"accepted":1,"ack":"appended"}`; got != want || len(s.tries.byKey) != 0 {
		t.Errorf("%d keys, %s; want none, %s", len(s.tries.byKey), got, want)
	}
}

// TestTwoTriesAtATime: the second of two is refused until the first is answered.
func TestTwoTriesAtATime(t *testing.T) {
	sink := &fakeSink{}
	cfg := config(sink)
	cfg.Requests = &fakeRequests{}
	s := New(cfg)
	if _, refused := s.tries.begin("k"); refused != nil {
		t.Fatal(refused.err)
	}
	if got, want := postKeys(s, "", "{a}", "k"), `4091 {"accepted":0,"error":"a request with this Idempotency-Key is being taken: send again when it is answered"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.tries.end("k", nil)
	if got, want := postKeys(s, "", "{a}", "k"), `200 {"accepted":1,"ack":"appended"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
