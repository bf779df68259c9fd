package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// Uploads is where the entries of other machines go. Its methods are called
// concurrently.
type Uploads interface {
	// Append appends entries with their own times to what the peer has sent before.
	// It returns how many: all when err is nil. A *journal.EntryError that is no
	// journal.ErrOrder is about entries[n], which is left out. journal.ErrOrder
	// says that the entries are too much out of order, journal.ErrBufferFull means
	// later, ENOSPC and EDQUOT that the disk is full.
	Append(ctx context.Context, peer string, entries []entry.Entry) (journal.Ticket, int, error)
}

// Bounds of what uploads take.
const (
	// DefaultMaxEntry bounds an uploaded entry, in bytes.
	DefaultMaxEntry = 64 << 20
	// DefaultMaxUploads bounds the uploads in progress, which may last for ever.
	DefaultMaxUploads = 256
	// uploadBuffer is what each upload is read into, in bytes.
	uploadBuffer = 64 << 10
	// largeEntries bounds what all uploads together take for entries that are
	// larger than a small one, in bytes.
	largeEntries = 256 << 20
	// refusedGrace is how long what a refused client still sends is read, so that it
	// gets to read the answer.
	refusedGrace = time.Second
)

// unixPeer names who uploads on a Unix socket.
const unixPeer = "unix"

// uploads are the uploads in progress.
type uploads struct {
	memory atomic.Int64 // bytes reserved for large entries

	mu    sync.Mutex
	live  map[*http.ResponseController]bool
	ended bool
}

// EndUploads ends the uploads in progress as if their bodies were cut, and refuses
// others: each is answered with what was accepted. It does not wait.
func (s *Server) EndUploads() {
	s.uploads.mu.Lock()
	defer s.uploads.mu.Unlock()
	s.uploads.ended = true
	for rc := range s.uploads.live {
		rc.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // it has ended by itself
	}
}

// enter counts an upload in; false when there are too many, or none any more.
func (s *Server) enter(rc *http.ResponseController) bool {
	u := &s.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended || len(u.live) >= s.cfg.MaxUploads {
		return false
	}
	if u.live == nil {
		u.live = make(map[*http.ResponseController]bool)
	}
	u.live[rc] = true
	return true
}

// leave counts an upload out. What a refused one still sends is read for a moment.
func (s *Server) leave(rc *http.ResponseController, refused bool) {
	u := &s.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.live, rc)
	if refused && !u.ended {
		rc.SetReadDeadline(time.Now().Add(refusedGrace)) //nolint:errcheck // then it is closed at once
	}
}

// upload is systemd-journal-remote's endpoint: entries in the Journal Export
// Format, appended as they come, with answers that systemd-journal-upload
// understands.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	level, refused := s.level(r)
	if refused == nil {
		refused = s.uploadable(r)
	}
	if refused != nil {
		s.replyUpload(w, r, answer{}, refused)
		return
	}
	rc := http.NewResponseController(w)
	if !s.enter(rc) {
		s.counts.bufferFull.Add(1)
		s.replyUpload(w, r, answer{}, &refusal{status: http.StatusServiceUnavailable, err: errors.New("too many uploads at once, or the daemon ends: send again later")})
		return
	}
	var a answer
	var ticket journal.Ticket
	a.Accepted, a.Dropped, ticket, refused = s.receive(r)
	s.leave(rc, refused != nil)
	reached, err := s.wait(r.Context(), ticket, level)
	if err != nil && (refused == nil || a.Accepted > 0) {
		refused = s.unreached(err)
	}
	a.Ack = reached.String()
	s.replyUpload(w, r, a, refused)
}

// uploadable looks at the headers.
func (s *Server) uploadable(r *http.Request) *refusal {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != exportType {
		s.counts.badType.Add(1)
		return &refusal{status: http.StatusUnsupportedMediaType, err: words("Content-Type: " + exportType + " is required.")}
	}
	if !knownCoding(r.Header.Get("Content-Encoding")) {
		s.counts.badType.Add(1)
		return &refusal{status: http.StatusUnsupportedMediaType, err: errors.New("Content-Encoding: want one of zstd, lz4, xz, gzip, or none")}
	}
	return nil
}

// receive appends the entries of the body. It returns how many, how many were left
// out since no file can hold them, and the ticket of all appended.
func (s *Server) receive(r *http.Request) (n, dropped int, all journal.Ticket, refused *refusal) {
	body, err := decode(r.Header.Get("Content-Encoding"), r.Body)
	if err != nil {
		return 0, 0, all, s.cut(&metered{}, err)
	}
	defer body.Close()
	from := peer(r)
	if from == "" {
		from = unixPeer
	}
	in := &metered{r: body, memory: &s.uploads.memory}
	defer in.settle()
	reader := entry.NewExportReader(in, entry.ExportOptions{
		Buffer: uploadBuffer, Limits: entry.Limits{Field: int(s.cfg.MaxEntry), Entry: int(s.cfg.MaxEntry)},
	})
	var batch entry.ExportBatch
	for {
		err := reader.NextBatch(&batch)
		if err != nil {
			c := reader.Counts()
			dropped += int(c.Untimed + c.Empty)
			if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				refused = s.cut(in, err)
			}
			return n, dropped, all, refused
		}
		taken, bad, err := s.appendUpload(r.Context(), from, batch.Entries, &all)
		in.settle()
		n += taken
		dropped += bad
		s.counts.uploaded.Add(uint64(taken))
		s.counts.uploadedBytes.Add(uint64(in.take()))
		if err != nil {
			return n, dropped, all, s.notTaken(err)
		}
	}
}

// appendUpload appends entries but for those that no file can hold.
func (s *Server) appendUpload(ctx context.Context, from string, entries []entry.Entry, all *journal.Ticket) (n, dropped int, err error) {
	for i := range entries {
		p, _ := entries[i].Get("PRIORITY")
		entries[i].Urgent = len(p) == 1 && p[0] >= '0' && p[0] <= '2'
	}
	for {
		ticket, taken, err := s.cfg.Uploads.Append(ctx, from, entries)
		all.Join(ticket)
		n += taken
		var bad *journal.EntryError
		if err == nil || !errors.As(err, &bad) || errors.Is(err, journal.ErrOrder) {
			return n, dropped, err
		}
		entries = entries[taken+1:]
		dropped++
		s.counts.badLine.Add(1)
	}
}

// words are an answer of systemd-journal-remote's, as it says it.
type words string

func (w words) Error() string { return string(w) }

// cut is a stream that cannot be read to its end.
func (s *Server) cut(in *metered, err error) *refusal {
	var at *entry.ExportError
	errors.As(err, &at)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.counts.failed.Add(1)
		return &refusal{status: http.StatusServiceUnavailable, err: errors.New("the daemon ends: send the rest again")}
	case errors.Is(err, errMemory):
		s.counts.bufferFull.Add(1)
		return &refusal{status: http.StatusServiceUnavailable, err: err}
	case errors.Is(err, io.ErrUnexpectedEOF) && at != nil:
		s.counts.badLine.Add(1)
		return &refusal{status: http.StatusExpectationFailed, err: words(fmt.Sprintf("Premature EOF. %d bytes of trailing data not processed.", in.total-at.Offset))}
	case errors.Is(err, entry.ErrExportField), errors.Is(err, entry.ErrExportEntry):
		s.counts.tooLong.Add(1)
		return &refusal{status: http.StatusRequestEntityTooLarge, err: fmt.Errorf("%w: the limit is %d bytes an entry", err, s.cfg.MaxEntry)}
	default:
		s.counts.badLine.Add(1)
		return &refusal{status: http.StatusBadRequest, err: fmt.Errorf("read the body: %w", err)}
	}
}

// notTaken is an entry that was not appended.
func (s *Server) notTaken(err error) *refusal {
	switch {
	case errors.Is(err, journal.ErrOrder):
		s.counts.badLine.Add(1)
		return &refusal{status: http.StatusConflict, err: err}
	case errors.Is(err, journal.ErrBufferFull):
		s.counts.bufferFull.Add(1)
		return &refusal{status: http.StatusServiceUnavailable, err: fmt.Errorf("%w: send the rest again later", err)}
	case diskFull(err):
		s.counts.diskFull.Add(1)
		return &refusal{status: http.StatusInsufficientStorage, err: fmt.Errorf("the disk is full: send the rest again when there is space: %w", err)}
	default:
		s.counts.failed.Add(1)
		return &refusal{status: http.StatusServiceUnavailable, err: err}
	}
}

// exportType is the media type of the Journal Export Format.
const exportType = "application/vnd.fdo.journal"

// replyUpload answers in JSON, or in the words of systemd-journal-remote to who
// wants plain text, as systemd-journal-upload does.
func (s *Server) replyUpload(w http.ResponseWriter, r *http.Request, a answer, refused *refusal) {
	status, text := http.StatusAccepted, "OK."
	if refused != nil {
		status, a.Error = refused.status, refused.err.Error()
		text = a.Error
		if a.Accepted == 0 {
			a.Ack = "" // of nothing
		} else if status != http.StatusExpectationFailed {
			text += fmt.Sprintf(" (entries accepted: %d)", a.Accepted)
		}
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(s.cfg.RetryAfter.Seconds()))))
	}
	body := []byte(text)
	w.Header().Set("Content-Type", "text/plain")
	if !strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
		var err error
		if body, err = json.Marshal(a); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client may have gone
}

// notUpload answers other methods at /upload.
func (s *Server) notUpload(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	s.replyUpload(w, r, answer{}, &refusal{status: http.StatusMethodNotAllowed, err: fmt.Errorf("%s is not for this path, POST sends entries: journalctl -o export | curl -H 'Content-Type: %s' --data-binary @- %s", method(r), exportType, curlTarget(r, uploadPath))})
}

// diskFull reports whether err says that the disk, or a quota, is full.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
