package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run the real main as the commands
// `tidemark` and `journalctl`.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidemark": main, "journalctl": main})
}

// TestScripts runs the command line behaviour in testdata/script. $SAMPLES is
// the directory of the real journal files, the condition root says who runs it, the
// condition mounts whether that may be in places of its own.
func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("../../journal/testdata")
	if err != nil {
		t.Fatal(err)
	}
	// The scripts bind sockets, whose paths have 107 bytes at most: not below a
	// TMPDIR that may be long.
	root, err := os.MkdirTemp("/tmp", "tm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o711); err != nil { // some are run as another user
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:         "testdata/script",
		WorkdirRoot: root,
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "mounts":
				return os.Geteuid() == 0 && exec.Command("unshare", "-m", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("SAMPLES", samples)
			// The race detector has each process linger for 1 s; there are hundreds.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}
