package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
)

func TestReload(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	d := r.daemon
	p.configure(t, "Sync=all\nMaxLevelStore=3\n")
	if err := d.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.Status().Sync; got != "all" {
		t.Errorf("sync policy %s after the reload, want all", got)
	}
	if e, err := d.ingest.NewJSONDecoder("").Decode([]byte(`{"level":4}`)); err != nil || len(e.Fields) > 0 {
		t.Errorf("level 4 with MaxLevelStore=3: %d fields, %v", len(e.Fields), err)
	}
	if d.least().String() != "synced" {
		t.Errorf("least level %s under the policy all", d.least())
	}
	p.configure(t, "Sync=auto\nMaxLevelStore=loud\n")
	if err := d.reload(t.Context()); err == nil || d.Status().Sync != "all" {
		t.Errorf("a bad configuration was taken: %v", err)
	}
}

// TestConfigurationIsTold: warnings of the start and of a reload, and a reload
// that has failed, are lines for the operator and entries.
func TestConfigurationIsTold(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "Nonsense=1\n")
	warning := fmt.Sprintf("warning: %s:%d: unknown key \"Nonsense\" in section [Journal], ignored", p.Conf, baseLines+1)
	r := start(t, p)
	hup := func(want string) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		waitFor(t, r, "tidemark serve: "+want+"\n")
	}
	hup("configuration read again")
	p.configure(t, "Buffer=much\n")
	bad := fmt.Sprintf("%s:%d: Buffer=: invalid size \"much\": want for example 512, 64K, 8M or 2G; the settings in force are kept", p.Conf, baseLines+1)
	hup(bad)
	command(t, p, control.MethodSynchronize)
	want := []string{"4 " + warning, "6 started, version test", "4 " + warning, "6 configuration read again", "3 " + bad}
	var told []string
	for _, e := range ownEntries(t, p) {
		if slices.Contains(want, e) {
			told = append(told, e)
		}
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if n := strings.Count(r.err.String(), "tidemark serve: "+warning+"\n"); n != 2 {
		t.Errorf("the warning was said %d times: %s", n, r.err)
	}
}

// TestWarningsBeforeAFailedStart: they are said even if there is no file yet.
func TestWarningsBeforeAFailedStart(t *testing.T) {
	p := newPlace(t)
	errOut := &lockedBuffer{}
	o := p.options(io.Discard, errOut)
	o.Config = func() (config.Config, []config.Warning, error) {
		return config.Config{}, []config.Warning{{Path: "f", Line: 7, Text: "left out"}}, errors.New("f:9: bad")
	}
	if err := Run(t.Context(), o); err == nil {
		t.Fatal("began with a bad configuration")
	}
	if got := errOut.String(); got != "tidemark serve: warning: f:7: left out\n" {
		t.Errorf("said %q", got)
	}
}

// TestReloadNamesWhatNeedsARestart: each key that was changed, and no other.
func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	const before = "RateLimitIntervalSec=10s\nRateLimitBurst=5\n"
	for line, name := range map[string]string{
		"Data=/elsewhere":         "Data",
		"Run=/elsewhere":          "Run",
		"HTTP=127.0.0.1:1":        "HTTP",
		"AccessLog=/elsewhere":    "AccessLog",
		"AccessLogSync=all":       "AccessLogSync",
		"LineMax=1K":              "LineMax",
		"ReadKMsg=yes":            "ReadKMsg",
		"RateLimitIntervalSec=9s": "RateLimitIntervalSec",
		"RateLimitBurst=6":        "RateLimitBurst",
		"Buffer=1M":               "",
	} {
		t.Run(line, func(t *testing.T) {
			p := newPlace(t)
			p.configure(t, before)
			r := start(t, p)
			p.configure(t, before+line+"\n")
			if err := r.daemon.reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			command(t, p, control.MethodSynchronize)
			want := ""
			if name != "" {
				want = "4 warning: the change of " + name + "= needs a restart"
			}
			var got []string
			for _, e := range ownEntries(t, r.place) {
				if strings.HasPrefix(e, "4 ") {
					got = append(got, e)
				}
			}
			if strings.Join(got, "\n") != want {
				t.Errorf("warnings %q, want %q", got, want)
			}
		})
	}
}

// TestReloadReachesTheStore: new settings begin new files, the same ones do not;
// a file that cannot be read changes nothing and keeps nobody waiting.
func TestReloadReachesTheStore(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	state := func() (buffer int64, rotations uint64) {
		st := r.daemon.store.Status()
		for _, c := range st.Counts {
			if c.Reason == "rotation" {
				rotations = c.N
			}
		}
		return st.Buffer, rotations
	}
	for _, step := range []struct {
		conf      string
		buffer    int64
		rotations uint64
		err       string
	}{
		{"", config.DefaultBuffer, 0, ""},
		{"Buffer=3M\n", 3 << 20, 1, ""},
		{"Buffer=3M\nMaxLevelStore=err\n", 3 << 20, 1, ""},
		{"Buffer=much\n", 3 << 20, 1, "invalid size"},
		{"pipe", 3 << 20, 1, "it is a named pipe"},
	} {
		p.configure(t, step.conf)
		if step.conf == "pipe" {
			if err := errors.Join(os.Remove(p.Conf), syscall.Mkfifo(p.Conf, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		err := r.daemon.reload(t.Context())
		if step.err == "" && err != nil || step.err != "" && (err == nil || !strings.Contains(err.Error(), step.err)) {
			t.Errorf("%q: %v, want %q", step.conf, err, step.err)
		}
		if buffer, rotations := state(); buffer != step.buffer || rotations != step.rotations {
			t.Errorf("%q: a buffer of %d after %d rotations, want %d after %d", step.conf, buffer, rotations, step.buffer, step.rotations)
		}
	}
}

// TestReloadSetsThePriority, but leaves it alone when none is asked for.
func TestReloadSetsThePriority(t *testing.T) {
	p := newPlace(t)
	d := spawn(t, p) // the process of the tests keeps its own
	hup := func(conf string, want int) {
		t.Helper()
		text := strings.Replace(baseConf, "Nice=0\n", conf, 1)
		if err := os.WriteFile(p.Conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := strings.Count(fmt.Sprint(d.Stderr), "configuration read again")
		if err := d.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for strings.Count(fmt.Sprint(d.Stderr), "configuration read again") == before {
			command(t, p, control.MethodStatus)
		}
		for tid, got := range niceOf(t, d.Process.Pid) {
			if got != want {
				t.Errorf("%q: thread %s has priority %d, want %d", conf, tid, got, want)
			}
		}
	}
	var own int // that of whoever runs the tests, if they may not raise it
	for _, own = range niceOf(t, d.Process.Pid) {
		break
	}
	lower := min(own+5, 19)
	hup("", own)
	hup(fmt.Sprintf("Nice=%d\n", lower), lower)
	hup("", lower)
}
