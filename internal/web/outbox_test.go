package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// slowLog has lines synced only when a Wait is through.
type slowLog struct {
	lines, synced atomic.Int64
	at            sync.Map                                         // position by what is asked for
	wait          func(ctx context.Context, pos linelog.Pos) error // nil: succeeds
}

func (l *slowLog) Append(_ context.Context, line []byte) (linelog.Pos, error) {
	pos := l.lines.Add(1)
	_, target, _ := strings.Cut(string(line), "GET ")
	target, _, _ = strings.Cut(target, " ")
	l.at.Store(target, pos)
	return linelog.Pos(pos), nil
}

func (l *slowLog) Wait(ctx context.Context, pos linelog.Pos, _ settle.Level) error {
	if l.synced.Load() >= int64(pos) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	upTo := l.lines.Load()
	for range 20 {
		runtime.Gosched() // an answer that does not wait would be there now
	}
	if l.wait != nil {
		if err := l.wait(ctx, pos); err != nil {
			return err
		}
	}
	l.synced.Store(max(upTo, l.synced.Load()))
	return nil
}

// door is a server on a socket whose answers wait for lines of a log.
type door struct {
	*Server
	t    *testing.T
	addr net.Addr
	stop context.CancelFunc
	done chan error
}

func newDoor(t *testing.T, log AccessLog, network string) *door {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	d := &door{Server: New(logging(log, true)), t: t, addr: l.Addr(), stop: stop, done: make(chan error, 1)}
	go func() { d.done <- d.Serve(ctx, l) }()
	return d
}

// end has the server end, and waits for it.
func (d *door) end() {
	d.t.Helper()
	d.stop()
	if err := <-d.done; err != nil {
		d.t.Error(err)
	}
}

// dial returns a connection and what reads from it.
func (d *door) dial() (net.Conn, *bufio.Reader) {
	d.t.Helper()
	c, err := net.Dial(d.addr.Network(), d.addr.String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

// request is one for path, as a client sends it.
func request(method, path string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
}

// answer reads an answer to method.
func readAnswer(r *bufio.Reader, method string) (int, string, error) {
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// No answer comes before its line is synced, with many clients whose answers share
// syncs.
func TestNoAnswerBeforeItsLine(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			log := &slowLog{}
			d := newDoor(t, log, network)
			var clients sync.WaitGroup
			for client := range 8 {
				c, r := d.dial()
				clients.Go(func() {
					for i := range 50 {
						target := fmt.Sprintf("/ping?%d.%d", client, i)
						io.WriteString(c, request("GET", target)) //nolint:errcheck // the answer tells
						status, body, err := readAnswer(r, "GET")
						synced := log.synced.Load()
						if status != http.StatusOK || body != "PONG\n" || err != nil {
							t.Errorf("request %d: %d %q %v", i, status, body, err)
							return
						}
						if pos, _ := log.at.Load(target); pos.(int64) > synced {
							t.Errorf("%s: answered before line %d is synced, the last synced is %d", target, pos, synced)
						}
					}
				})
			}
			clients.Wait()
			d.end()
			if n := log.lines.Load(); n != 400 {
				t.Errorf("%d lines, want 400", n)
			}
		})
	}
}

// Requests that come at once are answered in order, also behind one that is refused,
// and the last before the connection closes.
func TestPipelinedAnswersKeepTheirOrder(t *testing.T) {
	d := newDoor(t, &slowLog{}, "tcp")
	c, r := d.dial()
	paths := []string{"/ping", "/healthz", "/none", "/ping", "/metrics", "/healthz"}
	var all strings.Builder
	for _, p := range paths {
		all.WriteString(request("GET", p))
	}
	all.WriteString("GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	io.WriteString(c, all.String()) //nolint:errcheck // the answer tells
	for i, p := range append(paths, "/ping") {
		status, body, err := readAnswer(r, "GET")
		want := map[string]string{"/ping": "PONG\n", "/healthz": "ok\n", "/none": "not here", "/metrics": "# HELP"}[p]
		if !strings.HasPrefix(body, want) || err != nil {
			t.Errorf("answer %d: %d %q %v, want %s", i, status, body, err, want)
		}
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
	d.end()
}

// Without a sync PONG is not said on a connection either, and nothing follows what is
// said instead. Other pages are answered.
func TestConnectionWhoseLineIsNotSynced(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
		last         bool
	}{
		{"GET", "/ping", 503, "the access log cannot be synced: no space\n", true},
		{"HEAD", "/ping", 503, "", true},
		{"GET", "/healthz", 200, "ok\n", false},
	} {
		log := &slowLog{wait: func(context.Context, linelog.Pos) error { return errors.New("no space") }}
		d := newDoor(t, log, "tcp")
		c, r := d.dial()
		io.WriteString(c, request(tt.method, tt.path)) //nolint:errcheck // the answer tells
		if status, body, err := readAnswer(r, tt.method); status != tt.status || body != tt.body || err != nil {
			t.Errorf("%s %s: %d %q %v", tt.method, tt.path, status, body, err)
		}
		if tt.last {
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("%s %s: behind the answer: %v", tt.method, tt.path, err)
			}
		}
		if n := countOf(d.Server, "access_log", "failed"); n != 1 {
			t.Errorf("%s %s: %d failed waits are counted", tt.method, tt.path, n)
		}
		c.Close()
		d.end()
	}
}

// A line that goes to a fresh file after a failed sync is waited for once more.
func TestConnectionWhoseFileIsSetAside(t *testing.T) {
	failed := false
	log := &slowLog{wait: func(context.Context, linelog.Pos) error {
		if failed {
			return nil
		}
		failed = true
		return linelog.ErrSync
	}}
	d := newDoor(t, log, "tcp")
	c, r := d.dial()
	io.WriteString(c, request("GET", "/ping")) //nolint:errcheck // the answer tells
	if status, body, err := readAnswer(r, "GET"); status != http.StatusOK || err != nil || !failed {
		t.Errorf("%d %q %v", status, body, err)
	}
	d.end()
}

// An answer behind one that waits is not sent with it: their lines are not the same.
func TestAnswerBehindOneThatWaits(t *testing.T) {
	log := &slowLog{}
	box := newOutbox(t.Context(), New(logging(log, true)))
	c, peer := lateOver(t, box)
	ping := &http.Request{Method: "GET", URL: mustURL("/ping")}
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPONG\n")
	var next sync.WaitGroup
	log.wait = func(_ context.Context, pos linelog.Pos) error {
		if pos == 1 {
			next.Go(func() {
				c.hold(linelog.Pos(log.lines.Add(1)), ping)
				c.Write(answer) //nolint:errcheck // the answer tells
			})
			for range 100 {
				runtime.Gosched()
			}
		}
		return nil
	}
	c.hold(linelog.Pos(log.lines.Add(1)), ping)
	c.Write(answer) //nolint:errcheck // the answer tells
	r := bufio.NewReader(peer)
	for range 2 {
		if status, _, err := readAnswer(r, "GET"); status != http.StatusOK || err != nil {
			t.Errorf("%d %v", status, err)
		}
	}
	if n := log.synced.Load(); n != 2 {
		t.Errorf("both are answered, %d is synced", n)
	}
	next.Wait()
	box.end(t.Context())
}

// sendAll is one turn of b for a list.
func (b *outbox) sendAll(list []dueAnswer) {
	b.due, b.all = list, uint64(len(list))
	covered, err := b.wait(b.all)
	b.answer(covered, err)
}

// A sync that succeeds for the last of a group says nothing of a line that was lost
// with a file before.
func TestLostLineOfAGroup(t *testing.T) {
	box := &outbox{s: New(logging(lostLog{lost: 2}, true)), ctx: t.Context()}
	var list []dueAnswer
	var peers []net.Conn
	for pos := linelog.Pos(1); pos <= 3; pos++ {
		c, peer := lateOver(t, box)
		c.hold(pos, &http.Request{Method: "GET", URL: mustURL("/ping")})
		c.due, c.out = true, []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPONG\n")
		list, peers = append(list, dueAnswer{c, pos}), append(peers, peer)
	}
	box.sendAll(list)
	for i, want := range []int{200, 503, 200} {
		if status, _, err := readAnswer(bufio.NewReader(peers[i]), "GET"); status != want || err != nil {
			t.Errorf("line %d: %d %v, want %d", i+1, status, err, want)
		}
	}
}

// lostLog has lost one line.
type lostLog struct{ lost linelog.Pos }

func (l lostLog) Append(context.Context, []byte) (linelog.Pos, error) { return 0, nil }

func (l lostLog) Wait(_ context.Context, pos linelog.Pos, _ settle.Level) error {
	if pos == l.lost {
		return linelog.ErrSync
	}
	return nil
}

// Who does not read holds nobody up, and gets its answer whole when it does.
func TestClientWithoutRoom(t *testing.T) {
	box := &outbox{s: New(logging(&slowLog{}, true)), ctx: t.Context()}
	c, peer := lateOver(t, box)
	if err := c.Conn.(*net.UnixConn).SetWriteBuffer(4096); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcde\n"), maxHeld/16)
	c.hold(1, &http.Request{Method: "GET", URL: mustURL("/metrics")})
	c.due, c.out = true, bytes.Clone(want)
	box.sendAll([]dueAnswer{{c, 1}}) // returns, though nobody reads
	c.mu.Lock()
	if !c.sending {
		t.Error("60 KiB had room: the test shows nothing")
	}
	c.mu.Unlock()
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }() // by then net/http may have given the client up
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(peer); !bytes.Equal(got, want) || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	box.rests.Wait()
}

// Answers that wait for a sync when the server ends are sent first. Past the time that
// requests get, PONG is not said any more.
func TestEndWithAnswersDue(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		t.Run(fmt.Sprint(inTime), func(t *testing.T) {
			asked, release := make(chan struct{}), make(chan struct{})
			log := &slowLog{wait: func(ctx context.Context, _ linelog.Pos) error {
				close(asked)
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}
			s := New(logging(log, true))
			box := newOutbox(t.Context(), s)
			c, peer := lateOver(t, box)
			c.hold(linelog.Pos(log.lines.Add(1)), &http.Request{Method: "GET", URL: mustURL("/ping")})
			c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPONG\n")) //nolint:errcheck // the answer tells
			<-asked
			c.Close() // net/http takes it for idle
			ctx, cancel := context.WithCancel(t.Context())
			want := http.StatusOK
			if inTime {
				close(release)
			} else {
				cancel()
				want = http.StatusServiceUnavailable
			}
			box.end(ctx)
			<-box.gone
			cancel()
			r := bufio.NewReader(peer)
			if status, _, err := readAnswer(r, "GET"); status != want || err != nil {
				t.Errorf("%d %v, want %d", status, err, want)
			}
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the connection is not closed: %v", err)
			}
			late, _ := lateOver(t, box)
			if late.hold(1, &http.Request{Method: "GET", URL: mustURL("/ping")}) {
				t.Error("an answer is left to an outbox that has ended")
			}
		})
	}
}

// lateOver is a lateConn over a Unix socket, and its other end.
func lateOver(t *testing.T, box *outbox) (*lateConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close(); c.Close() })
	return newLateConn(c, box), peer
}

func mustURL(path string) *url.URL { return &url.URL{Path: path} }
