// Package namewatch tells when a file loses its name, because somebody renames,
// replaces or removes it, and when its name is there again. It wakes for nothing
// else: not for writes to the file, nor, while it has its name, for what happens to
// others beside it.
//
// It is there on Linux, by inotify(7); elsewhere New fails with
// errors.ErrUnsupported.
package namewatch
