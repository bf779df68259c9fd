package faults

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/demo"
	"github.com/tidemark-log/tidemark/journal"
)

// messages counts the messages of all journal files below data, those that were
// set aside included.
func messages(t testing.TB, data string) map[string]int {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(data, "*"))
	noError(t, err)
	j, err := journal.OpenDir(dirs...)
	noError(t, err)
	defer j.Close()
	found := map[string]int{}
	for e, err := range j.All() {
		noError(t, err)
		text, _ := e.Get("MESSAGE")
		found[string(text)]++
	}
	return found
}

// verify has journalctl check every file below data that was not set aside; tidemark
// where there is no journalctl.
func verify(t testing.TB, data string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "*", "*.journal"))
	noError(t, err)
	if len(files) == 0 {
		t.Errorf("no journal files in %s", data)
	}
	tool, _ := exec.LookPath("journalctl")
	for _, f := range files {
		if err := demo.VerifyFile(t.Context(), tool, f); err != nil {
			t.Errorf("%s does not verify: %v", strings.TrimPrefix(f, data), err)
		}
	}
}
