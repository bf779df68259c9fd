package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
)

func TestReload(t *testing.T) {
	p := newPlace(t)
	var mu sync.Mutex
	current := p
	errOut := &lockedBuffer{}
	o := p.options(io.Discard, errOut)
	read := func() (config.Config, []config.Warning, error) {
		mu.Lock()
		defer mu.Unlock()
		return current.options(nil, nil).Config()
	}
	o.Config = read
	d := &daemon{o: o}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	defer d.release()
	defer d.store.Close(context.Background())
	mu.Lock()
	current.Sync, current.HTTP, current.MaxLevel = "all", []string{"127.0.0.1:1"}, new(3)
	mu.Unlock()
	if err := d.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.Status().Sync; got != "all" {
		t.Errorf("sync policy %s after the reload, want all", got)
	}
	if !strings.Contains(errOut.String(), "the change of HTTP= needs a restart") {
		t.Errorf("said %q", errOut)
	}
	if e, err := d.ingest.NewJSONDecoder("").Decode([]byte(`{"level":4}`)); err != nil || len(e.Fields) > 0 {
		t.Errorf("level 4 with MaxLevelStore=3: %d fields, %v", len(e.Fields), err)
	}
	if d.least().String() != "synced" {
		t.Errorf("least level %s under the policy all", d.least())
	}
	o.Config = func() (config.Config, []config.Warning, error) { return config.Config{}, nil, errors.New("bad") }
	d.o = o
	if err := d.reload(t.Context()); err == nil || d.Status().Sync != "all" {
		t.Errorf("a bad configuration was taken: %v", err)
	}
}

// TestConfigurationIsTold: warnings of the start and of a reload, and a reload
// that has failed, are lines for the operator and entries.
func TestConfigurationIsTold(t *testing.T) {
	p := newPlace(t)
	var bad atomic.Bool
	r := start(t, p, func(d *daemon) {
		good := d.o.Config
		d.o.Config = func() (config.Config, []config.Warning, error) {
			if bad.Load() {
				return config.Config{}, nil, errors.New("f:1: bad")
			}
			c, _, err := good()
			return c, []config.Warning{{Path: "f", Line: 7, Text: "left out"}}, err
		}
	})
	hup := func(want string) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		waitFor(t, r, want)
	}
	hup("tidemark serve: configuration read again\n")
	bad.Store(true)
	hup("tidemark serve: f:1: bad; the settings in force are kept\n")
	command(t, p, control.MethodSynchronize)
	told := strings.Join(ownEntries(t, p), "\n")
	if n := strings.Count(told, "4 warning: f:7: left out"); n != 2 {
		t.Errorf("the warning is %d times among the entries, want 2:\n%s", n, told)
	}
	if !strings.Contains(told, "3 f:1: bad; the settings in force are kept") || !strings.Contains(told, "6 configuration read again") {
		t.Errorf("entries:\n%s", told)
	}
	if n := strings.Count(r.err.String(), "warning: f:7: left out\n"); n != 2 {
		t.Errorf("the warning was said %d times: %s", n, r.err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(r.err.String(), "tidemark serve: stopped: everything is synced\n") {
		t.Errorf("said at the end: %s", r.err)
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
