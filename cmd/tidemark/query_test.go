package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDefaultDirs: tidemark's own directory; called as journalctl, those of
// journald too, of this machine only unless files are merged.
func TestDefaultDirs(t *testing.T) {
	id := ""
	if machine := machineID(); !machine.IsZero() {
		id = machine.String()
	}
	tests := []struct {
		name       string
		own        string
		all, merge bool
		want       []string
	}{
		{"query", "/own", false, false, []string{"/own"}},
		{"query, nobody says where", "", false, true, nil},
		{"journalctl", "/own", true, false, []string{"/own", filepath.Join("/run/log/journal", id), filepath.Join("/var/log/journal", id)}},
		{"journalctl --merge", "", true, true, []string{"/run/log/journal", "/var/log/journal"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, defaultDirs(tt.own, tt.all, tt.merge)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestSource: what the process is called by decides whose files are read, and
// -D and --file decide alone.
func TestSource(t *testing.T) {
	name := os.Args[0]
	defer func() { os.Args[0] = name }()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	own := findPlaces(environment(), io.Discard).data
	for called, want := range map[string][]string{
		"/usr/bin/tidemark": {own}, "tidemark": {own}, "journalctl": defaultDirs(own, true, false), "/usr/bin/journalctl": defaultDirs(own, true, false),
	} {
		os.Args[0] = called
		a := &queryArgs{}
		a.source(io.Discard)
		if diff := cmp.Diff(want, a.looked); diff != "" {
			t.Errorf("%s looks elsewhere (-want +got):\n%s", called, diff)
		}
		a = &queryArgs{directory: "/d"}
		if dirs, files := a.source(io.Discard); !cmp.Equal(dirs, []string{"/d"}) || files != nil {
			t.Errorf("%s -D /d reads %v %v", called, dirs, files)
		}
		a = &queryArgs{files: []string{"/f"}}
		if dirs, files := a.source(io.Discard); dirs != nil || !cmp.Equal(files, []string{"/f"}) {
			t.Errorf("%s --file /f reads %v %v", called, dirs, files)
		}
	}
}
