//go:build linux

package follow

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-log/tidemark/settle"
)

// bellSource is a bell as a source. It learns that files came or went from the
// times of their directories.
type bellSource struct {
	bell  *settle.Bell
	roots []string
	dirs  []string             // the roots, and where files were found in them
	seen  map[string]time.Time // modification times of dirs
}

// Wait returns when the bell has been rung, or with the error of ctx.
func (s *bellSource) Wait(ctx context.Context) error {
	select {
	case <-s.bell.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tick is longer than the steps in which the times of directories go.
const tick = 50 * time.Millisecond

// Take returns Rescan when a directory may have changed.
func (s *bellSource) Take() []Event {
	changed := false
	for _, dir := range s.dirs {
		st, err := os.Stat(dir)
		if err != nil {
			changed = true // it has gone
			continue
		}
		if t := st.ModTime(); !t.Equal(s.seen[dir]) || time.Since(t) < tick {
			s.seen[dir] = t
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return []Event{{Kind: Rescan}}
}

// list lists the files there are.
func (s *bellSource) list() ([]string, error) {
	paths, err := filesIn(s.roots)
	s.dirs = append(s.dirs[:0], s.roots...)
	for _, p := range paths {
		if dir := filepath.Dir(p); !slices.Contains(s.dirs, dir) {
			s.dirs = append(s.dirs, dir)
		}
	}
	return paths, err
}
