package slowfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Options of a file system.
type Options struct {
	// Rules in force from the start.
	Rules []Rule
	// PowerCut notes what syncs cover, for Image and Cut. It costs memory: the
	// contents of the files, and a page for each page written since the last sync.
	PowerCut bool
}

// Server is a mounted file system, in the process that serves it; tests want
// Mount. It may be used concurrently.
type Server struct {
	gate *gate
	disk *disk // nil: nothing is noted
	mnt  string

	unlocked bell // a lock was given back
}

// Serve mounts dir at mnt, two directories that exist. Nobody else may change
// what is in dir until Close. The process must use nothing below mnt itself.
func Serve(dir, mnt string, o Options) (*Server, error) {
	s := &Server{gate: newGate()}
	if err := s.gate.set(o.Rules); err != nil {
		return nil, err
	}
	var err error
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if s.mnt, err = filepath.Abs(mnt); err != nil {
		return nil, err
	}
	if o.PowerCut {
		s.disk = newDisk()
		if err := s.disk.load(dir); err != nil {
			return nil, err
		}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", dir, err)
	}
	data := &fs.LoopbackRoot{Path: dir, Dev: st.Dev}
	root := &node{LoopbackNode: &fs.LoopbackNode{RootData: data}, s: s}
	data.RootNode = root
	if _, err := fs.Mount(s.mnt, root, mountOptions(dir)); err != nil {
		return nil, fmt.Errorf("mount %s: %w", s.mnt, err)
	}
	return s, nil
}

// mountOptions: names and attributes are not cached, so that what changes is
// seen at once; doc.go says why there is no writeback cache.
func mountOptions(dir string) *fs.Options {
	o := &fs.Options{MountOptions: fuse.MountOptions{
		FsName:               dir,
		Name:                 "slowfs",
		MaxWrite:             1 << 20,
		EnableLocks:          true,
		IgnoreSecurityLabels: true,
		DirectMount:          true,
		DirectMountStrict:    os.Geteuid() == 0, // its errors say more than fusermount's
		DisabledCapabilities: fuse.CAP_PASSTHROUGH | fuse.CAP_WRITEBACK_CACHE,
	}}
	if os.Geteuid() == 0 {
		o.AllowOther = true
		o.Options = []string{"default_permissions"}
	}
	return o
}

// Set replaces all rules. Calls that no rule holds any more go on, under the new
// rules. A rule that makes no sense is an error, and the old ones stay.
func (s *Server) Set(rules ...Rule) error { return s.gate.set(rules) }

// Calls returns how many calls of a kind have come since the mount.
func (s *Server) Calls(c Call) int { return s.gate.count(c) }

// Image writes one of the states that a power cut now could leave into out, a
// directory that it makes or that is empty; seed chooses which. The file
// system goes on.
func (s *Server) Image(seed uint64, out string) error { return s.image(seed, out, false) }

// Cut is Image at the moment at which the power goes: from then on every change, sync
// and lock is refused with EIO, held ones too. Close follows.
func (s *Server) Cut(seed uint64, out string) error {
	err := s.image(seed, out, true)
	s.gate.end(syscall.EIO)
	return err
}

func (s *Server) image(seed uint64, out string, cut bool) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if _, inside := below(out, s.mnt); inside {
		return fmt.Errorf("image %s is to be outside of the mount %s", out, s.mnt)
	}
	return s.disk.image(seed, out, cut)
}

// Close lets held calls go and unmounts, also when files are open. They get ENOTCONN
// when the process has ended.
func (s *Server) Close() error {
	s.gate.end(0)
	return unmount(s.mnt)
}

// unmount detaches what is mounted at a place, at once: who has files open there
// keeps nobody else waiting.
func unmount(mnt string) error {
	err := unix.Unmount(mnt, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	tool, err := fusermount()
	if err != nil {
		return err
	}
	if out, err := exec.Command(tool, "-u", "-z", mnt).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", tool, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// fusermount finds the program that mounts for users other than root.
func fusermount() (string, error) {
	if tool, err := exec.LookPath("fusermount3"); err == nil {
		return tool, nil
	}
	return exec.LookPath("fusermount")
}
