package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
)

// environment tells the default paths of this process.
func environment() config.Env {
	return config.Env{UID: os.Geteuid(), Getenv: os.Getenv, Temp: os.TempDir()}
}

// machineID is this machine's id, zero where it has none.
func machineID() entry.ID {
	id, err := config.ReadID(config.MachineIDFile)
	if err != nil {
		return entry.ID{}
	}
	return id
}

// places are the directories of one daemon.
type places struct {
	data    string // empty: neither a file nor the environment says where
	run     string
	private bool // run lies where others may write, and must be looked at before use
	uid     int  // whom a private run belongs to, root aside
}

// findPlaces returns the directories that `tidemark serve` uses for the same user
// and configuration. A user who has never had a daemon means root's. notes gets a
// line about a configuration that cannot be read to its end.
func findPlaces(env config.Env, notes io.Writer) places {
	own := placesOf(env, notes)
	if env.UID == 0 {
		return own
	}
	return ownOrRoots(own, rootsPlaces(env))
}

// ownOrRoots prefers the user's own places if a daemon has ever used them.
func ownOrRoots(own, roots places) places {
	if !own.used() && roots.used() {
		return roots
	}
	return own
}

// rootsPlaces are those of root's daemon. What is wrong with its configuration is
// for root to know.
func rootsPlaces(env config.Env) places {
	env.UID = 0
	return placesOf(env, io.Discard)
}

// placesOf reads the configuration of a user. What stands before a fault counts:
// a daemon that is up keeps its settings too.
func placesOf(env config.Env, notes io.Writer) places {
	c := config.Defaults()
	if path, err := env.ConfigFile(); err == nil {
		if c, _, err = config.Load(path, false); err != nil {
			_, _ = fmt.Fprintf(notes, "warning: %v: Data= and Run= behind it were not read\n", err)
		}
	}
	p := places{data: c.Data, run: c.Run, uid: env.UID}
	if p.data == "" {
		p.data, _ = env.DataDir() // without a home there is none
	}
	if p.run == "" {
		p.run, p.private = env.RunDir()
	}
	return p
}

// used reports whether a daemon has been there. A private run directory that
// somebody else has made says nothing.
func (p places) used() bool {
	if p.data != "" && isThere(p.data) {
		return true
	}
	return p.trusted() == nil && isThere(filepath.Join(p.run, config.ControlSocket))
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// trusted refuses a run directory in a place where anybody may make one, unless
// it belongs to the user or root and nobody else can put a socket there.
func (p places) trusted() error {
	if !p.private {
		return nil
	}
	info, err := os.Lstat(p.run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != p.uid && st.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: somebody else may listen there: it must be a directory of yours with mode 0700: remove it, or say where the daemon is with --run or TIDEMARK_RUN", p.run)
	}
	return nil
}

// runDir is where a command finds the daemon's sockets: the flag --run when it is
// given, else TIDEMARK_RUN, else as findPlaces says.
func runDir(flag string, notes io.Writer) (string, error) {
	env := environment()
	if flag != "" {
		return flag, nil
	}
	if dir := env.Getenv("TIDEMARK_RUN"); dir != "" {
		return dir, nil
	}
	p := findPlaces(env, notes)
	return p.run, p.trusted()
}

// runHelp is the help of --run of every command.
const runHelp = "`directory` of the daemon's sockets (default: $TIDEMARK_RUN, else Run= of tidemark.conf, else serve's; root's if you have no daemon of your own)"

// unreachable says why the daemon behind socket cannot be reached, and what to do.
func unreachable(socket string, err error) error {
	if len(socket) > config.MaxSocketPath {
		return fmt.Errorf("%s: socket path longer than %d bytes: name a shorter directory with --run", socket, config.MaxSocketPath)
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("%s: %w: if the daemon was stopping, try again once it is up", socket, err)
	}
	switch errno {
	case syscall.ENOENT, syscall.ECONNREFUSED:
		also := ""
		if env := environment(); env.UID != 0 {
			if root := rootsPlaces(env); isThere(filepath.Join(root.run, filepath.Base(socket))) && root.run != filepath.Dir(socket) {
				also = "; root's would be in " + root.run
			}
		}
		return fmt.Errorf("%s: no daemon answers: start one with tidemark serve, or say where it is with --run or TIDEMARK_RUN%s", socket, also)
	case syscall.EACCES, syscall.EPERM:
		return fmt.Errorf("%s: %w: run this as the user of that daemon or as root, or say where another one is with --run or TIDEMARK_RUN", socket, errno)
	default:
		return fmt.Errorf("%s: %w: say where the daemon is with --run or TIDEMARK_RUN", socket, errno)
	}
}
