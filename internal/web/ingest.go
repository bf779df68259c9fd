package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"strconv"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// answer is the body of every reply of /ingest, errors included.
type answer struct {
	// Accepted counts the entries that were appended, Ack is the level that all
	// of them have reached; Dropped those that the configuration keeps out.
	Accepted int    `json:"accepted"`
	Dropped  int    `json:"dropped,omitempty"`
	Ack      string `json:"ack,omitempty"` // none in an error with which nothing was accepted
	Error    string `json:"error,omitempty"`
	// Line is the number of the line the error is about, from 1.
	Line int `json:"line,omitempty"`
}

// refusal is why the rest of a request was not taken.
type refusal struct {
	status int
	line   int // 0: not about a line
	err    error
}

// ingest takes the lines one after the other, each appended when it was read:
// a slow body is a live stream, and what stands before a bad line is kept. Then
// it waits once for all of them.
func (s *Server) ingest(w http.ResponseWriter, r *http.Request) {
	level, refused := s.level(r)
	if refused == nil {
		refused = s.acceptable(r)
	}
	key := ""
	if refused == nil {
		key, refused = s.key(r)
	}
	if refused != nil {
		s.reply(w, answer{}, refused)
		return
	}
	if key != "" {
		s.ingestOnce(w, r, key, level)
		return
	}
	n, dropped, ticket, refused := s.take(w, r, nil)
	reached, err := s.wait(r.Context(), ticket, level)
	if err != nil {
		failure := s.unreached(err)
		if refused == nil || n > 0 {
			refused = failure
		}
	}
	s.reply(w, answer{Accepted: n, Dropped: dropped, Ack: reached.String()}, refused)
}

// level is what the request asks for, or the least the policy asks for.
func (s *Server) level(r *http.Request) (settle.Level, *refusal) {
	asked := r.URL.Query().Get("ack")
	if asked == "" {
		return s.cfg.Least(), nil
	}
	l, err := settle.ParseLevel(asked)
	if err != nil {
		return 0, &refusal{status: http.StatusBadRequest, err: err}
	}
	if l >= settle.Replicated {
		return 0, &refusal{status: http.StatusBadRequest, err: errors.New("ack=replicated: no target to replicate to is configured")}
	}
	return max(l, s.cfg.Least()), nil
}

// acceptable looks at the headers.
func (s *Server) acceptable(r *http.Request) *refusal {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || (kind != "application/x-ndjson" && kind != "application/json") {
		s.counts.badType.Add(1)
		return &refusal{status: http.StatusUnsupportedMediaType, err: fmt.Errorf(
			"the body must be JSON lines: %s", curlLine(r))}
	}
	switch r.Header.Get("Content-Encoding") {
	case "", "identity", "gzip", "x-gzip":
	default:
		s.counts.badType.Add(1)
		return &refusal{status: http.StatusUnsupportedMediaType, err: fmt.Errorf(
			"unknown Content-Encoding: gzip -c FILE | curl -H 'Content-Type: application/x-ndjson' -H 'Content-Encoding: gzip' --data-binary @- %s", curlTarget(r, ingestPath))}
	}
	if r.ContentLength > s.cfg.MaxBody {
		return s.tooLarge(0)
	}
	return nil
}

func (s *Server) tooLarge(line int) *refusal {
	s.counts.tooLong.Add(1)
	if line > 0 {
		return &refusal{http.StatusRequestEntityTooLarge, line, fmt.Errorf("longer than the limit of %d bytes a line", s.cfg.MaxLine)}
	}
	return &refusal{http.StatusRequestEntityTooLarge, 0, fmt.Errorf("the body is longer than the limit of %d bytes", s.cfg.MaxBody)}
}

// take appends the lines of the body. It returns how many, how many the decoder
// has dropped, and the ticket of all appended. once is nil for a request without a
// key; what it had is counted and not appended again.
func (s *Server) take(w http.ResponseWriter, r *http.Request, once *try) (n, dropped int, all journal.Ticket, refused *refusal) {
	body := io.Reader(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	if r.Header.Get("Content-Encoding") == "gzip" || r.Header.Get("Content-Encoding") == "x-gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return 0, 0, all, s.broken(0, err)
		}
		body = &bounded{z, s.cfg.MaxBody}
	}
	decoder := s.cfg.NewDecoder(peer(r))
	buffer := s.reader(body)
	defer func() {
		buffer.Reset(nil) // keeps no request
		s.readers.Put(buffer)
	}()
	lines := lineReader{r: buffer, limit: s.cfg.MaxLine}
	for number := 1; ; number++ {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			if once != nil && n < once.had {
				return 0, 0, all, once.another(n)
			}
			return n, dropped, all, nil
		case errors.Is(err, errLineTooLong):
			return n, dropped, all, s.tooLarge(number)
		case err != nil:
			return n, dropped, all, s.broken(number, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		e, err := decoder.Decode(line)
		if err != nil {
			s.counts.badLine.Add(1)
			return n, dropped, all, &refusal{http.StatusBadRequest, number, err}
		}
		if len(e.Fields) == 0 {
			dropped++
			continue
		}
		if once != nil {
			if n < once.had {
				n++
				continue
			}
			e.Fields = append(e.Fields, once.field)
		}
		ticket, err := s.cfg.Sink.TryAppend([]entry.Entry{e})
		if err != nil {
			return n, dropped, all, s.unappended(number, err)
		}
		all.Join(ticket)
		n++
		s.counts.entries.Add(1)
		s.counts.bytes.Add(uint64(len(line)))
	}
}

// reader buffers a body; it goes back to s.readers.
func (s *Server) reader(body io.Reader) *bufio.Reader {
	if r, ok := s.readers.Get().(*bufio.Reader); ok {
		r.Reset(body)
		return r
	}
	return bufio.NewReaderSize(body, 64<<10)
}

// broken is a body that cannot be read to its end.
func (s *Server) broken(line int, err error) *refusal {
	var over *http.MaxBytesError
	if errors.As(err, &over) || errors.Is(err, errBodyTooLong) {
		return s.tooLarge(0)
	}
	s.counts.badLine.Add(1)
	return &refusal{http.StatusBadRequest, line, fmt.Errorf("read the body: %w", err)}
}

// unappended is a line that the sink did not take.
func (s *Server) unappended(line int, err error) *refusal {
	var bad *journal.EntryError
	switch {
	case errors.Is(err, journal.ErrTooLarge):
		s.counts.tooLong.Add(1)
		return &refusal{http.StatusRequestEntityTooLarge, line, errors.New("larger than a journal file can hold: split it, or raise SystemMaxFileSize=")}
	case errors.As(err, &bad):
		s.counts.badLine.Add(1)
		return &refusal{http.StatusBadRequest, line, bad.Err}
	case errors.Is(err, journal.ErrBufferFull):
		s.counts.bufferFull.Add(1)
		return &refusal{http.StatusServiceUnavailable, line, errors.New("the buffer is full: send again from this line on")}
	case diskFull(err):
		s.counts.diskFull.Add(1)
		return &refusal{http.StatusInsufficientStorage, line, errors.New("the disk is full: send again from this line on when there is space")}
	default:
		s.counts.failed.Add(1)
		return &refusal{http.StatusServiceUnavailable, line, err}
	}
}

// unreached is a level that what was taken has not reached.
func (s *Server) unreached(err error) *refusal {
	if diskFull(err) {
		s.counts.diskFull.Add(1)
		return &refusal{status: http.StatusInsufficientStorage, err: fmt.Errorf("%w: what was accepted waits in memory until there is space", err)}
	}
	s.counts.failed.Add(1)
	return &refusal{status: http.StatusInternalServerError, err: err}
}

// wait returns the highest level up to want that the ticket has reached.
func (s *Server) wait(ctx context.Context, t journal.Ticket, want settle.Level) (settle.Level, error) {
	reached := settle.Accepted
	for l := settle.Appended; l <= want; l++ {
		if err := s.cfg.Sink.Wait(ctx, t, l); err != nil {
			return reached, fmt.Errorf("wait until %s: %w", l, err)
		}
		reached = l
	}
	return reached, nil
}

// reply sends a, with the error and the status of refused if there is one.
func (s *Server) reply(w http.ResponseWriter, a answer, refused *refusal) {
	status := http.StatusOK
	if refused != nil {
		status, a.Line, a.Error = refused.status, refused.line, refused.err.Error()
		if a.Line > 0 {
			a.Error = "line " + strconv.Itoa(a.Line) + ": " + a.Error
		}
		if a.Accepted == 0 {
			a.Ack = "" // of nothing
		}
	}
	b, err := json.Marshal(a)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable || status == http.StatusConflict {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(s.cfg.RetryAfter.Seconds()))))
	}
	w.WriteHeader(status)
	w.Write(append(b, '\n')) //nolint:errcheck // the client may have gone
}

// peer is the address of the client without its port; empty on a Unix socket.
func peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

var (
	errBodyTooLong = errors.New("body too long")
	errLineTooLong = errors.New("line too long")
)

// bounded fails with errBodyTooLong behind n bytes: what a compressed body may
// become.
type bounded struct {
	r io.Reader
	n int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.n < 0 {
		return 0, errBodyTooLong
	}
	if int64(len(p)) > b.n+1 {
		p = p[:b.n+1]
	}
	n, err := b.r.Read(p)
	if b.n -= int64(n); b.n < 0 {
		return n, errBodyTooLong
	}
	return n, err
}

// lineReader cuts a body into lines of at most limit bytes.
type lineReader struct {
	r     *bufio.Reader
	limit int
	long  []byte // a line longer than the buffer of r
}

// next returns a line without its newline, valid until the next call. The last
// line may lack its newline; a body that breaks off in a line loses that line
// to the error.
func (l *lineReader) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.long)+len(part) > l.limit+1 {
			return nil, errLineTooLong
		}
		switch {
		case err == nil && len(l.long) == 0:
			return part[:len(part)-1], nil
		case err == nil:
			l.long = append(l.long, part...)
			return l.long[:len(l.long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			l.long = append(l.long, part...)
		case errors.Is(err, io.EOF):
			if l.long = append(l.long, part...); len(l.long) > 0 {
				return l.long, nil
			}
			return nil, io.EOF
		default:
			return nil, err
		}
	}
}
