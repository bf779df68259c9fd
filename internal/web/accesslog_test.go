package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// fakeLog keeps lines; waits are answered by wait, in turn.
type fakeLog struct {
	mu     sync.Mutex
	lines  []string
	refuse error
	wait   func(n int) error // of wait n = 1, 2, …; nil: it is synced
	waits  int
}

func (l *fakeLog) Append(_ context.Context, line []byte) (linelog.Pos, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return 0, l.refuse
	}
	l.lines = append(l.lines, string(line))
	return linelog.Pos(len(l.lines)), nil
}

func (l *fakeLog) Wait(_ context.Context, pos linelog.Pos, level settle.Level) error {
	l.mu.Lock()
	l.waits++
	n, wait := l.waits, l.wait
	bad := level != settle.Synced || pos != linelog.Pos(len(l.lines))
	l.mu.Unlock()
	if bad {
		return errors.New("not the line, or not the level")
	}
	if wait == nil {
		return nil
	}
	return wait(n)
}

// logging is a configuration with an access log.
func logging(l AccessLog, synced bool) Config {
	c := config(&fakeSink{})
	c.AccessLog, c.AccessLogSynced = l, synced
	return c
}

// Each request is one line, whatever became of it.
func TestAccessLogLines(t *testing.T) {
	when := regexp.MustCompile(`\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]`)
	for _, tt := range []struct {
		method, target, host, peer, body, want string
	}{
		{"GET", "/ping", "localhost", "127.0.0.1:4711", "", `127.0.0.1 - - [] "GET /ping HTTP/1.1" 200 5`},
		{"HEAD", "/ping?x=1", "localhost", "[::1]:4711", "", `::1 - - [] "HEAD /ping?x=1 HTTP/1.1" 200 -`},
		{"GET", "/ping", "localhost", "@", "", `unix: - - [] "GET /ping HTTP/1.1" 200 5`},
		{"GET", "/none", "localhost", "10.0.0.1:1", "", `10.0.0.1 - - [] "GET /none HTTP/1.1" 404 LEN`},
		{"PUT", "/ping", "localhost", "10.0.0.1:1", "", `10.0.0.1 - - [] "PUT /ping HTTP/1.1" 405 LEN`},
		{"GET", "/ping", "evil.example", "10.0.0.1:1", "", `10.0.0.1 - - [] "GET /ping HTTP/1.1" 403 LEN`},
		{"POST", "/ingest", "localhost", "10.0.0.1:1", "{one}\n", `10.0.0.1 - - [] "POST /ingest HTTP/1.1" 200 LEN`},
		{"POST", "/ingest", "localhost", "10.0.0.1:1", "one\n", `10.0.0.1 - - [] "POST /ingest HTTP/1.1" 400 LEN`},
	} {
		t.Run(tt.method+" "+tt.target, func(t *testing.T) {
			log := &fakeLog{}
			r := httptest.NewRequest(tt.method, tt.target, strings.NewReader(tt.body))
			r.Host, r.RemoteAddr = tt.host, tt.peer
			r.Header.Set("Content-Type", "application/x-ndjson")
			w := httptest.NewRecorder()
			New(logging(log, false)).Handler().ServeHTTP(w, r)
			want := strings.Replace(tt.want, "LEN", strconv.Itoa(w.Body.Len()), 1) + "\n"
			if len(log.lines) != 1 {
				t.Fatalf("%d lines: %q", len(log.lines), log.lines)
			}
			if got := when.ReplaceAllString(log.lines[0], "[]"); got != want {
				t.Errorf("got  %swant %s", got, want)
			}
			if log.waits != 0 {
				t.Error("a request has waited for a sync under the policy auto")
			}
		})
	}
}

// What a client chooses cannot end the quotes or the line.
func TestAccessLogEscapes(t *testing.T) {
	log := &fakeLog{}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RequestURI = "/a\"b\\c\nd\x7fé"
	New(logging(log, false)).Handler().ServeHTTP(httptest.NewRecorder(), r)
	if want := `"GET /a\"b\\c\x0ad\x7f\xc3\xa9 HTTP/1.1"`; len(log.lines) != 1 || !strings.Contains(log.lines[0], want) {
		t.Errorf("%q, want %s", log.lines, want)
	}
}

// strictWriter fails the test if anything of the answer comes while it is locked.
type strictWriter struct {
	*httptest.ResponseRecorder
	t      *testing.T
	locked *bool
}

func (w strictWriter) WriteHeader(status int) {
	if *w.locked {
		w.t.Error("the answer leaves before its line is synced")
	}
	w.ResponseRecorder.WriteHeader(status)
}

func (w strictWriter) Write(p []byte) (int, error) {
	if *w.locked {
		w.t.Error("the answer leaves before its line is synced")
	}
	return w.ResponseRecorder.Write(p)
}

// ask sends a request to a server whose access log is synced before each answer.
func ask(t *testing.T, log *fakeLog, path string) (*Server, *httptest.ResponseRecorder) {
	t.Helper()
	locked := log.refuse == nil
	wait := log.wait
	log.wait = func(n int) error {
		var err error
		if wait != nil {
			err = wait(n)
		}
		locked = errors.Is(err, linelog.ErrSync) && n == 1 // another wait may succeed
		return err
	}
	s := New(logging(log, true))
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost"
	s.Handler().ServeHTTP(strictWriter{w, t, &locked}, r)
	return s, w
}

// Under the policy all nothing of an answer leaves before its line is synced.
func TestAnswerWaitsForItsLine(t *testing.T) {
	for _, path := range []string{"/ping", "/", "/metrics", "/none"} {
		log := &fakeLog{}
		if _, w := ask(t, log, path); w.Body.Len() == 0 || log.waits != 1 || len(log.lines) != 1 {
			t.Errorf("%s: %d %q, %d waits, lines %q", path, w.Code, w.Body, log.waits, log.lines)
		}
	}
}

// PONG says that the line is synced, so it is not said when it is not; other
// answers say what their paths promise.
func TestAnswerWhenTheLineIsNotSynced(t *testing.T) {
	always := func(err error) func(int) error { return func(int) error { return err } }
	once := func(n int) error {
		if n == 1 {
			return linelog.ErrSync // the second wait is for a fresh file
		}
		return nil
	}
	for _, tt := range []struct {
		name, path string
		wait       func(int) error
		refuse     error
		status     int
		failed     uint64
	}{
		{"synced into a fresh file", "/ping", once, nil, 200, 0},
		{"sync fails", "/ping", always(linelog.ErrSync), nil, 503, 1},
		{"disk full", "/ping", always(errors.New("no space left")), nil, 503, 1},
		{"dropped", "/ping", nil, linelog.ErrDropped, 503, 0}, // which the log counts
		{"sync fails, another page", "/healthz", always(linelog.ErrSync), nil, 200, 1},
		{"dropped, another page", "/healthz", nil, linelog.ErrDropped, 200, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, w := ask(t, &fakeLog{wait: tt.wait, refuse: tt.refuse}, tt.path)
			if w.Code != tt.status || tt.status != 200 && strings.Contains(w.Body.String(), "PONG") {
				t.Errorf("%d %q, want %d", w.Code, w.Body, tt.status)
			}
			if n := countOf(s, "access_log", "failed"); n != tt.failed {
				t.Errorf("%d failed waits are counted, want %d", n, tt.failed)
			}
		})
	}
}

func countOf(s *Server, name, reason string) (n uint64) {
	s.EachCount(func(c Count) {
		if c.Name == name && c.Reason == reason {
			n = c.N
		}
	})
	return n
}

// A dropped line is no reason not to answer under the other policies.
func TestDroppedLine(t *testing.T) {
	w := httptest.NewRecorder()
	New(logging(&fakeLog{refuse: linelog.ErrDropped}, false)).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/ping", nil))
	if w.Code != 200 || w.Body.String() != "PONG\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// A long answer, a flushed one and one of a handler that panics go the same way.
func TestRecord(t *testing.T) {
	long := strings.Repeat("0123456789", 2*maxHeld/10)
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // the body
		line    string // the end of the line
	}{
		{"long", func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(long); i += 1000 {
				io.WriteString(w, long[i:min(i+1000, len(long))]) //nolint:errcheck // a recorder
			}
		}, long, "200 " + strconv.Itoa(len(long))},
		{"flushed", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "one ") //nolint:errcheck // a recorder
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			io.WriteString(w, "two") //nolint:errcheck // a recorder
		}, "one two", "200 7"},
		{"early hints", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		}, "", "418 -"},
		{"empty", func(http.ResponseWriter, *http.Request) {}, "", "200 -"},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", "- -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &fakeLog{}
			s := New(logging(log, true))
			h := s.accessed(tt.handler)
			for range 2 { // the second time with what the first has left
				w := httptest.NewRecorder()
				func() {
					defer func() {
						if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
							panic(p)
						}
					}()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				}()
				if w.Body.String() != tt.want {
					t.Errorf("%d bytes, want %d", w.Body.Len(), len(tt.want))
				}
			}
			var ends []string
			for _, line := range log.lines {
				_, end, _ := strings.Cut(line, `HTTP/1.1" `)
				ends = append(ends, end)
			}
			if diff := cmp.Diff([]string{tt.line + "\n", tt.line + "\n"}, ends); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
