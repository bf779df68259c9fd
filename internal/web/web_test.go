package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/sockdir"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSink keeps messages; it fails from the given line or level on.
type fakeSink struct {
	mu       sync.Mutex
	messages []string
	waits    []settle.Level
	room     int // entries it takes before it fails with refuse
	refuse   error
	waitErr  map[settle.Level]error
}

func (s *fakeSink) TryAppend(entries []entry.Entry) (journal.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		if s.refuse != nil && len(s.messages) >= s.room {
			return journal.Ticket{}, s.refuse
		}
		m, _ := entries[i].Get("MESSAGE")
		from, _ := entries[i].Get("_SOURCE_ADDR")
		s.messages = append(s.messages, string(m)+"@"+string(from))
	}
	return journal.Ticket{}, nil
}

func (s *fakeSink) Wait(_ context.Context, _ journal.Ticket, l settle.Level) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, l)
	return s.waitErr[l]
}

func (s *fakeSink) last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages
}

// fakeDecoder takes {TEXT} as the message TEXT, and drops {-}.
type fakeDecoder struct{ peer string }

func (d fakeDecoder) Decode(line []byte) (entry.Entry, error) {
	if !bytes.HasPrefix(line, []byte("{")) {
		return entry.Entry{}, errors.New("want an object")
	}
	if string(line) == "{-}" {
		return entry.Entry{}, nil
	}
	return entry.Entry{Fields: []entry.Field{
		entry.Field("MESSAGE=" + strings.Trim(string(line), "{}")),
		entry.Field("_SOURCE_ADDR=" + d.peer),
	}}, nil
}

func config(s Sink) Config {
	return Config{Sink: s, NewDecoder: func(peer string) Decoder { return fakeDecoder{peer} }}
}

func gz(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		panic(err)
	}
	z.Close()
	return b.String()
}

// TestLiveStream sends a body that never ends: each line is appended when it
// comes, not when the body is complete.
func TestLiveStream(t *testing.T) {
	sink := &fakeSink{}
	appended := make(chan string)
	cfg := config(tellingSink{sink, appended})
	srv := httptest.NewServer(New(cfg).Handler())
	defer srv.Close()
	body, in := io.Pipe()
	done := make(chan string)
	go func() {
		resp, err := http.Post(srv.URL+"/ingest", "application/x-ndjson", body)
		if err != nil {
			done <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		done <- string(b)
	}()
	for _, line := range []string{"one", "two"} {
		if _, err := io.WriteString(in, "{"+line+"}\n"); err != nil {
			t.Fatal(err)
		}
		if got := <-appended; got != line+"@127.0.0.1" {
			t.Errorf("appended %s, want %s", got, line)
		}
	}
	in.Close()
	if got, want := <-done, `{"accepted":2,"ack":"appended"}`+"\n"; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	http.DefaultClient.CloseIdleConnections()
}

type tellingSink struct {
	*fakeSink
	appended chan<- string
}

func (s tellingSink) TryAppend(entries []entry.Entry) (journal.Ticket, error) {
	t, err := s.fakeSink.TryAppend(entries)
	kept := s.last()
	s.appended <- kept[len(kept)-1]
	return t, err
}

// pageCase is a request that is no line to keep.
type pageCase struct {
	name, method, target, host string
	header                     [2]string
	cfg                        Config
	status                     int
	body, allow                string
}

func pageCases() []pageCase {
	notReady := config(&fakeSink{})
	notReady.Ready = func() error { return errors.New("the disk is full") }
	ready := config(&fakeSink{})
	return []pageCase{
		{name: "ping", target: "/ping", cfg: ready, status: 200, body: "PONG\n"},
		{name: "health", target: "/healthz", cfg: notReady, status: 200, body: "ok\n"},
		{name: "ready", target: "/readyz", cfg: ready, status: 200, body: "ready\n"},
		{name: "not ready", target: "/readyz", cfg: notReady, status: 503, body: "the disk is full\n"},
		{name: "root", target: "/", cfg: ready, status: 200, body: pages + "\n"},
		{name: "nothing there", target: "/nope", cfg: ready, status: 404, body: "not here; " + pages + "\n"},
		{
			name: "get of ingest", target: "/ingest?ack=synced", host: "localhost:19531", cfg: ready, status: 405, allow: "POST",
			body: `{"accepted":0,"error":"GET is not for this path, POST sends lines: curl -H 'Content-Type: application/x-ndjson' --data-binary @FILE http://localhost:19531/ingest"}` + "\n",
		},
		{name: "post to ping", method: "POST", target: "/ping", cfg: ready, status: 405, allow: "GET, HEAD", body: "POST is not for this page: curl http://localhost/ping\n"},
		{name: "post to the root", method: "POST", target: "/", cfg: ready, status: 405, allow: "GET, HEAD", body: "POST is not for this page: curl http://localhost/\n"},
		{name: "head of ping", method: "HEAD", target: "/ping", cfg: ready, status: 200, body: "PONG\n"},
		{name: "address", target: "/ping", host: "[::1]:80", cfg: ready, status: 200, body: "PONG\n"},
		{name: "bare address", target: "/ping", host: "127.0.0.1", cfg: ready, status: 200, body: "PONG\n"},
		{name: "a name", target: "/ping", host: "evil.example:19531", cfg: ready, status: 403, body: "Host must be an address or localhost: http://127.0.0.1/ping\n"},
		{
			name: "a name at ingest", method: "POST", target: "/ingest", host: "evil.example:19531", cfg: ready, status: 403,
			body: `{"accepted":0,"error":"Host must be an address or localhost: http://127.0.0.1/ingest"}` + "\n",
		},
		{
			name: "another site's page", method: "POST", target: "/ingest", header: [2]string{"Sec-Fetch-Site", "cross-site"}, cfg: ready, status: 403,
			body: `{"accepted":0,"error":"a page of another site may not send here: use a program that is no browser, such as curl"}` + "\n",
		},
		{
			name: "another site's page elsewhere", method: "POST", target: "/ping", header: [2]string{"Sec-Fetch-Site", "cross-site"}, cfg: ready, status: 403,
			body: "a page of another site may not send here: use a program that is no browser, such as curl\n",
		},
		{
			name: "delete of ingest", method: "DELETE", target: "/ingest", cfg: ready, status: 405, allow: "POST",
			body: `{"accepted":0,"error":"DELETE is not for this path, POST sends lines: curl -H 'Content-Type: application/x-ndjson' --data-binary @FILE http://localhost/ingest"}` + "\n",
		},
	}
}

func TestPages(t *testing.T) {
	for _, tt := range pageCases() {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = "GET"
			}
			r := httptest.NewRequest(method, "http://localhost"+tt.target, nil)
			if tt.host != "" {
				r.Host = tt.host
			}
			if tt.header[0] != "" {
				r.Header.Set(tt.header[0], tt.header[1])
			}
			w := httptest.NewRecorder()
			New(tt.cfg).Handler().ServeHTTP(w, r)
			if w.Code != tt.status || w.Body.String() != tt.body {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body.String(), tt.status, tt.body)
			}
			if got := w.Header().Get("Allow"); got != tt.allow {
				t.Errorf("Allow %q, want %q", got, tt.allow)
			}
			for h := range w.Header() {
				if strings.HasPrefix(h, "Access-Control-") {
					t.Errorf("CORS header %s", h)
				}
			}
		})
	}
}

// TestServe ends with its context, on a Unix socket whose Host is not looked at.
func TestServe(t *testing.T) {
	path := filepath.Join(sockdir.New(t), "http")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	sink := &fakeSink{}
	go func() { done <- New(config(sink)).Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Post("http://any.name/ingest", "application/x-ndjson", strings.NewReader("{a}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if diff := cmp.Diff([]string{"a@"}, sink.last()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	resp, err = client.Post("http://any.name/ingest", "text/plain", strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if want := "--unix-socket " + path + " http://localhost/ingest"; resp.StatusCode != 415 || !strings.Contains(string(b), want) {
		t.Errorf("%d %s, want 415 with %s", resp.StatusCode, b, want)
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v", err)
	}
}
