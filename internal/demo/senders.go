package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
)

// sender is a path into the daemon that promises nothing.
type sender interface {
	send(line string) error // one record; blocks while the daemon does not read
	close()
}

type connSender struct {
	conn   net.Conn
	before string // of each record
	after  string
	buf    []byte
}

func (s *connSender) send(line string) error {
	s.buf = append(append(append(s.buf[:0], s.before...), line...), s.after...)
	_, err := s.conn.Write(s.buf)
	return err
}

func (s *connSender) close() { _ = s.conn.Close() } // nothing is buffered on this side

// dialSender connects to the socket of o's kind.
func dialSender(o FeedOptions) (sender, error) {
	tag := fmt.Sprintf("demo-%s-%d", o.Kind, o.ID)
	switch o.Kind {
	case "native":
		c, err := net.Dial("unixgram", filepath.Join(o.Run, config.NativeSocket))
		return &connSender{conn: c, before: "PRIORITY=6\nSYSLOG_IDENTIFIER=" + tag + "\nMESSAGE=", after: "\n"}, err
	case "syslog":
		c, err := net.Dial("unixgram", filepath.Join(o.Run, config.SyslogSocket))
		return &connSender{conn: c, before: "<14>" + tag + ": "}, err
	case "stdout":
		c, err := net.Dial("unix", filepath.Join(o.Run, config.StdoutSocket))
		if err != nil {
			return nil, err
		}
		_, err = fmt.Fprintf(c, "%s\n\n6\n0\n0\n0\n0\n", tag)
		return &connSender{conn: c, after: "\n"}, err
	}
	return nil, fmt.Errorf("no such path: %q", o.Kind)
}

// httpCallers is how many requests one HTTP feeder has under way at once: one
// sync answers all of them.
const httpCallers = 16

// posters are the callers of one HTTP feeder.
type posters struct {
	feeder *feeder
	addr   string
	client *http.Client
	cancel context.CancelFunc // ends the requests of all
	stop   chan struct{}      // closed: no more requests

	mu    sync.Mutex // guards feeder and first
	first error
}

// runHTTP posts records one by one from httpCallers callers, each waiting for
// the answer that its record is synced.
func (f *feeder) runHTTP(ctx context.Context, addr string, commands <-chan string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpCallers}}
	defer client.CloseIdleConnections()
	c := &posters{feeder: f, addr: addr, client: client, cancel: cancel, stop: make(chan struct{})}
	var wg sync.WaitGroup
	for range httpCallers {
		wg.Go(func() { c.post(ctx) })
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	select {
	case _, ok := <-commands: // during a run the only one is stop
		if !ok {
			cancel()
			<-finished
			return nil
		}
		close(c.stop)
		<-finished
		return c.first
	case <-finished:
	}
	if c.first == nil {
		c.first = ctx.Err()
	}
	var refused *statusError
	if errors.As(c.first, &refused) {
		return c.first
	}
	return &goneError{c.first}
}

// post posts until there is no more to be posted, or until one of all callers
// has met an error.
func (c *posters) post(ctx context.Context) {
	for {
		select {
		case <-c.stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		c.mu.Lock()
		r := c.feeder.record()
		err := c.feeder.say("sent %d\n", c.feeder.next)
		c.mu.Unlock()
		var took time.Duration
		if err == nil {
			took, err = post(ctx, c.client, c.addr, r)
		}
		c.mu.Lock()
		if err == nil {
			err = c.feeder.say("ack %d %d\n", r.seq, took.Microseconds())
		}
		if err != nil && c.first == nil {
			c.first = err
		}
		c.mu.Unlock()
		if err != nil {
			c.cancel() // the others' requests end too
			return
		}
	}
}

// statusError is an answer other than the acknowledgement asked for.
type statusError struct{ status, body string }

func (e *statusError) Error() string { return "POST /ingest answered " + e.status + ": " + e.body }

// post sends r and returns how long the answer took.
func post(ctx context.Context, client *http.Client, addr string, r record) (time.Duration, error) {
	body, err := json.Marshal(map[string]string{"message": r.encode(), "level": "info"})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/ingest?ack=synced", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close() // read to its end
	if err != nil {
		return 0, err
	}
	var a struct {
		Accepted int    `json:"accepted"`
		Ack      string `json:"ack"`
	}
	if resp.StatusCode/100 != 2 || json.Unmarshal(answer, &a) != nil || a.Accepted != 1 || a.Ack != "synced" {
		return 0, &statusError{resp.Status, string(bytes.TrimSpace(answer))}
	}
	return time.Since(began), nil
}
