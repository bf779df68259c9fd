package linelog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// resolve follows path while it is a symbolic link, also one that leads to nothing:
// what it names is rotated, not the link. Nothing is cleaned by the words: what is
// behind "dir/.." is known only to the system, where dir may be a link. If the names do
// not lead to what the system finds (/dev/stdout: a pipe, which has no name, or a file
// that was removed) path is returned as it is, and named is false: it is a link, which
// must not be renamed in the place of the file.
func resolve(path string) (at string, named bool) {
	at = path
	for range 40 { // as many as Linux follows
		to, err := os.Readlink(at)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(at)
			to = dir + to
		}
		at = to
	}
	dir, base := filepath.Split(at)
	if slices.Contains(strings.Split(filepath.ToSlash(dir), "/"), "..") {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			at = filepath.Join(real, base)
		}
	}
	if at == path {
		return path, true
	}
	if is, err := os.Stat(path); err == nil {
		if found, err := os.Lstat(at); err != nil || !os.SameFile(is, found) {
			return path, false
		}
	}
	return at, true
}
