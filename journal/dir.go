package journal

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

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
		l := o.listDirs(dirs)
		if len(l.unlisted) > 0 && len(l.unlisted) == len(dirs) && len(l.paths) == 0 {
			return nil, errors.Join(append(l.unlisted, j.Close())...)
		}
		if stable = look > 0 && slices.Equal(l.paths, paths); stable {
			break
		}
		paths, j.skipped = l.paths, l.unlisted
		now := paths
		if o.Late && look == 0 {
			now = j.shelve(now)
		} else {
			j.shelves = nil
		}
		j.skipped = append(j.skipped, j.addAll(now)...)
		stable = l.stillSo() // else the next look tells
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
func (o ReadOptions) listDirs(dirs []string) *listing {
	l := &listing{at: time.Now()}
	if o.now != nil {
		l.at = o.now()
	}
	for _, dir := range dirs {
		if err := l.add(dir); err != nil {
			l.unlisted = append(l.unlisted, err)
		}
	}
	if o.Want != nil {
		l.paths = slices.DeleteFunc(l.paths, func(p string) bool { return !o.Want(p) })
	}
	return l
}

// FilesIn lists the paths that OpenDir would open in dir, sorted within each
// directory. When it fails it returns what it has found nevertheless.
func FilesIn(dir string) ([]string, error) {
	var l listing
	err := l.add(dir)
	return l.paths, err
}
