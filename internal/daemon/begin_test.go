package daemon

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/sockdir"
	"github.com/tidemark-log/tidemark/internal/store"
)

// inUse locks a directory as another tidemark would.
func inUse(t *testing.T, dir string) {
	t.Helper()
	l, err := store.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
}

// answers listens on a socket as another daemon would.
func answers(t *testing.T, network, addr string) string {
	t.Helper()
	if network == "unixgram" {
		l, err := net.ListenUnixgram(network, &net.UnixAddr{Name: addr, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return addr
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// emptyFile makes one.
func emptyFile(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatCannotBegin(t *testing.T) {
	another := fmt.Sprintf("is in use by another tidemark, pid %d", os.Getpid())
	tests := []struct {
		name string
		make func(t *testing.T, p *place)
		want string
	}{
		{"data in use", func(t *testing.T, p *place) { inUse(t, p.Data) }, another},
		{"run in use", func(t *testing.T, p *place) { inUse(t, p.Run) }, another},
		{"path too long", func(_ *testing.T, p *place) { p.Run += strings.Repeat("/x", 50) }, "a socket's path may have 107: choose a shorter --run"},
		{"port in use", func(t *testing.T, p *place) { p.configure(t, "HTTP="+answers(t, "tcp", "127.0.0.1:0")) }, "the address is in use: choose another with --http"},
		{"not loopback", func(t *testing.T, p *place) { p.configure(t, "HTTP=0.0.0.0:0") }, "only loopback addresses are served yet"},
		{"not an address", func(t *testing.T, p *place) { p.configure(t, "HTTP=19531") }, "want ADDRESS:PORT"},
		{"no port", func(t *testing.T, p *place) { p.configure(t, "HTTP=127.0.0.1:99999") }, "is no port"},
		{"data is a file", func(t *testing.T, p *place) { p.Data = emptyFile(t, filepath.Join(p.Data, "file")) }, "file: not a directory"},
		{"something in the socket's place", func(t *testing.T, p *place) { emptyFile(t, filepath.Join(p.Run, config.ControlSocket)) }, "it exists and is no socket"},
		{"somebody answers on the socket", func(t *testing.T, p *place) { answers(t, "unix", filepath.Join(p.Run, config.HTTPSocket)) }, "another process answers on it"},
		{"somebody answers on the native socket", func(t *testing.T, p *place) { answers(t, "unixgram", filepath.Join(p.Run, config.NativeSocket)) }, "another process answers on it: stop it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			tt.make(t, &p)
			err := Run(t.Context(), p.options(io.Discard, io.Discard))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run = %v, want %s", err, tt.want)
			}
			// What is wrong elsewhere shows before the data is touched.
			if list, err := os.ReadDir(p.Data); err == nil && len(list) > 0 && tt.name != "data in use" {
				t.Errorf("left in the data directory: %v", list)
			}
		})
	}
}

func TestStaleSocketIsRemoved(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{config.ControlSocket, config.HTTPSocket} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(p.Run, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	start(t, p)
}

func TestMachineIDIsMadeAndKept(t *testing.T) {
	dir := t.TempDir()
	var ids []string
	var errOut lockedBuffer
	for range 2 {
		o := newPlace(t).options(io.Discard, &errOut)
		o.Env = config.Env{UID: 1000, Getenv: func(k string) string { return map[string]string{"XDG_STATE_HOME": dir}[k] }}
		d := &daemon{o: o}
		if err := d.findMachineID(filepath.Join(dir, "none")); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.machine.String())
	}
	if ids[0] != ids[1] || ids[0][12] != '4' || !slices.Contains([]byte("89ab"), ids[0][16]) {
		t.Errorf("ids %v, want the same random id of version 4", ids)
	}
	if n := strings.Count(errOut.String(), "made the machine id "+ids[0]); n != 1 {
		t.Errorf("said %d times: %s", n, &errOut)
	}
}

func TestPrivateRunDir(t *testing.T) {
	dir := filepath.Join(sockdir.New(t), "run")
	if err := makeRunDir(dir, true, os.Geteuid()); err != nil && os.Geteuid() != 0 {
		t.Errorf("new directory: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeRunDir(dir, true, os.Geteuid()); err == nil || !strings.Contains(err.Error(), "mode 0700") {
		t.Errorf("directory open to others: %v", err)
	}
	link := dir + "-link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := makeRunDir(link, true, os.Geteuid()); err == nil {
		t.Error("a link is taken for a private directory")
	}
}
