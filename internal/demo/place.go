package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-log/tidemark/internal/config"
)

const (
	// longestSocket is the longest path of a socket in the demo's directory.
	longestSocket = "run/" + config.ControlSocket
	// shortTemp is used where TMPDIR is too long for sockets.
	shortTemp = "/tmp"
)

// makeDir makes the demo's directory in temp, or in /tmp when sockets in temp
// would have paths that are too long.
func makeDir(temp string) (string, error) {
	const pattern = "tidemark-demo-"
	dir, err := os.MkdirTemp(temp, pattern)
	if err != nil {
		return "", err
	}
	if len(filepath.Join(dir, longestSocket)) <= config.MaxSocketPath {
		return dir, nil
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	short, err := os.MkdirTemp(shortTemp, pattern)
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s is too long a path for sockets: set TMPDIR to a shorter one", temp), err)
	}
	return short, nil
}
