//go:build !linux

package linelog

import (
	"errors"
	"fmt"
)

// newConduit fails: the daemon runs on Linux.
func newConduit(socket string, _ *file) (conduit, error) {
	return nil, fmt.Errorf("daemon at %s: %w", socket, errors.ErrUnsupported)
}
