package ingest

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

const (
	// maxProcFile bounds what is read of a file in /proc/PID, in bytes. It cuts
	// only command lines, which journald takes whole (up to 2 MiB in each entry).
	maxProcFile = 64 << 10
	// maxComm is journald's bound of an escaped process name, with its NUL.
	maxComm = 128
	// ticksPerSecond is Linux's USER_HZ, the unit of start times in /proc/PID/stat.
	ticksPerSecond = 100
	// noID is what the kernel shows for "no audit session" and "no login uid".
	noID = ^uint32(0)
)

// facts are what /proc and systemd tell about a process. Empty members are
// unknown. facts can be compared.
type facts struct {
	start          uint64 // ticks after the boot; tells processes with one pid apart
	comm, exe      string
	cmdline        string
	capEffective   string
	label          string // of SELinux
	session, login uint32 // audit session, audit login uid; noID: none
	cgroup         string
	placement             // what cgroup says
	invocation     string // 32 hexadecimal digits
	unitSettings          // what systemd set for the unit
}

// unknownFacts are the facts about nobody.
func unknownFacts() facts {
	return facts{session: noID, login: noID, placement: placement{owner: noID}, unitSettings: unitSettings{levelMax: -1}}
}

// appendFields appends the fields of a sender in journald's order.
func (f *facts) appendFields(dst []entry.Field, c credentials) []entry.Field {
	text := func(name, value string) {
		if value != "" {
			dst = append(dst, entry.Field(name+"="+value))
		}
	}
	number := func(name string, value uint32) {
		if value != noID {
			text(name, strconv.FormatUint(uint64(value), 10))
		}
	}
	if c.pid > 0 {
		number("_PID", uint32(c.pid))
	}
	number("_UID", c.uid)
	number("_GID", c.gid)
	text("_COMM", f.comm)
	text("_EXE", f.exe)
	text("_CMDLINE", f.cmdline)
	text("_CAP_EFFECTIVE", f.capEffective)
	text("_SELINUX_CONTEXT", f.label)
	number("_AUDIT_SESSION", f.session)
	number("_AUDIT_LOGINUID", f.login)
	text("_SYSTEMD_CGROUP", f.cgroup)
	text("_SYSTEMD_SESSION", f.sessionID)
	number("_SYSTEMD_OWNER_UID", f.owner)
	text("_SYSTEMD_UNIT", f.unit)
	text("_SYSTEMD_USER_UNIT", f.userUnit)
	text("_SYSTEMD_SLICE", f.slice)
	text("_SYSTEMD_USER_SLICE", f.userSlice)
	text("_SYSTEMD_INVOCATION_ID", f.invocation)
	return appendExtraFields(dst, f.extra)
}

// appendObjectFields appends the fields of a process that a message is about.
func (f *facts) appendObjectFields(dst []entry.Field, c credentials) []entry.Field {
	at := len(dst)
	bare := *f
	bare.extra = ""
	dst = bare.appendFields(dst, c)
	for i := at; i < len(dst); i++ {
		dst[i] = append(entry.Field("OBJECT"), dst[i]...)
	}
	return dst
}

// procReader reads about processes. It is used by one goroutine; its zero buf
// is made at first use.
type procReader struct {
	root     string // "/proc"
	units    string // "/run/systemd/units"
	users    string // "/run/user"
	selinux  bool
	cgroupOf string // where PID 1 is, without its init.scope
	buf      []byte
}

func newProcReader(root, units, users string) *procReader {
	p := &procReader{root: root, units: units, users: users, selinux: selinuxEnabled()}
	if dir, err := p.open(1); err == nil {
		if text, ok := p.file(dir, "cgroup"); ok {
			p.cgroupOf = cgroupRoot(cgroupPath(text))
		}
		unix.Close(dir) //nolint:errcheck // nothing was written to it
	}
	return p
}

// open opens the directory of a process. While it is open it is about that
// process only, also when the pid has been given to another one.
func (p *procReader) open(pid int) (dir int, err error) {
	return unix.Open(filepath.Join(p.root, strconv.Itoa(pid)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// file returns the beginning of a file, valid until the next call.
func (p *procReader) file(dir int, name string) ([]byte, bool) {
	if p.buf == nil {
		p.buf = make([]byte, 4096)
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	n := 0
	for {
		m, err := unix.Read(fd, p.buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, false
		}
		if n += m; m == 0 || n >= maxProcFile {
			return p.buf[:n], true
		}
		if n == len(p.buf) {
			p.buf = append(p.buf, make([]byte, len(p.buf))...)
		}
	}
}

// link returns the target of a symbolic link, valid until the next call.
func (p *procReader) link(dir int, name string) ([]byte, bool) {
	if p.buf == nil {
		p.buf = make([]byte, 4096)
	}
	n, err := unix.Readlinkat(dir, name, p.buf)
	if err != nil || n == len(p.buf) {
		return nil, false
	}
	return p.buf[:n], true
}

// readImage reads what is gone first when a process ends: the program that runs.
func (p *procReader) readImage(dir int, f *facts) {
	if b, ok := p.link(dir, "exe"); ok {
		f.exe = strings.TrimSuffix(string(b), " (deleted)")
	}
	if b, ok := p.file(dir, "cmdline"); ok && len(b) > 0 {
		f.cmdline = string(quoteCommandLine(b))
	}
}

// readRest reads everything else, which a process keeps until it is reaped. What
// cannot be read, since the process has ended or is another user's, stays as it
// is. label is what came with the message.
func (p *procReader) readRest(dir int, f *facts, label []byte) {
	if b, ok := p.file(dir, "cgroup"); ok {
		if path := shiftCgroup(cgroupPath(b), p.cgroupOf); path != "" && path != "/" && path != f.cgroup {
			f.cgroup, f.placement = path, place(path)
		}
	}
	if b, ok := p.file(dir, "comm"); ok {
		if i := bytes.IndexAny(b, "\n\r\x00"); i >= 0 {
			b = b[:i]
		}
		f.comm = string(escapeComm(b, maxComm-1))
	}
	if b, ok := p.file(dir, "status"); ok {
		if c, ok := capEffective(b); ok {
			f.capEffective = c
		}
	}
	if len(label) > 0 {
		f.label = string(label)
	} else if p.selinux {
		if b, ok := p.file(dir, "attr/current"); ok {
			f.label = string(bytes.TrimRight(b, "\x00\n"))
		}
	}
	p.number(dir, "sessionid", &f.session)
	p.number(dir, "loginuid", &f.login)
	p.readUnit(f)
}

// number reads a file with one decimal number.
func (p *procReader) number(dir int, name string, dst *uint32) {
	if b, ok := p.file(dir, name); ok {
		if n, err := strconv.ParseUint(string(trimSpace(b)), 10, 32); err == nil {
			*dst = uint32(n)
		}
	}
}

// startAt returns the start of a process in ticks after the boot; 0: unknown.
func (p *procReader) startAt(dir int) uint64 {
	b, ok := p.file(dir, "stat")
	if !ok {
		return 0
	}
	return startTicks(b)
}

// start is startAt of the process that has the pid now.
func (p *procReader) start(pid int) (ticks uint64, ok bool) {
	dir, err := p.open(pid)
	if err != nil {
		return 0, false
	}
	defer unix.Close(dir)
	ticks = p.startAt(dir)
	return ticks, ticks != 0
}

// realtime turns ticks after the boot into µs of the realtime clock as it is
// set now, never later than it was. Ticks are 10 ms.
func (p *procReader) realtime(ticks uint64) uint64 {
	var boot, wall unix.Timespec
	// The later clock is subtracted: the error makes the result earlier.
	if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	at := wall.Nano()/1000 - (boot.Nano()+999)/1000 + int64(ticks)*(1e6/ticksPerSecond)
	return uint64(max(at, 0))
}

// startTicks finds field 22 of /proc/PID/stat. The name in field 2 may contain
// blanks and parentheses.
func startTicks(stat []byte) uint64 {
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	const field = 22 - 2 // counted from the end of field 2
	for range field {
		i := bytes.IndexByte(rest, ' ')
		if i < 0 {
			return 0
		}
		rest = rest[i+1:]
	}
	if i := bytes.IndexByte(rest, ' '); i >= 0 {
		rest = rest[:i]
	}
	n, err := strconv.ParseUint(string(rest), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// capEffective finds the effective capabilities in /proc/PID/status and drops
// leading zeros.
func capEffective(status []byte) (string, bool) {
	const key = "\nCapEff:"
	i := bytes.Index(status, []byte(key))
	if i < 0 {
		return "", false
	}
	line := status[i+len(key):]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	digits := bytes.TrimLeft(trimSpace(line), "0")
	if len(digits) == 0 {
		return "0", true
	}
	return string(digits), true
}

// trimSpace drops what systemd calls white space from both ends.
func trimSpace(b []byte) []byte { return bytes.Trim(b, whiteSpace) }

// whiteSpace is systemd's WHITESPACE.
const whiteSpace = " \t\n\r"

// ownerOf finds the real user and group in /proc/PID/status.
func ownerOf(status []byte) (uid, gid uint32) {
	find := func(key string) uint32 {
		i := bytes.Index(status, []byte(key))
		if i < 0 {
			return noID
		}
		words := bytes.Fields(status[i+len(key):])
		if len(words) == 0 {
			return noID
		}
		return parseUID(string(words[0]))
	}
	return find("\nUid:"), find("\nGid:")
}
