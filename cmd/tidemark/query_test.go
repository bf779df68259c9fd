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
	type test struct {
		name       string
		own        string
		all, merge bool
		namespace  string
		want       []string
	}
	tests := []test{
		{"query", "/own", false, false, "", []string{"/own"}},
		{"query, nobody says where", "", false, true, "", nil},
		{"journalctl", "/own", true, false, "", []string{"/own", filepath.Join("/run/log/journal", id), filepath.Join("/var/log/journal", id)}},
		{"journalctl --merge", "", true, true, "", []string{"/run/log/journal", "/var/log/journal"}},
	}
	if id != "" {
		tests = append(tests, []test{
			{"journalctl --namespace=x", "", true, false, "x", []string{"/run/log/journal/" + id + ".x", "/var/log/journal/" + id + ".x"}},
			{"journalctl --namespace=+x", "", true, false, "+x", []string{"/run/log/journal/" + id, "/run/log/journal/" + id + ".x", "/var/log/journal/" + id, "/var/log/journal/" + id + ".x"}},
		}...)
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, defaultDirs(tt.own, tt.all, tt.merge, tt.namespace)); diff != "" {
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
		"/usr/bin/tidemark": {own}, "tidemark": {own}, "journalctl": defaultDirs(own, true, false, ""), "/usr/bin/journalctl": defaultDirs(own, true, false, ""),
	} {
		os.Args[0] = called
		a := &queryArgs{}
		a.source(io.Discard)
		if diff := cmp.Diff(want, a.looked); diff != "" {
			t.Errorf("%s looks elsewhere (-want +got):\n%s", called, diff)
		}
		a = &queryArgs{dirs: []string{"/d"}}
		if dirs, files := a.source(io.Discard); !cmp.Equal(dirs, []string{"/d"}) || files != nil {
			t.Errorf("%s -D /d reads %v %v", called, dirs, files)
		}
		a = &queryArgs{files: []string{"/f"}}
		if dirs, files := a.source(io.Discard); dirs != nil || !cmp.Equal(files, []string{"/f"}) {
			t.Errorf("%s --file /f reads %v %v", called, dirs, files)
		}
	}
}

// TestWants: of the subdirectories of what is read, those of the namespace asked
// for; what was named itself is read, whatever it is called.
func TestWants(t *testing.T) {
	const id = "ff0d035a90fb403c855864972948eda3"
	space := "/j/" + id + ".space/system.journal"
	for asked, want := range map[string][2]bool{"": {true, false}, "space": {false, true}, "+space": {true, true}, "*": {true, true}, "other": {false, false}, "+other": {true, false}} {
		a := &queryArgs{namespace: asked, looked: []string{"/j/"}}
		if got := [2]bool{a.wants("/j/" + id + "/system.journal"), a.wants(space)}; got != want {
			t.Errorf("--namespace=%s: default namespace %v, space %v", asked, got[0], got[1])
		}
		inTurn := a.wantsInTurn()
		for _, path := range []string{"/j/" + id + "/system.journal", "/j/" + id + "/user-1.journal", space, space} {
			if got := inTurn(path); got != a.wants(path) {
				t.Errorf("--namespace=%s: %s in turn %v", asked, path, got)
			}
		}
	}
	a := &queryArgs{looked: []string{"/j/" + id + ".space"}}
	if !a.wants(space) {
		t.Error("a directory that was named is not read")
	}
}
