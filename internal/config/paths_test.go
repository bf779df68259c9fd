package config_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/config"
)

func TestPaths(t *testing.T) {
	tests := []struct {
		name                   string
		uid                    int
		env                    map[string]string
		data, state, run, conf string
		private                bool
	}{
		{
			"root", 0,
			map[string]string{"HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/0"},
			"/var/lib/tidemark/journal", "/var/lib/tidemark", "/run/tidemark", "/etc/tidemark/tidemark.conf", false,
		},
		{
			"user", 1000,
			map[string]string{"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000"},
			"/home/u/.local/state/tidemark/journal", "/home/u/.local/state/tidemark", "/run/user/1000/tidemark", "/home/u/.config/tidemark/tidemark.conf", false,
		},
		{
			"user with XDG directories", 1000,
			map[string]string{"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "XDG_RUNTIME_DIR": "relative", "HOME": "/home/u"},
			"/s/tidemark/journal", "/s/tidemark", "/tmp/tidemark-1000", "/c/tidemark/tidemark.conf", true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := config.Env{UID: tt.uid, Getenv: func(k string) string { return tt.env[k] }, Temp: "/tmp"}
			get := func(f func() (string, error)) string {
				s, err := f()
				if err != nil {
					t.Error(err)
				}
				return s
			}
			run, private := e.RunDir()
			got := []string{get(e.DataDir), get(e.StateDir), run, get(e.ConfigFile)}
			if diff := cmp.Diff([]string{tt.data, tt.state, tt.run, tt.conf}, got); diff != "" || private != tt.private {
				t.Errorf("private %v, want %v; paths (-want +got):\n%s", private, tt.private, diff)
			}
		})
	}
}

func TestPathsWithoutHome(t *testing.T) {
	e := config.Env{UID: 1000, Getenv: func(string) string { return "" }, Temp: "/tmp"}
	for _, f := range []func() (string, error){e.DataDir, e.StateDir, e.ConfigFile} {
		if _, err := f(); !errors.Is(err, config.ErrNoHome) {
			t.Errorf("error %v, want %v", err, config.ErrNoHome)
		}
	}
}
