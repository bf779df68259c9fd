package daemon

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/journal"
)

// url is the HTTP address that a daemon has printed.
func url(lines []string) string {
	for _, l := range lines {
		if _, u, ok := strings.Cut(l, "http://"); ok {
			return "http://" + u
		}
	}
	return ""
}

// post sends lines to /ingest and returns the answer.
func post(t *testing.T, url, ack, body string) string {
	t.Helper()
	resp, err := http.Post(url+"ingest?ack="+ack, "application/x-ndjson", strings.NewReader(body))
	_, answer := read(t, resp, err)
	return answer
}

// get reads a page: its status and text.
func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	status, page := read(t, resp, err)
	return status + " " + page
}

// read takes an answer apart, to its end.
func read(t *testing.T, resp *http.Response, err error) (status, text string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status[:3], strings.TrimSpace(string(b))
}

// native sends one native datagram per message.
func native(t *testing.T, p place, messages ...string) {
	t.Helper()
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(p.Run, "socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, m := range messages {
		if _, err := c.Write([]byte("MESSAGE=" + m + "\nPRIORITY=5\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// command runs a method of the daemon.
func command(t *testing.T, p place, method string) json.RawMessage {
	t.Helper()
	raw, err := control.Call(t.Context(), filepath.Join(p.Run, config.ControlSocket), method, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// stored are the entries of all files: tidemark's own, or those of others. Of a
// field that an entry has twice the last one counts.
func stored(t *testing.T, p place, own bool) []map[string]string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.Data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.OpenDir(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var out []map[string]string
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]string{}
		for _, f := range e.Fields {
			name, value, _ := strings.Cut(string(f), "=")
			fields[name] = value
		}
		if (fields["_TRANSPORT"] == "driver") == own {
			out = append(out, fields)
		}
	}
	return out
}

// messages are those of all files, without tidemark's own.
func messages(t *testing.T, p place) []string {
	t.Helper()
	var out []string
	for _, e := range stored(t, p, false) {
		out = append(out, e["MESSAGE"])
	}
	return out
}

// ownEntries are tidemark's own entries, PRIORITY and MESSAGE.
func ownEntries(t *testing.T, p place) []string {
	t.Helper()
	var out []string
	for _, e := range stored(t, p, true) {
		out = append(out, e["PRIORITY"]+" "+e["MESSAGE"])
	}
	return out
}

// verify runs journalctl --verify, or our own check where there is none.
func verify(t *testing.T, p place) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Data, "*", "*.journal*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	if _, err := exec.LookPath("journalctl"); err == nil {
		for _, f := range files {
			if out, err := exec.Command("journalctl", "--verify", "--file", f).CombinedOutput(); err != nil {
				t.Errorf("journalctl --verify %s: %v: %s", f, err, out)
			}
		}
		return
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		report, err := journal.Verify(t.Context(), f, info.Size(), name, journal.VerifyOptions{})
		if err != nil || !report.OK() {
			t.Errorf("verify %s: %v %v", name, err, report.Problems)
		}
	}
}

// hangs is how long something may take that takes milliseconds.
const hangs = time.Minute

// waitFor waits until the daemon's line has come.
func waitFor(t *testing.T, r *running, line string) {
	t.Helper()
	waitUntil(t, r, "line "+line, func() bool { return strings.Contains(r.err.String(), line) })
}

// waitUntil waits until the daemon is in a state. Between two looks it answers a
// command.
func waitUntil(t *testing.T, r *running, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); {
		if time.Since(began) > hangs {
			t.Fatalf("waits for: %s; it said %s", what, r.err)
		}
		command(t, r.place, control.MethodStatus)
	}
}
