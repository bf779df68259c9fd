package ingest

import (
	"strings"
	"testing"
)

func TestPlace(t *testing.T) {
	none := placement{owner: noID, slice: "-.slice"}
	tests := []struct {
		path string
		want placement
	}{
		{"/", none},
		{"/system.slice/foo.service", placement{owner: noID, slice: "system.slice", unit: "foo.service"}},
		{"/system.slice/foo.service/worker", placement{owner: noID, slice: "system.slice", unit: "foo.service"}},
		{"/system.slice/system-getty.slice/getty@tty1.service", placement{owner: noID, slice: "system-getty.slice", unit: "getty@tty1.service"}},
		{"/system.slice/_cpu.service", placement{owner: noID, slice: "system.slice", unit: "cpu.service"}},
		{"/foo.service", placement{owner: noID, slice: "-.slice", unit: "foo.service"}},
		{"/system.slice", placement{owner: noID, slice: "system.slice"}},
		{"/user.slice/user-1000.slice/session-3.scope", placement{
			owner: 1000, sessionID: "3", slice: "user-1000.slice", unit: "session-3.scope", userSlice: "-.slice",
		}},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope/y", placement{
			owner: 1000, slice: "user-1000.slice", unit: "user@1000.service", userSlice: "app.slice", userUnit: "app-x.scope",
		}},
		{"/user.slice/user-1000.slice/user@1000.service/init.scope", placement{
			owner: 1000, slice: "user-1000.slice", unit: "user@1000.service", userSlice: "-.slice", userUnit: "init.scope",
		}},
		{"/user.slice/user-1000.slice/session-c1.scope/foo.service", placement{
			owner: 1000, sessionID: "c1", slice: "user-1000.slice", unit: "session-c1.scope", userSlice: "-.slice", userUnit: "foo.service",
		}},
		{"/user.slice/user-x.slice/session-!.scope", placement{owner: noID, slice: "user-x.slice"}},
		{"/user.slice/user-65535.slice/a.service", placement{owner: noID, slice: "user-65535.slice", unit: "a.service"}},
		{"/docker/0123456789abcdef", none},
		{"/system.slice/docker-0123.scope", placement{owner: noID, slice: "system.slice", unit: "docker-0123.scope"}},
		{"/system.slice/foo@.service", placement{owner: noID, slice: "system.slice"}},
		{"/system.slice/foo@bar.slice/x.service", placement{owner: noID, slice: "system.slice"}},
		{"//system.slice//foo.service//", placement{owner: noID, slice: "system.slice", unit: "foo.service"}},
		{"/a.service", placement{owner: noID, slice: "-.slice", unit: "a.service"}},
		{"/.service", none},
		{"/" + strings.Repeat("a", 250) + ".service", none},
	}
	for _, tt := range tests {
		if got := place(tt.path); got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.path, got, tt.want)
		}
	}
}

func TestCgroupPath(t *testing.T) {
	tests := []struct{ name, file, root, want string }{
		{"unified", "0::/system.slice/a.service\n", "", "/system.slice/a.service"},
		{"legacy", "5:cpu,cpuacct:/x\n1:name=systemd:/system.slice/a.service\n", "", "/system.slice/a.service"},
		{"hybrid", "1:name=systemd:/system.slice/a.service\n0::/system.slice/a.service\n", "", "/system.slice/a.service"},
		{"hybrid, unified only", "9:name=systemd:/\n0::/system.slice/a.service\n", "", "/system.slice/a.service"},
		{"removed", "0::/system.slice/a.service (deleted)\n", "", "/system.slice/a.service"},
		{"colon", "0::/a:b.service\n", "", "/a:b.service"},
		{"no newline", "0::/a.service", "", "/a.service"},
		{"nothing", "", "", "/"},
		{"shifted", "0::/lxc/one/system.slice/a.service\n", "/lxc/one", "/system.slice/a.service"},
		{"not below", "0::/lxc/oneself/a.service\n", "/lxc/one", "/lxc/oneself/a.service"},
		{"root itself", "0::/lxc/one\n", "/lxc/one", "/"},
	}
	for _, tt := range tests {
		if got := shiftCgroup(cgroupPath([]byte(tt.file)), tt.root); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for path, want := range map[string]string{"/": "", "/init.scope": "", "/lxc/a/init.scope": "/lxc/a", "/lxc/a": "/lxc/a", "": ""} {
		if got := cgroupRoot(path); got != want {
			t.Errorf("root of %q: %q, want %q", path, got, want)
		}
	}
}

// FuzzCgroup: whatever a path holds, names are valid, and belong together.
func FuzzCgroup(f *testing.F) {
	f.Add("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope/y\n")
	f.Add("1:name=systemd:/system.slice/_cpu.service (deleted)\n0::/\n")
	f.Fuzz(func(t *testing.T, file string) {
		path := shiftCgroup(cgroupPath([]byte(file)), "/lxc")
		p := place(path)
		for _, unit := range []string{p.unit, p.userUnit} {
			if unit != "" && (!validUnit(unit, true) || strings.HasSuffix(unit, ".slice") || strings.Contains(unit, "/")) {
				t.Errorf("%q: unit %q", path, unit)
			}
		}
		for _, slice := range []string{p.slice, p.userSlice} {
			if slice != "" && (!validUnit(slice, false) || !strings.HasSuffix(slice, ".slice")) {
				t.Errorf("%q: slice %q", path, slice)
			}
		}
		if p.sessionID != "" && p.unit != "session-"+p.sessionID+".scope" {
			t.Errorf("%q: session %q of unit %q", path, p.sessionID, p.unit)
		}
		if p.owner != noID && !strings.HasPrefix(p.slice, "user-") {
			t.Errorf("%q: owner %d of slice %q", path, p.owner, p.slice)
		}
	})
}
