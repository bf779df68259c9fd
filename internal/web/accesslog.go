package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// AccessLog is where a line for each request goes. Its methods are called
// concurrently. linelog.Writer is one, with Options.Full set to Drop.
type AccessLog interface {
	// Append takes a line. It does not wait: a line without room is dropped, which
	// the log counts and says, and an error here.
	Append(ctx context.Context, line []byte) (linelog.Pos, error)
	// Wait returns nil once the line at pos has reached the level.
	Wait(ctx context.Context, pos linelog.Pos, l settle.Level) error
}

// accessed writes a line to the access log for each request that next answers, in
// the Common Log Format:
//
//	127.0.0.1 - - [01/Dec/2026:00:15:00 +0000] "GET /ping HTTP/1.1" 200 5
//
// The time is that of the request's headers, the size that of the body of the
// answer. A client on a Unix socket is "unix:".
type accessed struct {
	s       *Server
	next    http.Handler
	records sync.Pool // of *record: those not in use
	clock   atomic.Pointer[clfSecond]
}

func (s *Server) accessed(next http.Handler) http.Handler {
	if s.cfg.AccessLog == nil {
		return next
	}
	return &accessed{s: s, next: next, records: sync.Pool{New: func() any { return new(record) }}}
}

// ServeHTTP answers, and logs before the answer's end leaves. While the log's policy
// is all, nothing of the answer leaves before its line is synced, unless it has more
// than maxHeld bytes.
func (a *accessed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	rec, _ := a.records.Get().(*record)
	rec.w, rec.held = w, a.s.cfg.AccessLogSynced
	panics := true
	defer func() {
		if panics { // net/http cuts the connection
			a.s.cfg.AccessLog.Append(context.Background(), a.line(rec, r, begin)) //nolint:errcheck // counted by the log
		}
	}()
	a.next.ServeHTTP(rec, r)
	panics = false
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	if err := a.log(rec, r, begin); err != nil && rec.held && r.URL.Path == pingPath {
		rec.replace(http.StatusServiceUnavailable, unsyncedText(err))
	}
	rec.send()
	rec.reset()
	a.records.Put(rec)
}

// log appends the line of an answered request. If answers have to, this one waits for
// its sync: in the connection, else here.
func (a *accessed) log(rec *record, r *http.Request, begin time.Time) error {
	ctx := r.Context()
	pos, err := a.s.cfg.AccessLog.Append(ctx, a.line(rec, r, begin))
	if err != nil || !a.s.cfg.AccessLogSynced {
		return err
	}
	if c, ok := ctx.Value(lateKey{}).(*lateConn); ok && rec.held && c.hold(pos, r) {
		return nil
	}
	if err = waitSynced(ctx, a.s.cfg.AccessLog, pos); err != nil {
		a.s.counts.unlogged.Add(1)
	}
	return err
}

// line is the line of a request, valid until rec is used again.
func (a *accessed) line(rec *record, r *http.Request, begin time.Time) []byte {
	b := appendHost(rec.line[:0], r.RemoteAddr)
	b = append(b, " - - ["...)
	b = append(b, a.stamp(begin)...)
	b = append(b, `] "`...)
	b = appendEscaped(b, r.Method)
	b = append(b, ' ')
	b = appendEscaped(b, r.RequestURI)
	b = append(b, ' ')
	b = appendEscaped(b, r.Proto)
	b = append(b, `" `...)
	if rec.status == 0 {
		b = append(b, '-') // the handler gave up before it answered
	} else {
		b = strconv.AppendInt(b, int64(rec.status), 10)
	}
	b = append(b, ' ')
	if rec.size == 0 || r.Method == http.MethodHead {
		b = append(b, '-')
	} else {
		b = strconv.AppendInt(b, rec.size, 10)
	}
	rec.line = append(b, '\n')
	return rec.line
}

// clfSecond is a second and its text.
type clfSecond struct {
	unix int64
	text string
}

// stamp is t as the log has it; formatted once a second.
func (a *accessed) stamp(t time.Time) string {
	c := a.clock.Load()
	if c == nil || c.unix != t.Unix() {
		c = &clfSecond{t.Unix(), t.Format("02/Jan/2006:15:04:05 -0700")}
		a.clock.Store(c)
	}
	return c.text
}

// appendHost appends the address without its port.
func appendHost(b []byte, addr string) []byte {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return append(b, "unix:"...)
	}
	return append(b, strings.Trim(addr[:i], "[]")...)
}

// appendEscaped appends s with what could end the quotes or the line escaped, as
// Apache does.
func appendEscaped(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// maxHeld is how much of an answer is held back until its line is synced. All
// answers of the daemon are shorter but for /metrics of a great many counts.
const maxHeld = 64 << 10

// record sees what a handler answers, and holds it back if told to. It is a
// http.ResponseWriter; http.ResponseController works on it.
type record struct {
	w      http.ResponseWriter
	status int    // 0: none yet
	size   int64  // of the body so far
	held   bool   // nothing has been handed to w
	body   []byte // held back
	line   []byte // buffer of accessed.line
}

// Header implements http.ResponseWriter.
func (r *record) Header() http.Header { return r.w.Header() }

// Unwrap is what http.ResponseController looks for.
func (r *record) Unwrap() http.ResponseWriter { return r.w }

// WriteHeader implements http.ResponseWriter.
func (r *record) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		r.w.WriteHeader(status) // an informational one goes before the answer
		return
	}
	if r.status == 0 {
		r.status = status
	}
	if !r.held {
		r.w.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (r *record) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.size += int64(len(p))
	if r.held && len(r.body)+len(p) > maxHeld {
		r.send()
	}
	if r.held {
		r.body = append(r.body, p...)
		return len(p), nil
	}
	return r.w.Write(p)
}

// FlushError is what http.ResponseController calls to flush.
func (r *record) FlushError() error {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.send()
	return http.NewResponseController(r.w).Flush()
}

// replace puts another answer in the place of one that is held.
func (r *record) replace(status int, text string) {
	r.status, r.body = 0, r.body[:0]
	http.Error(r, text, status)
}

// send hands what is held to the connection.
func (r *record) send() {
	if !r.held {
		return
	}
	r.held = false
	r.w.WriteHeader(r.status)
	if len(r.body) > 0 {
		r.w.Write(r.body) //nolint:errcheck // the client may have gone
	}
}

// reset makes r fit for another request.
func (r *record) reset() {
	*r = record{body: r.body[:0], line: r.line[:0]}
}
