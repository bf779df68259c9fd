package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/internal/slowfs"
)

// hangGuard is how long a test waits for what must come.
const hangGuard = 30 * time.Second

func TestMain(m *testing.M) {
	slowfs.Child()
	tickerChild()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := binary(); err == nil {
			_ = os.RemoveAll(filepath.Dir(dir))
		}
		os.Exit(code)
	}))
}

// binary builds tidemark, once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tidemark")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/tidemark-log/tidemark/cmd/tidemark")
	if out, err := cmd.CombinedOutput(); err != nil {
		return path, fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// guarded is a context that ends with the test, or when something hangs.
func guarded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), hangGuard, errors.New("it hangs"))
	t.Cleanup(cancel)
	return ctx
}

// within waits for what must come.
func within[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	guard := time.NewTimer(hangGuard)
	defer guard.Stop()
	select {
	case v := <-c:
		return v
	case <-guard.C:
		t.Fatalf("%s: nothing in %v", what, hangGuard)
		panic("unreachable")
	}
}

// until calls is until it is true. Each call takes a moment: it asks the daemon, or
// the kernel, for something.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); {
		if time.Since(began) > hangGuard {
			t.Fatalf("waits in vain for %s", what)
		}
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seeds are those of a random test: TIDEMARK_SEEDS of them, or few, from
// TIDEMARK_SEED on.
func seeds(t *testing.T, few int) (first, n uint64) {
	t.Helper()
	n = uint64(few)
	for name, to := range map[string]*uint64{"TIDEMARK_SEED": &first, "TIDEMARK_SEEDS": &n} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		v, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("%s=%s: %v", name, text, err)
		}
		*to = v
	}
	return first, n
}

// needTool skips a test where a program is not installed.
func needTool(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
}
