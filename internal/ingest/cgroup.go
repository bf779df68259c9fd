package ingest

import (
	"bytes"
	"strconv"
	"strings"
)

// placement is what a control group's path tells about a process that systemd
// manages.
type placement struct {
	sessionID        string // X of session-X.scope
	owner            uint32 // UID of user-UID.slice; noID: none
	unit, userUnit   string
	slice, userSlice string
}

// cgroupPath finds systemd's hierarchy in /proc/PID/cgroup: that of the name
// systemd, else the unified one. The rest of a group that has been removed is
// its path too.
func cgroupPath(file []byte) string {
	const systemd, unified = "name=systemd", ""
	path := ""
	for line := range bytes.Lines(file) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		i := bytes.IndexByte(line, ':')
		if i < 0 {
			continue
		}
		controllers, p, ok := bytes.Cut(line[i+1:], []byte{':'})
		if !ok {
			continue
		}
		switch string(controllers) {
		case systemd:
			if path == "" || len(p) > 1 {
				path = string(p)
			}
		case unified:
			if len(path) <= 1 {
				path = string(p)
			}
		}
	}
	return strings.TrimSuffix(path, " (deleted)")
}

// cgroupRoot is the root of the control groups that PID 1 manages, from its own.
func cgroupRoot(path string) string {
	for _, own := range []string{"/init.scope", "/system.slice", "/system"} {
		if root, ok := strings.CutSuffix(path, own); ok {
			return root
		}
	}
	return strings.TrimSuffix(path, "/")
}

// shiftCgroup makes path relative to root if it is below it.
func shiftCgroup(path, root string) string {
	if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
		if rest == "" {
			return "/"
		}
		return rest
	}
	return path
}

// place reads a control group's path as systemd does:
//
//	/A.slice/A-B.slice/UNIT/…
//	/user.slice/user-UID.slice/user@UID.service/C.slice/USERUNIT/…
//	/user.slice/user-UID.slice/session-X.scope/…
func place(path string) placement {
	p := placement{owner: noID}
	var rest string
	p.slice, rest = leadingSlices(path)
	p.unit = unitAt(rest)
	if id, ok := between(p.unit, "session-", ".scope"); ok && validSession(id) {
		p.sessionID = id
	}
	if id, ok := between(p.slice, "user-", ".slice"); ok {
		p.owner = parseUID(id)
	}
	if user, ok := skipUserManager(rest); ok {
		p.userSlice, rest = leadingSlices(user)
		p.userUnit = unitAt(rest)
	}
	return p
}

// leadingSlices returns the last of the slices that path begins with, "-.slice" if
// there is none, and what follows them.
func leadingSlices(path string) (last, rest string) {
	last = "-.slice"
	for {
		path = strings.TrimLeft(path, "/")
		name, after, _ := strings.Cut(path, "/")
		unit := unescapeCgroup(name)
		if !strings.HasSuffix(name, ".slice") || len(name) < len("x.slice") || !validUnit(unit, false) {
			return last, path
		}
		last, path = unit, after
	}
}

// unitAt returns the unit that path begins with; empty if that is none, or a
// slice.
func unitAt(path string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(path, "/"), "/")
	unit := unescapeCgroup(name)
	if len(name) < 3 || !validUnit(unit, true) || strings.HasSuffix(unit, ".slice") {
		return ""
	}
	return unit
}

// skipUserManager skips user@UID.service or session-X.scope.
func skipUserManager(path string) (rest string, ok bool) {
	name, rest, _ := strings.Cut(strings.TrimLeft(path, "/"), "/")
	if id, is := between(name, "user@", ".service"); is && parseUID(id) != noID {
		return rest, true
	}
	if id, is := between(name, "session-", ".scope"); is && validSession(id) {
		return rest, true
	}
	return "", false
}

// between returns what stands between prefix and suffix.
func between(s, prefix, suffix string) (string, bool) {
	s, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(s, suffix)
}

// unescapeCgroup undoes the '_' that systemd puts before names which the kernel
// might claim.
func unescapeCgroup(name string) string { return strings.TrimPrefix(name, "_") }

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

func only(s, allowed string) bool {
	return s != "" && strings.Trim(s, allowed) == ""
}

func validSession(id string) bool { return only(id, letters+digits) }

// parseUID reads a decimal uid; noID if it is none.
func parseUID(s string) uint32 {
	if !only(s, digits) || len(s) > 1 && s[0] == '0' {
		return noID
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0xffff {
		return noID
	}
	return uint32(n)
}

// maxUnitName is the longest name of a unit in bytes.
const maxUnitName = 255

// validUnit reports whether name is that of a unit of any type: a plain one, or,
// if instances are allowed, NAME@INSTANCE.TYPE.
func validUnit(name string, instance bool) bool {
	dot := strings.LastIndexByte(name, '.')
	if len(name) > maxUnitName || dot <= 0 {
		return false
	}
	switch name[dot+1:] {
	case "service", "socket", "target", "device", "mount", "automount", "swap", "timer", "path", "slice", "scope":
	default:
		return false
	}
	prefix := name[:dot]
	at := strings.IndexByte(prefix, '@')
	switch {
	case !only(prefix, digits+letters+`:-_.\@`):
		return false
	case at < 0:
		return true
	}
	return instance && at > 0 && at < len(prefix)-1
}
