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
	var err error
	switch what {
	case "echo": // to the inherited descriptor
		_, err = fmt.Fprintln(os.NewFile(3, "inherited"), "from the child")
	case "send": // one datagram
		var c net.Conn
		if c, err = net.Dial("unixgram", os.Args[1]); err == nil {
			_, err = fmt.Fprint(c, os.Args[2])
		}
	case "both":
		err = both(os.Args[1])
	case "reuse":
		err = reuse(os.Args[1])
	case "flood":
		err = flood(os.Args[1], os.Args[2])
	case "rename":
		err = rename()
	case "words":
		err = lastWords(os.Args[1])
	default:
		err = fmt.Errorf("unknown helper %q", what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helper makes a command that runs help.
func helper(t testing.TB, what string, f *os.File, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+what, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	if f != nil {
		cmd.ExtraFiles = []*os.File{f}
	}
	return cmd
}
