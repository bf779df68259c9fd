package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/vfs"
)

// ownUmask is what modes are given under, whatever the caller's is: users read
// their own files and reach the sockets.
const ownUmask = 0o022

// takePlaces settles on the directories, makes and locks the one of the
// sockets, and finds out the boot's id.
func (d *daemon) takePlaces() (err error) {
	cfg := d.config()
	if d.data = cfg.Data; d.data == "" {
		if d.data, err = d.o.Env.DataDir(); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if d.data, err = filepath.Abs(d.data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := notJournalds(d.data, config.JournaldFiles, config.JournaldRunning); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	private := false
	if d.run = cfg.Run; d.run == "" {
		d.run, private = d.o.Env.RunDir()
	}
	if d.run, err = filepath.Abs(d.run); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if err := notJournalds(d.run, config.JournaldRun); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if err := makeRunDir(d.run, private, d.o.Env.UID); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if d.runLock, err = store.LockDir(d.run); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if d.boot, err = config.ReadID(config.BootIDFile); err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	return nil
}

// notJournalds refuses a directory that is one of taken or lies in one, under
// whatever name: tidemark never touches the places of the system's journald.
func notJournalds(dir string, taken ...string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		for _, t := range taken {
			if other, otherErr := os.Stat(t); at == t || err == nil && otherErr == nil && os.SameFile(info, other) {
				return fmt.Errorf("%s belongs to systemd-journald (%s): choose another place", dir, t)
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// makeRunDir makes the directory of the sockets. A private one lies where
// others may write: it must be the user's own, and closed to others.
func makeRunDir(dir string, private bool, uid int) error {
	mode := os.FileMode(0o700)
	if uid == 0 {
		mode = 0o755
	}
	if longest := filepath.Join(dir, config.ControlSocket); len(longest) > config.MaxSocketPath {
		return fmt.Errorf("%s has %d bytes, a socket's path may have %d: choose a shorter --run", longest, len(longest), config.MaxSocketPath)
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	if !private {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != uid || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s must be a directory of yours with mode 0700: remove it or choose another --run", dir)
	}
	return nil
}

// findMachineID reads the machine's id, or the one made here earlier, or makes
// one and keeps it in the state directory.
func (d *daemon) findMachineID(etc string) (err error) {
	if d.machine, err = config.ReadID(etc); err == nil {
		return nil
	}
	dir, err := d.stateDir()
	if err != nil {
		return fmt.Errorf("machine id: %w", err)
	}
	own := filepath.Join(dir, "machine-id")
	if d.machine, err = config.ReadID(own); err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("machine id: %w", err)
	}
	if d.machine, err = makeMachineID(own); err != nil {
		return fmt.Errorf("machine id: %w", err)
	}
	d.say(fmt.Sprintf("there is no %s: made the machine id %s and keep it in %s", etc, d.machine, own))
	return nil
}

// stateDir is where what is neither log nor socket is kept: beside the default
// data directory, or in the data directory when there is no such place.
func (d *daemon) stateDir() (string, error) {
	dir, err := d.o.Env.StateDir()
	if errors.Is(err, config.ErrNoHome) {
		return d.data, nil
	}
	return dir, err
}

// makeMachineID makes a random id of version 4, as systemd does, and stores it.
func makeMachineID(path string) (entry.ID, error) {
	var id entry.ID
	if _, err := rand.Read(id[:]); err != nil {
		return entry.ID{}, err
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	disk := vfs.OS{}
	if err := vfs.MakeDirs(disk, filepath.Dir(path), 0o755); err != nil {
		return entry.ID{}, err
	}
	if err := replace(path, id.String()+"\n", 0o444, (*os.File).Sync); err != nil {
		return entry.ID{}, err
	}
	return id, disk.SyncDir(filepath.Dir(path))
}

// replaceFile gives path new contents: a reader finds the old ones or the new
// ones. A crash may leave a file of a temporary name. It is not synced.
func replaceFile(path, contents string, mode os.FileMode) error {
	return replace(path, contents, mode, func(*os.File) error { return nil })
}

// replace is replaceFile, with something to be done before the file gets its name.
func replace(path, contents string, mode os.FileMode, finish func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(contents)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = finish(f)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // the error at hand says more
	}
	return err
}
