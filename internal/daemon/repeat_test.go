package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/control"
)

// postOnce sends lines with an Idempotency-Key.
func postOnce(t *testing.T, lines []string, key, ack, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url(lines)+"ingest?ack="+ack, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	status, answer := read(t, resp, err)
	return status + " " + answer
}

// body is n lines of a request.
func body(request string, from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"message":"%s %d"}`+"\n", request, i)
	}
	return b.String()
}

// requestMessages are the messages that body sends.
func requestMessages(request string, from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s %d", request, i))
	}
	return out
}

// TestRepeatedRequest repeats a request in every state of its files: current,
// rotated, after a kill -9 and a restart. It is answered alike, and stored once. A
// longer body, as a try that was cut has left it, is completed.
func TestRepeatedRequest(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "Sync=auto\n")
	c := spawn(t, p)
	again := func(when string, to int, ack string) {
		t.Helper()
		if got, want := postOnce(t, c.lines, "k/1", ack, body("a", 0, to)), fmt.Sprintf(`200 {"accepted":%d,"ack":"%s"}`, to, ack); got != want {
			t.Errorf("%s: answer %s, want %s", when, got, want)
		}
		if diff := cmp.Diff(requestMessages("a", 0, to), messages(t, p)); diff != "" {
			t.Errorf("%s: messages (-want +got):\n%s", when, diff)
		}
	}
	again("first", 3, "appended")
	again("repeated", 3, "appended")
	again("repeated, synced", 3, "synced")
	again("half stored", 5, "synced")
	command(t, p, control.MethodRotate)
	again("rotated", 5, "synced")
	again("half stored in an archive", 7, "appended")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed: that is its error
	c = spawn(t, p)
	again("killed", 7, "synced")
	again("half stored before the kill", 900, "synced")
	if got, want := postOnce(t, c.lines, "k/1", "synced", body("a", 0, 2)), `422 {"accepted":0,"error":"another request has had this Idempotency-Key: its entries were 900, here 2"}`; got != want {
		t.Errorf("another body: %s, want %s", got, want)
	}
	if got, want := postOnce(t, c.lines, "k/2", "appended", body("b", 0, 1)), `200 {"accepted":1,"ack":"appended"}`; got != want {
		t.Errorf("another key: %s, want %s", got, want)
	}
	for _, e := range stored(t, p, false) {
		key := map[bool]string{true: "k/1", false: "k/2"}[strings.HasPrefix(e["MESSAGE"], "a ")]
		if e["_TIDEMARK_REQUEST"] != key {
			t.Errorf("%s has the key %q, want %q", e["MESSAGE"], e["_TIDEMARK_REQUEST"], key)
		}
	}
	command(t, p, control.MethodSynchronize) // the index may follow what was appended by a window
	verify(t, p)
}

// TestRepeatedRequestsAmongRotations sends each request several times while files
// are rotated, also those of requests that end at that moment.
func TestRepeatedRequestsAmongRotations(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "SystemMaxFiles=10000\n")
	r := start(t, p)
	stop := make(chan struct{})
	var rotating, sending sync.WaitGroup
	rotating.Go(func() {
		rotations := 60 // each makes every look dearer, so that they must end
		if testing.Short() {
			rotations = 12 // as dear under the race detector
		}
		for range rotations {
			select {
			case <-stop:
				return
			default:
			}
			if err := r.daemon.store.Rotate(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var want []string
	for k := range 4 {
		sending.Go(func() {
			for i := range 10 {
				name := fmt.Sprintf("%d/%d", k, i)
				for to := range 3 {
					got := ""
					for got == "" || strings.Contains(got, errMoving.Error()) {
						got = postOnce(t, r.lines, name, "appended", body(name, 0, to+1))
					}
					if w := fmt.Sprintf(`200 {"accepted":%d,"ack":"appended"}`, to+1); got != w {
						t.Errorf("%s: %s, want %s", name, got, w)
					}
				}
			}
		})
		for i := range 10 {
			want = append(want, requestMessages(fmt.Sprintf("%d/%d", k, i), 0, 3)...)
		}
	}
	sending.Wait()
	close(stop)
	rotating.Wait()
	count := map[string]int{}
	for _, m := range messages(t, p) {
		count[m]++
	}
	for _, m := range want {
		if count[m] != 1 {
			t.Errorf("%s is stored %d times", m, count[m])
		}
	}
	if len(count) != len(want) {
		t.Errorf("%d messages, want %d", len(count), len(want))
	}
}

// TestWhileNamed: files that get another name, or vanish, while they are looked at
// are looked at again, but not for ever.
func TestWhileNamed(t *testing.T) {
	gone, bad := fmt.Errorf("open: %w", fs.ErrNotExist), errors.New("bad")
	for _, tt := range []struct {
		name  string
		lists []string // what is there at each listing; the last one stays
		looks []error  // of each look; the last one stays
		want  []string // what was looked at
		err   error
	}{
		{"still", []string{"a"}, []error{nil}, []string{"a"}, nil},
		{"renamed meanwhile", []string{"a", "b"}, []error{nil}, []string{"a", "b"}, nil},
		{"gone, under another name", []string{"a", "b"}, []error{gone, nil}, []string{"a", "b"}, nil},
		{"gone, and the same names again", []string{"a"}, []error{gone, nil}, []string{"a", "a"}, nil},
		{"unreadable", []string{"a", "b"}, []error{bad}, []string{"a"}, bad},
		{"gone for ever", []string{"a"}, []error{gone}, slices.Repeat([]string{"a"}, requestLooks), errMoving},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var looked []string
			listed := 0
			err := whileNamed(func() ([]string, error) {
				listed++
				return []string{tt.lists[min(listed, len(tt.lists))-1]}, nil
			}, func(paths []string) error {
				looked = append(looked, paths...)
				return tt.looks[min(len(looked), len(tt.looks))-1]
			})
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, looked); diff != "" {
				t.Errorf("looked at (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRepeatedRequestWaitsForItsSync holds the sync: an entry of an earlier try is
// acknowledged as synced after it only, and not at all once the sync has failed,
// also when its file has been set aside.
func TestRepeatedRequestWaitsForItsSync(t *testing.T) {
	r, fsys := startSyncing(t)
	r.fails = true
	if got := postOnce(t, r.lines, "k", "appended", body("a", 0, 1)); got != `200 {"accepted":1,"ack":"appended"}` {
		t.Fatal(got)
	}
	fsys.hold()
	early := make(chan bool, 1)
	go func() {
		if got := postOnce(t, r.lines, "k", "synced", body("a", 0, 1)); got != `200 {"accepted":1,"ack":"synced"}` {
			t.Errorf("repeated: %s", got)
		}
		early <- !fsys.released()
	}()
	fsys.awaitHeld(t)
	if got := postOnce(t, r.lines, "k", "appended", body("a", 0, 1)); !strings.HasPrefix(got, `409 {"accepted":0,"error":"a request with this Idempotency-Key is being taken`) {
		t.Errorf("two at a time: %s", got)
	}
	if got := postOnce(t, r.lines, "other", "appended", body("b", 0, 1)); got != `200 {"accepted":1,"ack":"appended"}` {
		t.Errorf("another one meanwhile: %s", got)
	}
	fsys.release()
	if <-early {
		t.Error("acknowledged as synced before the sync has ended")
	}
	fsys.mu.Lock()
	fsys.err = syscall.EIO
	fsys.mu.Unlock()
	for _, want := range []string{"input/output error", "input/output error"} {
		if got := postOnce(t, r.lines, "k2", "synced", body("c", 0, 1)); !strings.HasPrefix(got, `500 {"accepted":1,"ack":"appended","error":"`) || !strings.Contains(got, want) {
			t.Errorf("failed sync: %s, want %s", got, want)
		}
	}
	fsys.mu.Lock()
	fsys.err = nil
	fsys.mu.Unlock()
	waitUntil(t, r, "the file set aside", func() bool {
		paths, err := requests{r.daemon}.paths()
		return err == nil && strings.Contains(strings.Join(paths, "\n"), "~")
	})
	for range 2 {
		got := postOnce(t, r.lines, "k2", "synced", body("c", 0, 2))
		if strings.HasPrefix(got, "500 ") && strings.Contains(got, "entries of an earlier try that are in a file that was set aside, or are gone: 1") {
			break
		}
		// What the file set aside has held may have been stored again by now.
		if got == `200 {"accepted":2,"ack":"synced"}` && !onlyAside(t, r, "MESSAGE=c 0") {
			break
		}
		if !strings.Contains(got, "input/output error") { // told once to whoever syncs
			t.Errorf("after a failed sync: %s", got)
		}
	}
	if got := postOnce(t, r.lines, "k2", "appended", body("c", 0, 2)); got != `200 {"accepted":2,"ack":"appended"}` {
		t.Errorf("appended is still true: %s", got)
	}
}

// onlyAside tells whether an entry with field is in no file but those set aside.
func onlyAside(t *testing.T, r *running, field string) bool {
	t.Helper()
	paths, err := requests{r.daemon}.paths()
	if err != nil {
		t.Fatal(err)
	}
	n, aside, err := countIn(t.Context(), paths, entry.Field(field))
	if err != nil {
		t.Fatal(err)
	}
	return n == aside
}

// TestCutRequest breaks the connection in the body: what had come is kept, and the
// same request completes it.
func TestCutRequest(t *testing.T) {
	r := start(t, newPlace(t))
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url(r.lines), "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	all := body("a", 0, 4)
	_, err = fmt.Fprintf(c, "POST /ingest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s", len(all), body("a", 0, 2))
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, r, "two lines", func() bool { return len(messages(t, r.place)) == 2 })
	if got := postOnce(t, r.lines, "k", "appended", all); !strings.HasPrefix(got, "409 ") {
		t.Errorf("while it comes: %s", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got := ""
	waitUntil(t, r, "the end of the first try", func() bool {
		got = postOnce(t, r.lines, "k", "synced", all)
		return !strings.HasPrefix(got, "409 ")
	})
	if got != `200 {"accepted":4,"ack":"synced"}` {
		t.Errorf("repeated: %s", got)
	}
	if diff := cmp.Diff(requestMessages("a", 0, 4), messages(t, r.place)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestRepeatedRequestOnABadDisk: a try whose entries could not be written is
// completed when they can; nothing is stored twice of what it had left in memory.
func TestRepeatedRequestOnABadDisk(t *testing.T) {
	for errno, status := range map[syscall.Errno]string{syscall.ENOSPC: "507 ", syscall.EIO: "500 "} {
		t.Run(errno.Error(), func(t *testing.T) {
			p := newFaultyPlace(t)
			r := start(t, p)
			p.fail(t, errno)
			for range 3 {
				if got := postOnce(t, r.lines, "k", "appended", body("a", 0, 3)); !strings.HasPrefix(got, status) {
					t.Errorf("bad disk: %s", got)
				}
			}
			p.fail(t, 0)
			waitUntil(t, r, "the disk", func() bool { return get(t, url(r.lines)+"readyz") == "200 ready" })
			for range 2 {
				if got := postOnce(t, r.lines, "k", "synced", body("a", 0, 3)); got != `200 {"accepted":3,"ack":"synced"}` {
					t.Errorf("with a good disk: %s", got)
				}
			}
			if diff := cmp.Diff(requestMessages("a", 0, 3), messages(t, p)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}
