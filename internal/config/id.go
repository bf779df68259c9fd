package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// Files that say who the machine is and which boot it is in.
const (
	MachineIDFile = "/etc/machine-id"
	BootIDFile    = "/proc/sys/kernel/random/boot_id"
)

// ReadID reads a file that holds one id, as ReadFile does; one of zeros is an
// error. Errors name the path. It may be called concurrently.
func ReadID(path string) (entry.ID, error) {
	b, err := ReadFile(path)
	if err != nil {
		return entry.ID{}, fmt.Errorf("%s: %w", path, err)
	}
	id, err := entry.ParseID(strings.TrimSpace(string(b)))
	if err == nil && id.IsZero() {
		err = errors.New("the id is zero")
	}
	if err != nil {
		return entry.ID{}, fmt.Errorf("%s: %w", path, err)
	}
	return id, nil
}
