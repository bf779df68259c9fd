package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The directories of the system's journald are refused under every name they
// have, and so is what lies in them; others are not.
func TestPlacesOfJournaldAreRefused(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "machine"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(taken, link); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for path, refused := range map[string]bool{
		taken: true, filepath.Join(taken, "machine"): true, filepath.Join(taken, "new", "folder"): true,
		link: true, filepath.Join(link, "machine"): true,
		missing: true, filepath.Join(missing, "folder"): true,
		dir: false, filepath.Join(dir, "takenelsewhere"): false,
	} {
		err := notJournalds(path, taken, missing)
		if (err != nil) != refused {
			t.Errorf("%s: %v, want refused %t", path, err, refused)
		}
		if err != nil && !strings.Contains(err.Error(), "choose another place") {
			t.Errorf("%s: %q names no next step", path, err)
		}
	}
}
