package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
// Files that get another name meanwhile, as in a rotation, are not missed.
func OpenDir(dirs ...string) (*Journal, error) { return ReadOptions{}.OpenDir(dirs...) }

// dirLooks bounds how often directories are listed in which names change.
const dirLooks = 20

// OpenDir is OpenDir with options.
func (o ReadOptions) OpenDir(dirs ...string) (*Journal, error) {
	j := o.New()
	var paths []string // that were opened
	stable := false
	for look := 0; look < dirLooks && !stable; look++ {
		now, unlisted := o.listDirs(dirs)
		if len(unlisted) > 0 && len(unlisted) == len(dirs) && len(now) == 0 {
			return nil, errors.Join(append(unlisted, j.Close())...)
		}
		if stable = look > 0 && slices.Equal(now, paths); stable {
			break
		}
		paths, j.skipped = now, unlisted
		if o.Late && look == 0 {
			now = j.shelve(now)
		} else {
			j.shelves = nil
		}
		j.skipped = append(j.skipped, j.addAll(now)...)
	}
	if !stable { // what has gone has another name, or was removed
		j.skipped = slices.DeleteFunc(j.skipped, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	}
	for j.shelvesReady(up) {
		continue // until those in front are open
	}
	j.shelvesBehind = false
	return j, nil
}

// addAll adds files, and returns the errors of those that it could not. The first
// files of a Journal are opened at once, without looking for each among the others.
func (j *Journal) addAll(paths []string) (failed []error) {
	if len(j.files)+len(j.limbo) > 0 {
		for _, p := range paths {
			if err := j.Add(p); err != nil {
				failed = append(failed, err)
			}
		}
		return failed
	}
	seen := make(map[fileIdentity]*File, len(paths))
	for _, p := range paths {
		f, err := j.opts.OpenFile(p)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if known := seen[f.id]; known != nil && f.id != (fileIdentity{}) {
			known.name = p // as Add has it
			_ = f.Close()
			continue
		}
		seen[f.id] = f
		j.AddFile(f)
	}
	return failed
}

// listDirs lists what OpenDir is to open, and why directories could not be listed.
func (o ReadOptions) listDirs(dirs []string) (paths []string, unlisted []error) {
	for _, dir := range dirs {
		list, err := FilesIn(dir)
		if err != nil {
			unlisted = append(unlisted, err)
		}
		paths = append(paths, list...)
	}
	if o.Want != nil {
		paths = slices.DeleteFunc(paths, func(p string) bool { return !o.Want(p) })
	}
	return paths, unlisted
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
