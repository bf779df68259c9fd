package daemon

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/control"
)

// requests are the lines of an access log, without the times.
func requestLines(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\[[^]]*\]`).ReplaceAllString(string(b), "[]")
}

const (
	pingLine = `127.0.0.1 - - [] "GET /ping HTTP/1.1" 200 5` + "\n"
	unixLine = `unix: - - [] "GET /ping HTTP/1.1" 200 5` + "\n"
)

// TestAccessLog: each request is a line, of both doors; a HUP after a rename begins a
// new file, and the end of the daemon leaves all of them on the disk.
func TestAccessLog(t *testing.T) {
	for _, policy := range []string{"auto", "50ms", "all"} {
		t.Run(policy, func(t *testing.T) {
			p := newPlace(t)
			path := filepath.Join(t.TempDir(), "access.log")
			p.configure(t, "AccessLog="+path+"\nAccessLogSync="+policy+"\n")
			r := start(t, p)
			ping := url(r.lines) + "ping"
			for range 3 {
				if got := get(t, ping); got != "200 PONG" {
					t.Errorf("GET /ping = %s", got)
				}
			}
			syncs := r.daemon.accessLog.Stats().Syncs
			if policy == "all" {
				if got := requestLines(t, path); got != strings.Repeat(pingLine, 3) || syncs == 0 {
					t.Errorf("when three were answered: %d syncs, %q", syncs, got)
				}
			}
			if policy == "auto" && syncs != 0 {
				t.Errorf("%d syncs under the policy auto", syncs)
			}
			command(t, p, control.MethodSynchronize)
			if st := r.daemon.accessLog.Stats(); st.Unsynced != 0 || st.Syncs == 0 {
				t.Errorf("after Synchronize: %+v", st)
			}
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			r.daemon.obey(t.Context(), syscall.SIGHUP)
			resp, err := unixClient(p).Get("http://localhost/ping")
			read(t, resp, err)
			get(t, ping)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Repeat(pingLine, 3), requestLines(t, path+".1")); diff != "" {
				t.Errorf("before the rename (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(unixLine+pingLine, requestLines(t, path)); diff != "" {
				t.Errorf("after the rename (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAccessLogThatCannotBeOpened: it is said before the data is touched; and a
// HUP that cannot open it again leaves the file before in use, and says so.
func TestAccessLogThatCannotBeOpened(t *testing.T) {
	p := newPlace(t)
	dir := filepath.Join(t.TempDir(), "none")
	path := filepath.Join(dir, "access.log")
	p.configure(t, "AccessLog="+path+"\n")
	err := Run(t.Context(), p.options(io.Discard, io.Discard))
	if err == nil || !strings.Contains(err.Error(), "access log: ") || !strings.Contains(err.Error(), path+": no such file or directory") {
		t.Errorf("Run = %v", err)
	}
	if list, err := os.ReadDir(p.Data); err != nil || len(list) > 0 {
		t.Errorf("left in the data directory: %v, %v", list, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := start(t, p)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil { // in its place
		t.Fatal(err)
	}
	r.daemon.obey(t.Context(), syscall.SIGHUP)
	get(t, url(r.lines)+"ping")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.err.String(), "access log: open ") {
		t.Errorf("said: %s", r.err)
	}
	if got := requestLines(t, path+".1"); got != pingLine {
		t.Errorf("the file before has %q", got)
	}
}
