//go:build !linux

package namewatch

import (
	"errors"
	"fmt"
	"time"
)

// Watch is not there.
type Watch struct{}

// New fails with errors.ErrUnsupported.
func New(path string) (*Watch, error) {
	return nil, fmt.Errorf("watch %s: %w", path, errors.ErrUnsupported)
}

// File fails.
func (*Watch) File() error { return errors.ErrUnsupported }

// Dir fails.
func (*Watch) Dir(bool) error { return errors.ErrUnsupported }

// Wait fails.
func (*Watch) Wait(time.Duration) error { return errors.ErrUnsupported }

// Close does nothing.
func (*Watch) Close() error { return nil }
