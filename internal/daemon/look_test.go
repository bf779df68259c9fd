package daemon

import "github.com/tidemark-log/tidemark/internal/control"

// Status is Look into memory of its own.
func (d *daemon) Status() (st control.Status) {
	d.Look(&st)
	return st
}
