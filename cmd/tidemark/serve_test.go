package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/settle"
)

// loadServe reads the configuration of a command line of serve.
func loadServe(t *testing.T, args ...string) (config.Config, error) {
	t.Helper()
	cmd, f := &cobra.Command{}, serveFlags{}
	f.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	c, _, err := f.load(cmd)
	return c, err
}

// TestServeFlags: each flag beats the drop-in, which beats the file, and leaves
// the others alone.
func TestServeFlags(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "t.conf")
	put(t, conf, "[Journal]\nData=/file/data\nRun=/file/run\nSync=2s\nNotify=0\nHTTP=127.0.0.1:1\n")
	put(t, conf+".d/a.conf", "[Journal]\nRun=/drop/run\n")
	file := config.Defaults()
	file.Data, file.Run, file.Sync, file.Notify, file.HTTP = "/file/data", "/drop/run", settle.Every(2*time.Second), 0, []string{"127.0.0.1:1"}
	tests := []struct {
		name string
		args []string
		want func(c *config.Config)
	}{
		{"none", nil, func(*config.Config) {}},
		{"data", []string{"--data", "d"}, func(c *config.Config) { c.Data = "d" }},
		{"run", []string{"--run", "r"}, func(c *config.Config) { c.Run = "r" }},
		{"sync", []string{"--sync", "all"}, func(c *config.Config) { c.Sync = settle.All() }},
		{"notify", []string{"--notify", "1s"}, func(c *config.Config) { c.Notify = time.Second }},
		{"one address", []string{"--http", "127.0.0.1:2"}, func(c *config.Config) { c.HTTP = []string{"127.0.0.1:2"} }},
		{"addresses, the default among them", []string{"--http", config.DefaultHTTP, "--http", "[::1]:2"}, func(c *config.Config) { c.HTTP = []string{config.DefaultHTTP, "[::1]:2"} }},
		{"off", []string{"--http", "off"}, func(c *config.Config) { c.HTTP = nil }},
		{"off, then an address", []string{"--http", "off", "--http", "127.0.0.1:2"}, func(c *config.Config) { c.HTTP = []string{"127.0.0.1:2"} }},
	}
	same := cmp.Options{
		cmpopts.IgnoreUnexported(config.Config{}), cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b settle.Policy) bool { return a == b }),
	}
	for _, tt := range tests {
		want := file
		tt.want(&want)
		got, err := loadServe(t, append([]string{"--config", conf}, tt.args...)...)
		if diff := cmp.Diff(want, got, same); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	for _, addr := range []string{"", "19531", "0.0.0.0:1"} {
		if _, err := loadServe(t, "--config", conf, "--http", "127.0.0.1:2", "--http", addr); err == nil {
			t.Errorf("--http %q is taken", addr)
		}
	}
}

// TestServeDefaultConfig: without --config the user's own file is read, if there
// is one; one that was named must exist.
func TestServeDefaultConfig(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	missing := filepath.Join(home, "missing")
	if _, err := loadServe(t, "--config", missing); err == nil {
		t.Error("a missing file that was named is no error")
	}
	if os.Geteuid() == 0 {
		return // root's is not the test's to write; the script places.txtar has a user's
	}
	c, err := loadServe(t)
	if err != nil || c.Data != "" {
		t.Errorf("without a file: data %q, %v", c.Data, err)
	}
	put(t, filepath.Join(home, "tidemark/tidemark.conf"), "[Journal]\nData=/d\n")
	if c, err = loadServe(t); err != nil || c.Data != "/d" {
		t.Errorf("data %q, %v", c.Data, err)
	}
}

// TestOneMoreThread: serve has a turn to spare, unless the environment says how many.
func TestOneMoreThread(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, tt := range []struct {
		env  string
		want int
	}{{"1", before}, {"", before + 1}} {
		t.Setenv("GOMAXPROCS", tt.env)
		oneMoreThread()
		if got := runtime.GOMAXPROCS(0); got != tt.want {
			t.Errorf("GOMAXPROCS=%q: %d, want %d", tt.env, got, tt.want)
		}
	}
}
