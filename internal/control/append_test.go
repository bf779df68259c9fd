package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// appends are the entries that a fakeDaemon was given, as `level uid fields`; an
// urgent one has a '!'.
type appends struct {
	mu   sync.Mutex
	seen []string
	take int // how many entries of a call are taken before err
}

func (d *fakeDaemon) Append(_ context.Context, from Peer, entries []entry.Entry, level settle.Level) (Appended, error) {
	d.appends.mu.Lock()
	defer d.appends.mu.Unlock()
	if from.UID != uint32(os.Getuid()) || from.GID != uint32(os.Getgid()) || int(from.PID) != os.Getpid() {
		return Appended{}, fmt.Errorf("wrong peer %+v", from)
	}
	n := len(entries)
	if d.err != nil {
		n = d.appends.take
	}
	for _, e := range entries[:n] {
		text := level.String()
		if e.Urgent {
			text += " !"
		}
		for _, f := range e.Fields {
			text += fmt.Sprintf(" %q", f)
		}
		d.appends.seen = append(d.appends.seen, text)
	}
	return Appended{Accepted: n, Ack: max(level, settle.Appended).String()}, d.err
}

func TestAppend(t *testing.T) {
	const (
		head = `{"method":"dev.tidemark.Log.Append","parameters":`
		bad  = `{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"%s"}}`
	)
	long := `{"entries":[{"fields":["` + strings.Repeat("N", 65) + `=x"]}]}`
	list := func(n int) string {
		return `{"entries":[` + strings.Repeat(`{"fields":["A=1"]},`, n-1) + `{"fields":["A=1"]}]}`
	}
	many := `{"entries":[{"fields":[` + strings.Repeat(`"A=1",`, 1024) + `"A=1"]}]}`
	tests := []struct {
		name, params, want string
		seen               []string
	}{
		{"one", `{"entries":[{"fields":["MESSAGE=hi","A=1"]}]}`, `{"parameters":{"accepted":1,"dropped":0,"ack":"appended"}}`, []string{`accepted "MESSAGE=hi" "A=1"`}},
		{"synced", `{"entries":[{"fields":["MESSAGE=hi"]},{"fields":["MESSAGE=ho"]}],"ack":"synced"}`, `{"parameters":{"accepted":2,"dropped":0,"ack":"synced"}}`, []string{`synced "MESSAGE=hi"`, `synced "MESSAGE=ho"`}},
		{"ack null", `{"entries":[{"fields":["A="]}],"ack":null}`, `{"parameters":{"accepted":1,"dropped":0,"ack":"appended"}}`, []string{`accepted "A="`}},
		{"binary", `{"entries":[{"fields":["A=1"],"binary":["QT3/AAo="]}]}`, `{"parameters":{"accepted":1,"dropped":0,"ack":"appended"}}`, []string{`accepted "A=1" "A=\xff\x00\n"`}},
		{"urgent", `{"entries":[{"fields":["PRIORITY=2"]},{"fields":["PRIORITY=3"]},{"fields":["PRIORITY=02"]}]}`, `{"parameters":{"accepted":3,"dropped":0,"ack":"appended"}}`, []string{`accepted ! "PRIORITY=2"`, `accepted "PRIORITY=3"`, `accepted "PRIORITY=02"`}},
		{"most entries", list(MaxEntries), `{"parameters":{"accepted":4096,"dropped":0,"ack":"appended"}}`, slices.Repeat([]string{`accepted "A=1"`}, MaxEntries)},
		{"too many entries", list(MaxEntries + 1), fmt.Sprintf(bad, "entries"), nil},
		{"entries null", `{"entries":null}`, fmt.Sprintf(bad, "entries"), nil},
		{"nothing", `{"entries":[]}`, `{"parameters":{"accepted":0,"dropped":0,"ack":"appended"}}`, nil},
		{"no entries", `{"ack":"synced"}`, fmt.Sprintf(bad, "entries"), nil},
		{"entries of the wrong type", `{"entries":["MESSAGE=hi"]}`, fmt.Sprintf(bad, "entries"), nil},
		{"no base64", `{"entries":[{"binary":["A=1"]}]}`, fmt.Sprintf(bad, "entries"), nil},
		{"second entry without fields", `{"entries":[{"fields":["A=1"]},{}]}`, fmt.Sprintf(bad, "entries[1]"), nil},
		{"trusted field", `{"entries":[{"fields":["_PID=1"]}]}`, fmt.Sprintf(bad, "entries[0]"), nil},
		{"lower case", `{"entries":[{"fields":["a=1"]}]}`, fmt.Sprintf(bad, "entries[0]"), nil},
		{"no value", `{"entries":[{"fields":["A"]}]}`, fmt.Sprintf(bad, "entries[0]"), nil},
		{"no name", `{"entries":[{"fields":["=A"]}]}`, fmt.Sprintf(bad, "entries[0]"), nil},
		{"long name", long, fmt.Sprintf(bad, "entries[0]"), nil},
		{"too many fields", many, fmt.Sprintf(bad, "entries[0]"), nil},
		{"unknown level", `{"entries":[{"fields":["A=1"]}],"ack":"soon"}`, fmt.Sprintf(bad, "ack"), nil},
		{"replicated", `{"entries":[{"fields":["A=1"]}],"ack":"replicated"}`, fmt.Sprintf(bad, "ack"), nil},
		{"accepted is no ack", `{"entries":[{"fields":["A=1"]}],"ack":"accepted"}`, fmt.Sprintf(bad, "ack"), nil},
		{"ack of the wrong type", `{"entries":[],"ack":2}`, fmt.Sprintf(bad, "ack"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &fakeDaemon{}
			c := dial(t, start(t, d, Limits{}))
			c.say(t, head+tt.params+"}")
			if diff := cmp.Diff(tt.want, c.hear()); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.seen, d.appends.seen); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// An Append that fails half way says how far it came; the connection goes on.
func TestClientAppend(t *testing.T) {
	d := &fakeDaemon{err: fmt.Errorf("sync system.journal: %w", syscall.ENOSPC), appends: appends{take: 1}}
	c, err := Dial(t.Context(), start(t, d, Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	two := []Entry{{Fields: []string{"A=1"}}, {Binary: [][]byte{[]byte("B=\xff")}}}
	for range 2 {
		done, err := c.Append(t.Context(), two, "synced")
		if done.Accepted != 1 || done.Ack != "synced" {
			t.Errorf("done %+v, want 1 synced", done)
		}
		var refused *Error
		if !errors.As(err, &refused) || refused.Name != ErrorNotReached || !strings.Contains(string(refused.Parameters), `"errno":28`) {
			t.Errorf("Append = %v, want ErrorNotReached with errno 28", err)
		}
		if want := "sync system.journal: no space left on device"; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	}
	d.appends.mu.Lock()
	d.err = nil
	d.appends.mu.Unlock()
	if done, err := c.Append(t.Context(), two, ""); err != nil || done != (Appended{Accepted: 2, Ack: "appended"}) {
		t.Errorf("Append = %+v, %v", done, err)
	}
	if diff := cmp.Diff([]string{`synced "A=1"`, `synced "A=1"`, `accepted "A=1"`, `accepted "B=\xff"`}, d.appends.seen); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	large := []Entry{{Fields: []string{"A=" + strings.Repeat("x", DefaultMessage)}}}
	if _, err := c.Append(t.Context(), large, ""); err == nil || !strings.Contains(err.Error(), "16777216 at most") {
		t.Errorf("Append of a large entry = %v, want the limit", err)
	}
}
