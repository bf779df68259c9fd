// Package web is the HTTP door of the daemon: JSON lines come in at /ingest and
// are answered once they are as safe as the client asks for; so do the journals of
// other machines at /upload; /ping, /healthz, /readyz and /metrics tell how the
// daemon is. It reads no file and keeps no entry.
package web

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// Sink is where entries go. Its methods are called concurrently.
type Sink interface {
	// TryAppend appends all entries or none. An error that wraps
	// journal.ErrBufferFull means later, one that wraps syscall.ENOSPC that the
	// disk is full.
	TryAppend(entries []entry.Entry) (journal.Ticket, error)
	// Wait returns nil once what the ticket stands for has reached the level.
	Wait(ctx context.Context, t journal.Ticket, l settle.Level) error
}

// Decoder turns lines into entries. It is used by one request.
type Decoder interface {
	// Decode reads one JSON object. The entry is valid until the next call. One
	// without fields is not to be stored. An error says what is wrong with the
	// line.
	Decode(line []byte) (entry.Entry, error)
}

// Config of a Server. Sink and NewDecoder are required.
type Config struct {
	Sink Sink
	// NewDecoder makes the decoder of a request from peer, the address of a
	// client, empty on a Unix socket.
	NewDecoder func(peer string) Decoder
	// Uploads takes what other machines send. Nil: there is no /upload.
	Uploads Uploads
	// Least returns the level that every answer waits for at least: Synced while
	// the sync policy is all. Nil: Appended.
	Least func() settle.Level
	// Requests finds earlier tries of a request with an Idempotency-Key. Nil: such
	// requests are refused.
	Requests Requests
	// AccessLog gets a line for each request. Nil: there is none.
	AccessLog AccessLog
	// AccessLogSynced has no answer leave before its line is synced.
	AccessLogSynced bool
	// Stats is read by /metrics. Nil: only the door's own counts.
	Stats func() Stats
	// Ready returns why the daemon cannot take entries, nil when it can. Nil:
	// always ready.
	Ready func() error
	// MaxBody bounds a request's body in bytes, decompressed. 0: DefaultMaxBody.
	MaxBody int64
	// MaxLine bounds a line in bytes. 0: DefaultMaxLine.
	MaxLine int
	// MaxEntry bounds an uploaded entry in bytes. 0: DefaultMaxEntry.
	MaxEntry int64
	// MaxUploads bounds the uploads in progress; more are refused for now. 0:
	// DefaultMaxUploads.
	MaxUploads int
	// MaxConns bounds the open connections of each listener; more wait in the
	// kernel's queue. 0: DefaultMaxConns.
	MaxConns int
	// RetryAfter is what a client is told when the buffer is full. 0:
	// DefaultRetryAfter. It is told in whole seconds.
	RetryAfter time.Duration
}

// Defaults of Config.
const (
	DefaultMaxBody    = 64 << 20
	DefaultMaxLine    = 1 << 20
	DefaultMaxConns   = 1024
	DefaultRetryAfter = time.Second
)

// Times a client may take. A body may come slowly: it can be a live stream.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Grace is how long requests in progress may take when the server ends. After
// it their connections are closed.
const Grace = 5 * time.Second

// Server is the door. Build it with New.
type Server struct {
	cfg     Config
	handler http.Handler // the pages
	local   http.Handler // requests of a Unix socket
	remote  http.Handler // requests over TCP
	counts  counts
	uploads uploads
	tries   tries
	readers sync.Pool // of *bufio.Reader, which /ingest uses one at a time
}

// New builds a server; it listens on nothing yet.
func New(cfg Config) *Server {
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.MaxLine <= 0 {
		cfg.MaxLine = DefaultMaxLine
	}
	if cfg.MaxEntry <= 0 {
		cfg.MaxEntry = DefaultMaxEntry
	}
	if cfg.MaxUploads <= 0 {
		cfg.MaxUploads = DefaultMaxUploads
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = DefaultMaxConns
	}
	if cfg.RetryAfter <= 0 {
		cfg.RetryAfter = DefaultRetryAfter
	}
	if cfg.Least == nil {
		cfg.Least = func() settle.Level { return settle.Appended }
	}
	s := &Server{cfg: cfg}
	// A browser on this machine is no client: what another site's page sends is
	// refused, and nothing is ever answered with CORS headers.
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(s.foreignOrigin))
	s.handler = protection.Handler(s.routes())
	s.local = s.accessed(s.handler)
	s.remote = s.accessed(http.HandlerFunc(s.checkHost))
	return s
}

// Handler serves requests that came over TCP: Host must be an address or
// localhost.
func (s *Server) Handler() http.Handler { return s.remote }

// checkHost lets through what no name server can have brought here.
func (s *Server) checkHost(w http.ResponseWriter, r *http.Request) {
	if !localHost(r.Host) {
		s.counts.badHost.Add(1)
		s.refuse(w, r, http.StatusForbidden, "Host must be an address or localhost: "+curlTarget(r, r.URL.Path))
		return
	}
	s.handler.ServeHTTP(w, r)
}

// Serve answers on l until ctx is done. Then it closes l, waits up to Grace for
// requests in progress, and returns nil. On a Unix socket the Host header means
// nothing and is not looked at.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	handler := s.remote
	if l.Addr().Network() == "unix" {
		handler = s.local
	}
	hs := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	l = limit(l, s.cfg.MaxConns)
	end := func(context.Context) {}
	if s.cfg.AccessLog != nil && s.cfg.AccessLogSynced {
		box := newOutbox(ctx, s)
		l, end, hs.ConnContext = lateListener{l, box}, box.end, withLateConn
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), Grace)
		defer cancel()
		if hs.Shutdown(grace) != nil {
			hs.Close() //nolint:errcheck // what is left is closed either way
		}
		end(grace)
	})
	err := hs.Serve(l)
	if stop() {
		end(ctx)
		return err
	}
	<-ended
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// counts is what the door has seen.
type counts struct {
	entries    atomic.Uint64 // accepted by the sink
	bytes      atomic.Uint64 // of accepted lines
	badLine    atomic.Uint64
	tooLong    atomic.Uint64 // lines or bodies over their limit
	bufferFull atomic.Uint64
	diskFull   atomic.Uint64
	failed     atomic.Uint64 // the sink or a wait failed otherwise
	badType    atomic.Uint64
	badHost    atomic.Uint64
	badOrigin  atomic.Uint64 // sent by the page of another site
	unlogged   atomic.Uint64 // waits for the access log that failed

	uploaded, uploadedBytes atomic.Uint64 // as entries and bytes, at /upload
}

// EachCount tells what came in, by reason; the reason of accepted entries is
// "entries". It allocates nothing.
func (s *Server) EachCount(tell func(Count)) {
	c := &s.counts
	tell(Count{"http", "entries", c.entries.Load()})
	tell(Count{"http", "bytes", c.bytes.Load()})
	tell(Count{"http", "bad_line", c.badLine.Load()})
	tell(Count{"http", "too_long", c.tooLong.Load()})
	tell(Count{"http", "buffer_full", c.bufferFull.Load()})
	tell(Count{"http", "disk_full", c.diskFull.Load()})
	tell(Count{"http", "failed", c.failed.Load()})
	tell(Count{"http", "bad_type", c.badType.Load()})
	tell(Count{"http", "bad_host", c.badHost.Load()})
	tell(Count{"http", "bad_origin", c.badOrigin.Load()})
	if s.cfg.AccessLog != nil {
		tell(Count{"access_log", "failed", c.unlogged.Load()})
	}
	if s.cfg.Uploads != nil {
		tell(Count{"upload", "entries", c.uploaded.Load()})
		tell(Count{"upload", "bytes", c.uploadedBytes.Load()})
	}
}
