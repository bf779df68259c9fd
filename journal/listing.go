package journal

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// listing is the journal files in directories.
type listing struct {
	paths    []string // sorted within each directory
	unlisted []error
	at       time.Time // when it was begun
	marks    []dirMark // of what was listed, before it was
}

// dirMark tells two states of a directory apart: a file that comes, goes or gets
// another name changes it. The zero one tells nothing.
type dirMark struct {
	path    string
	file    fileIdentity
	changed int64 // st_ctime in ns: no call sets it back
}

// dirSettled is how old a change has to be for the next one to have another time:
// more than the 2 s of the coarsest file system.
const dirSettled = 3 * time.Second

// stillSo reports whether the directories certainly hold what was found: none has
// changed since a time before the listing began. It asks the file system what a
// second listing would tell, for the price of a call.
func (l *listing) stillSo() bool {
	for _, m := range l.marks {
		if m.file == (fileIdentity{}) || m.changed > l.at.Add(-dirSettled).UnixNano() || dirMarkOf(m.path) != m {
			return false
		}
	}
	return len(l.unlisted) == 0
}

// add lists a directory and those of its subdirectories that are read too. When it
// fails it has added what it has found nevertheless.
func (l *listing) add(dir string) error {
	subdirs, err := l.addFiles(dir)
	errs := []error{err}
	for _, sub := range subdirs {
		_, err := l.addFiles(sub)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (l *listing) addFiles(dir string) (subdirs []string, err error) {
	l.marks = append(l.marks, dirMarkOf(dir))
	first, prefix := len(l.paths), pathPrefix(dir)
	err = readNames(dir, func(name []byte, t fs.FileMode) {
		mayBe := func(want fs.FileMode) bool { return t == want || t == fs.ModeSymlink } // which may lead to it
		switch n := string(name); {
		case mayBe(0) && IsFileName(n):
			l.paths = append(l.paths, prefix+n)
		case mayBe(fs.ModeDir) && IsSubdirName(n):
			subdirs = append(subdirs, prefix+n)
		}
	})
	slices.Sort(l.paths[first:])
	slices.Sort(subdirs)
	return subdirs, err
}

// pathPrefix is what filepath.Join sets before the name of a file in dir.
func pathPrefix(dir string) string {
	const name = "x"
	path := filepath.Join(dir, name)
	return path[:len(path)-len(name)]
}
