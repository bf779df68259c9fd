package ingest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv makes the test binary a helper process.
const helperEnv = "INGEST_TEST_HELPER"

func TestMain(m *testing.M) {
	if what := os.Getenv(helperEnv); what != "" {
		os.Exit(help(what))
	}
	goleak.VerifyTestMain(m)
}

// help is what a helper process does.
func help(what string) int {
	switch what {
	case "echo": // to the inherited descriptor
		_, _ = fmt.Fprintln(os.NewFile(3, "inherited"), "from the child")
	case "send": // one datagram
		c, err := net.Dial("unixgram", os.Args[1])
		if err != nil {
			return 1
		}
		_, _ = fmt.Fprint(c, os.Args[2])
	case "both":
		if err := both(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	default:
		return 2
	}
	return 0
}

// helper makes a command that runs help.
func helper(t *testing.T, what string, f *os.File, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+what)
	cmd.Stderr = os.Stderr
	if f != nil {
		cmd.ExtraFiles = []*os.File{f}
	}
	return cmd
}
