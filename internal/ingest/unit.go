package ingest

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

// unitSettings are what systemd leaves for journald in /run/systemd/units.
type unitSettings struct {
	levelMax     int8 // messages above this level are dropped; -1: none are
	limitSet     bool // rateInterval and rateBurst replace the configuration's
	rateInterval time.Duration
	rateBurst    uint32
	extra        string // LogExtraFields= as systemd encodes it
}

// maxExtraFields bounds the size of a unit's extra fields in bytes.
const maxExtraFields = 64 << 10

// readUnit reads what systemd says about the unit of f.
func (p *procReader) readUnit(f *facts) {
	if id, ok := p.invocation(f); ok {
		f.invocation = id
	}
	f.levelMax, f.limitSet, f.extra = -1, false, ""
	if f.unit == "" || p.units == "" {
		return
	}
	if b, ok := p.unitLink("log-level-max", f.unit); ok {
		f.levelMax = levelOf(string(b))
	}
	interval, hasInterval := p.unitNumber("log-rate-limit-interval", f.unit)
	burst, hasBurst := p.unitNumber("log-rate-limit-burst", f.unit)
	if hasInterval && hasBurst {
		f.limitSet = true
		f.rateInterval = time.Duration(min(interval, uint64(1<<63/1000-1))) * time.Microsecond
		f.rateBurst = uint32(min(burst, 1<<31))
	}
	if b, ok := p.file(unix.AT_FDCWD, filepath.Join(p.units, "log-extra-fields:"+f.unit)); ok && len(b) <= maxExtraFields {
		f.extra = string(b)
	}
}

// invocation finds the invocation ID of a unit. The directory of a user manager
// is the user's: nothing in it is followed, and no other file system entered.
func (p *procReader) invocation(f *facts) (string, bool) {
	var b []byte
	ok := false
	switch {
	case f.userUnit != "" && f.owner != noID && p.users != "":
		dir := filepath.Join(p.users, strconv.FormatUint(uint64(f.owner), 10))
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", false
		}
		defer unix.Close(fd)
		how := unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		}
		link, err := unix.Openat2(fd, "systemd/units/invocation:"+f.userUnit, &how)
		if err != nil {
			return "", false
		}
		defer unix.Close(link)
		b, ok = p.link(link, "")
	case f.unit != "" && p.units != "":
		b, ok = p.unitLink("invocation", f.unit)
	}
	if !ok {
		return "", false
	}
	id, err := entry.ParseID(string(b))
	if err != nil || id.IsZero() {
		return "", false
	}
	return id.String(), true
}

func (p *procReader) unitLink(kind, unit string) ([]byte, bool) {
	return p.link(unix.AT_FDCWD, filepath.Join(p.units, kind+":"+unit))
}

func (p *procReader) unitNumber(kind, unit string) (uint64, bool) {
	b, ok := p.unitLink(kind, unit)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil
}

// levelOf returns the level of a name or digit; -1 if it is none.
func levelOf(s string) int8 {
	if level, ok := entry.ParseLevel(s); ok {
		return int8(level)
	}
	return -1
}

// appendExtraFields appends a unit's extra fields: each its length in 8 bytes,
// lowest first, and NAME=value. A malformed file yields none.
func appendExtraFields(dst []entry.Field, file string) []entry.Field {
	kept := len(dst)
	for b := []byte(file); len(b) > 0; {
		if len(b) < 8 {
			return dst[:kept]
		}
		n := binary.LittleEndian.Uint64(b)
		b = b[8:]
		if n == 0 || n > uint64(len(b)) {
			return dst[:kept]
		}
		name, _, ok := bytes.Cut(b[:n], []byte{'='})
		if !ok || !entry.ValidName(name, true) {
			return dst[:kept]
		}
		dst = append(dst, entry.Field(b[:n:n]))
		b = b[n:]
	}
	return dst
}
