package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
)

// exportOf is a stream of messages, a second apart from a time on.
func exportOf(realtime int, messages ...string) string {
	var b strings.Builder
	for i, m := range messages {
		fmt.Fprintf(&b, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=710d035a90fb403c855864972948eda1\nMESSAGE=%s\n\n", (realtime+i)*1e6, (realtime+i)*1e6, m)
	}
	return b.String()
}

// upload sends a stream, and returns status and answer.
func upload(t *testing.T, c *http.Client, url, body string) string {
	t.Helper()
	resp, err := c.Post(url+"upload?ack=synced", "application/vnd.fdo.journal", strings.NewReader(body))
	status, answer := read(t, resp, err)
	c.CloseIdleConnections()
	return status + " " + answer
}

// unixClient is a client of the place's socket.
func unixClient(p place) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(p.Run, config.HTTPSocket))
	}}}
}

// remoteFiles are the files of uploads, archives without what tells them apart.
func remoteFiles(t *testing.T, p place) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(p.Data, "*", "remote-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		base, rest, archived := strings.Cut(filepath.Base(path), "@")
		if archived {
			base += "@" + filepath.Ext(rest)
		}
		names = append(names, base)
	}
	return names
}

// TestUploads: two peers upload, the daemon is killed and started again and goes on,
// sync and rotate see to their files, and status shows them.
func TestUploads(t *testing.T) {
	p := newPlace(t)
	d := spawn(t, p)
	if got, want := upload(t, http.DefaultClient, url(d.lines), exportOf(1000, "a", "b")), `202 {"accepted":2,"ack":"synced"}`; got != want {
		t.Errorf("upload: %s, want %s", got, want)
	}
	if got, want := upload(t, unixClient(p), "http://localhost/", exportOf(1000, "c")), `202 {"accepted":1,"ack":"synced"}`; got != want {
		t.Errorf("upload: %s, want %s", got, want)
	}
	if err := d.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait() // killed: that is its error
	r := start(t, p)
	if d := cmp.Diff([]string{"remote-127.0.0.1@.journal", "remote-unix@.journal"}, remoteFiles(t, p)); d != "" {
		t.Errorf("files after a kill (-want +got):\n%s", d)
	}
	upload(t, http.DefaultClient, url(r.lines), exportOf(2000, "d", "e"))
	command(t, p, control.MethodSynchronize)
	var listed []string
	for _, f := range r.daemon.Status().Files {
		if name := filepath.Base(f.Path); strings.HasPrefix(name, "remote-") && !strings.Contains(name, "@") { // archives may still be on their way
			listed = append(listed, fmt.Sprint(name, " ", f.Entries, " ", f.Unsynced))
		}
	}
	if d := cmp.Diff([]string{"remote-127.0.0.1.journal 2 0"}, listed); d != "" {
		t.Errorf("files in status (-want +got):\n%s", d)
	}
	command(t, p, control.MethodRotate)
	if d := cmp.Diff([]string{"remote-127.0.0.1@.journal", "remote-127.0.0.1@.journal", "remote-unix@.journal"}, remoteFiles(t, p)); d != "" {
		t.Errorf("files after rotate (-want +got):\n%s", d)
	}
	if page := get(t, url(r.lines)+"metrics"); !strings.Contains(page, `tidemark_entries_total{transport="upload"} 2`) {
		t.Errorf("metrics: %s", page)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	got := messages(t, p)
	slices.Sort(got)
	if d := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
	verify(t, p)
}

// TestStopEndsUploads: a daemon that ends does not wait for an upload without an end,
// and answers it.
func TestStopEndsUploads(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	in, out := io.Pipe()
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Post(url(r.lines)+"upload", "application/vnd.fdo.journal", in)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body) // what is missing shows
		answer <- resp.Status[:3] + " " + strings.TrimSpace(string(b))
	}()
	if _, err := io.WriteString(out, exportOf(1000, "a", "b")); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, r, "the entries", func() bool { return len(r.daemon.remote.Status().Files) == 1 && len(messages(t, p)) == 2 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if got, want := <-answer, `503 {"accepted":2,"ack":"appended","error":"the daemon ends: send the rest again"}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	out.Close()
	http.DefaultClient.CloseIdleConnections()
	if d := cmp.Diff([]string{"a", "b"}, messages(t, p)); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"remote-127.0.0.1.journal"}, remoteFiles(t, p)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}
