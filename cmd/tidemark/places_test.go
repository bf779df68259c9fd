package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/config"
)

// userEnv is the environment of an ordinary user whose home and temporary
// directory lie below dir.
func userEnv(dir string) config.Env {
	return config.Env{UID: 1000, Temp: filepath.Join(dir, "temp"), Getenv: func(name string) string {
		return map[string]string{"HOME": filepath.Join(dir, "home")}[name]
	}}
}

// put writes a file below a new directory.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPlacesOf: a drop-in beats the file, the file beats the default, and what
// stands before a fault counts.
func TestPlacesOf(t *testing.T) {
	tests := []struct {
		name, file, dropIn string
		data, run, notes   string // DIR is the test's directory
		private            bool
	}{
		{"nothing", "", "", "DIR/home/.local/state/tidemark/journal", "DIR/temp/tidemark-1000", "", true},
		{"file", "[Journal]\nData=/d\nRun=/r\n", "", "/d", "/r", "", false},
		{"drop-in", "[Journal]\nData=/d\nRun=/r\n", "[Journal]\nData=/d2\n", "/d2", "/r", "", false},
		{
			"fault", "[Journal]\nData=/d\nSync=often\nRun=/r\n", "", "/d", "DIR/temp/tidemark-1000",
			`warning: DIR/home/.config/tidemark/tidemark.conf:3: Sync=: invalid sync policy "often": want auto, all, or a duration from 1ms to 1h such as 250ms: ` +
				"Data= and Run= behind it were not read\n", true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			conf := filepath.Join(dir, "home/.config/tidemark/tidemark.conf")
			if tt.file != "" {
				put(t, conf, tt.file)
			}
			if tt.dropIn != "" {
				put(t, conf+".d/a.conf", tt.dropIn)
			}
			var notes strings.Builder
			p := placesOf(userEnv(dir), &notes)
			got := []string{p.data, p.run, notes.String()}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], dir, "DIR")
			}
			if diff := cmp.Diff([]string{tt.data, tt.run, tt.notes}, got); diff != "" || p.private != tt.private || p.uid != 1000 {
				t.Errorf("private %v, uid %d; places and notes (-want +got):\n%s", p.private, p.uid, diff)
			}
		})
	}
}

// TestOwnOrRoots: root's places serve who has never had a daemon.
func TestOwnOrRoots(t *testing.T) {
	tests := []struct {
		name  string
		there []string
		want  string
	}{
		{"nobody has one", nil, "own"},
		{"only root has files", []string{"roots/data/x"}, "roots"},
		{"only root has a socket", []string{"roots/run/" + config.ControlSocket}, "roots"},
		{"both", []string{"roots/data/x", "own/data/x"}, "own"},
		{"root has files, the user a socket", []string{"roots/data/x", "own/run/" + config.ControlSocket}, "own"},
		{"an empty run directory", []string{"roots/data/x", "own/run/x"}, "roots"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, path := range tt.there {
				put(t, filepath.Join(dir, path), "")
			}
			of := func(who string) places {
				return places{data: filepath.Join(dir, who, "data"), run: filepath.Join(dir, who, "run")}
			}
			if got := ownOrRoots(of("own"), of("roots")); got != of(tt.want) {
				t.Errorf("got %s, want %s", got.run, of(tt.want).run)
			}
		})
	}
}

// TestTrusted: in a place where anybody may make a directory only one of the
// user's own or of root's is used, that others cannot write to.
func TestTrusted(t *testing.T) {
	dir := t.TempDir()
	uid := os.Getuid()
	stranger := uid + 1
	make := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	put(t, file, "")
	mine := make("mine", 0o700)
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	foreign, owner := mine, stranger
	if uid == 0 { // root's own are trusted by everybody
		foreign, owner = make("foreign", 0o700), uid
		if err := os.Chown(foreign, stranger, 0); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, run string
		uid       int
		private   bool
		ok        bool
	}{
		{"mine", mine, uid, true, true},
		{"not there", filepath.Join(dir, "none"), uid, true, true},
		{"readable", make("readable", 0o755), uid, true, true},
		{"the group may write", make("group", 0o770), uid, true, false},
		{"all may write", make("all", 0o707), uid, true, false},
		{"somebody else's", foreign, owner, true, false},
		{"somebody else's, but named", foreign, owner, false, true},
		{"a link", link, uid, true, false},
		{"a file", file, uid, true, false},
	}
	for _, tt := range tests {
		p := places{run: tt.run, uid: tt.uid, private: tt.private}
		err := p.trusted()
		if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "remove it, or say where the daemon is with --run or TIDEMARK_RUN") {
			t.Errorf("%s: %v, want trusted %t", tt.name, err, tt.ok)
		}
		if used := p.used(); used {
			t.Errorf("%s: used, but there is no socket", tt.name)
		}
	}
	put(t, filepath.Join(foreign, config.ControlSocket), "")
	if (places{run: foreign, uid: owner, private: true}).used() {
		t.Error("a socket in somebody else's directory counts as the user's own")
	}
}
