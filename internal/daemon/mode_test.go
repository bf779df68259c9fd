package daemon

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
)

// Everyone may write and ask, as with journald; HTTP is for the group.
func TestSocketModes(t *testing.T) {
	p := newPlace(t)
	start(t, p)
	for name, want := range map[string]fs.FileMode{
		"socket": 0o666, "dev-log": 0o666, "stdout": 0o666, config.ControlSocket: 0o666, config.HTTPSocket: 0o660,
	} {
		info, err := os.Stat(filepath.Join(p.Run, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info, err, want)
		}
	}
}
