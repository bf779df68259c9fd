package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// IsFileName reports whether a directory entry of this name is read as a
// journal file: NAME.journal, or NAME.journal~ for one that was set aside.
func IsFileName(name string) bool {
	return strings.HasSuffix(name, ".journal") || strings.HasSuffix(name, ".journal~")
}

// IsSubdirName reports whether a directory of this name, inside a directory of
// journals, is read too: a 128-bit id, with or without ".NAMESPACE".
func IsSubdirName(name string) bool {
	id, namespace, found := strings.Cut(name, ".")
	if found && !validNamespace(namespace) {
		return false
	}
	_, err := entry.ParseID(id)
	return err == nil
}

// validNamespace is what systemd takes for the name of a journal namespace.
func validNamespace(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(`:-_.\@`, rune(c)) {
			return false
		}
	}
	return s != ""
}

// OpenDir opens all journal files of the directories and of those of their
// subdirectories that IsSubdirName, to be read by pread. What cannot be opened
// is collected in Skipped; it fails when none of the directories can be listed.
func OpenDir(dirs ...string) (*Journal, error) { return ReadOptions{}.OpenDir(dirs...) }

// OpenDir is OpenDir with options.
func (o ReadOptions) OpenDir(dirs ...string) (*Journal, error) {
	j := o.New()
	listed := false
	for _, dir := range dirs {
		paths, err := FilesIn(dir)
		if err != nil {
			j.skipped = append(j.skipped, err)
		}
		listed = listed || err == nil || len(paths) > 0
		for _, p := range paths {
			if err := j.Add(p); err != nil {
				j.skipped = append(j.skipped, err)
			}
		}
	}
	if !listed && len(dirs) > 0 {
		return nil, errors.Join(j.skipped...)
	}
	return j, nil
}

// FilesIn lists the paths that OpenDir would open in dir, sorted within each
// directory. When it fails it returns what it has found nevertheless.
func FilesIn(dir string) ([]string, error) {
	var paths, subdirs []string
	list, err := os.ReadDir(dir)
	errs := []error{err}
	for _, d := range list {
		name := d.Name()
		switch {
		case IsFileName(name) && mayBe(d, 0):
			paths = append(paths, filepath.Join(dir, name))
		case IsSubdirName(name) && mayBe(d, fs.ModeDir):
			subdirs = append(subdirs, filepath.Join(dir, name))
		}
	}
	for _, sub := range subdirs {
		list, err := os.ReadDir(sub)
		errs = append(errs, err)
		for _, d := range list {
			if IsFileName(d.Name()) && mayBe(d, 0) {
				paths = append(paths, filepath.Join(sub, d.Name()))
			}
		}
	}
	return paths, errors.Join(errs...)
}

// mayBe reports whether d has the type or is a link, which may lead to it.
func mayBe(d fs.DirEntry, t fs.FileMode) bool {
	return d.Type() == t || d.Type() == fs.ModeSymlink
}
