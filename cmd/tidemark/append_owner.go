package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/linelog"
)

// own makes this process one of many that append to the log path, or with alone the
// only one, which may rotate it. That one holds the lock of a file beside the log,
// which stays where it is when the log is renamed, and notes its pid there. Of programs
// that know nothing of it those are seen that have the log open now.
func own(path string, alone bool) (release func(), err error) {
	if _, err := os.Readlink(path); err == nil { // only then its lock is beside another name
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
	}
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
	if !alone {
		return func() {}, notOwned(path, name)
	}
	// Before a lock is left beside a device, or is refused there.
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err := fmt.Errorf("open %s: %w", path, linelog.ErrNoRotation)
		return nil, withStep(err, openStep(err))
	}
	lock, err := vfs.OS{}.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, withStep(err, openStep(err))
	}
	if err = lock.Lock(vfs.Fcntl, false); errors.Is(err, vfs.ErrLocked) {
		err = owned(path, lock)
	}
	if err == nil {
		err = unused(path)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	// The pid is for people: on a full disk it may be missing.
	text := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if n, err := lock.WriteAt(text, 0); err == nil {
		_ = lock.Truncate(int64(n))
	}
	return func() { _ = lock.Close() }, nil
}

// notOwned returns an error if somebody holds the lock name of the log path.
func notOwned(path, name string) error {
	lock, err := vfs.OS{}.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil //nolint:nilerr // nobody has ever rotated it, as far as we may see
	}
	defer lock.Close()
	if pid, err := lock.LockedBy(); err != nil || pid == 0 {
		return nil //nolint:nilerr // no such locks here, so nobody has one
	}
	return owned(path, lock)
}

// owned is the error that says whose lock it is.
func owned(path string, lock vfs.File) error {
	b := make([]byte, 32)
	n, _ := lock.ReadAt(b, 0) // it is shorter
	who := "another process"
	if pid := strings.TrimSpace(string(b[:n])); pid != "" {
		who = "process " + pid
	}
	return fmt.Errorf("%s: %s rotates it, and is the only one that may append to it: end that, or name another file", path, who)
}

// unused returns an error if somebody is known to have path open for writing.
func unused(path string) error {
	f, err := vfs.OS{}.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return withStep(err, openStep(err))
	}
	defer f.Close()
	if f.Regular() && errors.Is(f.NoWriter(), vfs.ErrInUse) {
		return fmt.Errorf("%s: another process has it open for writing, and would go on in the file before: end that, or leave out the options of rotation", path)
	}
	return nil
}
