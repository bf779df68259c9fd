//go:build !linux

package query

import (
	"errors"
	"io/fs"

	"github.com/tidemark-log/tidemark/entry"
)

var errNotLinux = errors.New("boots and devices are known on Linux only")

func (g *group) addDevice(string, fs.FileInfo, *Options) error { return errNotLinux }

// CurrentBoot returns an error: only Linux numbers its boots.
func CurrentBoot() (entry.ID, error) { return entry.ID{}, errNotLinux }
