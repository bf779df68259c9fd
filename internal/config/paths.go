package config

import (
	"errors"
	"path/filepath"
	"strconv"
)

// Env is what the default paths depend on.
type Env struct {
	// UID of the process; -1 where there is none.
	UID int
	// Getenv is os.Getenv.
	Getenv func(string) string
	// Temp is os.TempDir().
	Temp string
}

// Names of the sockets in the run directory, as journald's where it has them.
const (
	NativeSocket  = "socket"
	SyslogSocket  = "dev-log"
	StdoutSocket  = "stdout"
	ControlSocket = "io.systemd.journal" // varlink
	HTTPSocket    = "http"
)

// The directories of systemd-journald: of its files, of those that a reboot
// removes, and of its sockets. Tidemark reads there and keeps out of them.
const (
	JournaldFiles   = "/var/log/journal"
	JournaldRunning = "/run/log/journal"
	JournaldRun     = "/run/systemd/journal"
)

// MaxSocketPath is the longest path of a Unix socket in bytes: what fits into a
// struct sockaddr_un with the zero behind it.
const MaxSocketPath = 107

// The paths of root.
const (
	rootState  = "/var/lib/tidemark"
	rootRun    = "/run/tidemark"
	rootConfig = "/etc/tidemark"
	configName = "tidemark.conf"
	folder     = "tidemark"
)

// ErrNoHome: neither the XDG variable nor HOME says where a user's files are.
var ErrNoHome = errors.New("HOME is not set: name the directory with --data")

// StateDir is where tidemark keeps what must outlive it.
func (e Env) StateDir() (string, error) {
	if e.UID == 0 {
		return rootState, nil
	}
	return e.xdg("XDG_STATE_HOME", ".local/state")
}

// DataDir is the default directory of journal files.
func (e Env) DataDir() (string, error) {
	state, err := e.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "journal"), nil
}

// ConfigFile is the default configuration file.
func (e Env) ConfigFile() (string, error) {
	if e.UID == 0 {
		return filepath.Join(rootConfig, configName), nil
	}
	dir, err := e.xdg("XDG_CONFIG_HOME", ".config")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, configName), nil
}

// RunDir is the default directory of the sockets. private tells that it lies in
// a directory that others may write to: it must belong to this user alone, mode
// 0700, which who makes or uses it checks.
func (e Env) RunDir() (dir string, private bool) {
	if e.UID == 0 {
		return rootRun, false
	}
	if run := e.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		return filepath.Join(run, folder), false
	}
	return filepath.Join(e.Temp, folder+"-"+strconv.Itoa(e.UID)), true
}

// xdg is the folder tidemark in the directory that the variable names, else in
// one below HOME. The specification wants relative paths ignored.
func (e Env) xdg(variable, below string) (string, error) {
	if dir := e.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, folder), nil
	}
	if home := e.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, below, folder), nil
	}
	return "", ErrNoHome
}
