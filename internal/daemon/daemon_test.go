package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/control"
)

func TestEndToEnd(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	if len(r.lines) != 7 || r.lines[0] != "native   "+filepath.Join(p.Run, "socket") || !strings.HasPrefix(url(r.lines), "http://127.0.0.1:") {
		t.Errorf("endpoints %q", r.lines)
	}
	if got := post(t, url(r.lines), "synced", `{"message":"one"}`+"\n"+`{"message":"two","_x":1}`); got != `{"accepted":2,"ack":"synced"}` {
		t.Errorf("answer %s", got)
	}
	native(t, p, "three", "four")
	command(t, p, control.MethodSynchronize)
	if diff := cmp.Diff([]string{"one", "two", "three", "four"}, messages(t, p)); diff != "" {
		t.Errorf("messages after Synchronize (-want +got):\n%s", diff)
	}
	for _, name := range []string{"synced"} {
		if b, err := os.ReadFile(filepath.Join(p.Run, name)); err != nil || !strings.HasSuffix(string(b), "\n") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	var st control.Status
	if err := json.Unmarshal(command(t, p, control.MethodStatus), &st); err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, c := range st.Counts {
		counts[c.Name+" "+c.Reason] = c.N
	}
	if st.PID != os.Getpid() || st.Sync != "1s" || len(st.Files) == 0 || counts["native entries"] != 2 || counts["http entries"] != 2 || counts["http underscores"] != 1 ||
		len(st.Endpoints) != 6 || st.Endpoints[0] != (control.Endpoint{Protocol: "native", Address: filepath.Join(p.Run, "socket")}) {
		t.Errorf("status %+v", st)
	}
	command(t, p, control.MethodRotate)
	native(t, p, "five")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	// What was in the socket when the daemon was told to end is there.
	if diff := cmp.Diff([]string{"one", "two", "three", "four", "five"}, messages(t, p)); diff != "" {
		t.Errorf("messages after the end (-want +got):\n%s", diff)
	}
	verify(t, p)
	left, err := os.ReadDir(p.Run)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if e.Type() == os.ModeSocket {
			t.Errorf("the socket %s was left behind", e.Name())
		}
	}
}

// TestKill kills a daemon in the middle of a stream: what it has acknowledged is
// there after a restart, and every file verifies.
func TestKill(t *testing.T) {
	p := newPlace(t)
	d := spawn(t, p)
	acked := make(chan string, 10_000)
	var senders sync.WaitGroup
	for sender := range 4 {
		senders.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := 0; ; i++ {
				m := fmt.Sprintf("%d-%d", sender, i)
				resp, err := client.Post(url(d.lines)+"ingest?ack=appended", "application/x-ndjson", strings.NewReader(`{"message":"`+m+`"}`))
				if err != nil {
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || !bytes.Contains(b, []byte(`"accepted":1`)) {
					return
				}
				acked <- m
			}
		})
	}
	var got []string
	for range 500 {
		got = append(got, <-acked)
	}
	native(t, p, "before the sync")
	command(t, p, control.MethodSynchronize)
	got = append(got, "before the sync")
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait() // killed: that is its error
	senders.Wait()
	close(acked)
	for m := range acked {
		got = append(got, m)
	}
	again := spawn(t, p)
	native(t, p, "after the restart")
	got = append(got, "after the restart")
	if err := again.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(); err == nil || again.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the second daemon ended with %v, want death by the signal", err)
	}
	third := start(t, p)
	if err := third.stop(); err != nil {
		t.Fatal(err)
	}
	stored := map[string]int{}
	for _, m := range messages(t, p) {
		stored[m]++
	}
	for _, m := range got {
		if stored[m] != 1 && m != "after the restart" {
			t.Errorf("%s is stored %d times", m, stored[m])
		}
	}
	verify(t, p)
}

func TestSignals(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	native(t, p, "one")
	command(t, p, control.MethodSynchronize)
	self := os.Getpid()
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		if err := syscall.Kill(self, s); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, r, "system.journal rotated to system@")
	stamp := filepath.Join(p.Run, "synced")
	if err := os.Remove(stamp); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(self, 35); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, r, "the stamp of a sync", func() bool {
		_, err := os.Stat(stamp)
		return err == nil
	})
	if err := syscall.Kill(self, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, r, "configuration read again")
}

// TestAcksUnderThePolicyAll: whoever asks for less waits for the sync too, and is
// told so.
func TestAcksUnderThePolicyAll(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "Sync=all\n")
	r := start(t, p)
	if got := post(t, url(r.lines), "appended", `{"message":"m"}`); got != `{"accepted":1,"ack":"synced"}` {
		t.Errorf("answer %s", got)
	}
}

// TestWhatJSONLosesIsCounted, by reason, over all requests.
func TestWhatJSONLosesIsCounted(t *testing.T) {
	r := start(t, newPlace(t))
	var many strings.Builder
	for i := range entry.DefaultMaxFields {
		fmt.Fprintf(&many, `"f%d":1,`, i)
	}
	for range 2 {
		post(t, url(r.lines), "appended", `{"_a":1,"message":"m"}`+"\n"+`{"_b":2,"message":"m"}`)
		post(t, url(r.lines), "appended", `{"`+strings.Repeat("x", entry.MaxNameLen+1)+`":1,"a":null,"b":null,"c":null,"message":"m"}`)
	}
	// The last, for so many names fill a file: until the next one is ready the
	// store would take nothing.
	post(t, url(r.lines), "appended", "{"+many.String()+`"y":1}`)
	got := map[string]uint64{}
	for _, c := range r.daemon.Status().Counts {
		if c.Name == "http" && c.N > 0 {
			got[c.Reason] = c.N
		}
	}
	delete(got, "bytes")
	tooMany := got["too_many_fields"]
	if tooMany == 0 {
		t.Error("no fields were too many")
	}
	want := map[string]uint64{"entries": 7, "underscores": 4, "cut_names": 2, "null_values": 6, "too_many_fields": tooMany}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
