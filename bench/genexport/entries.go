// Package entries makes a deterministic stream of realistic journal entries.
package entries

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Field is one NAME=value pair of an entry.
type Field struct {
	Name  string
	Value []byte
}

// Entry is one generated log entry. Fields[0:] do not hold __REALTIME etc.
type Entry struct {
	Index     int
	Realtime  uint64 // usec since epoch
	Monotonic uint64 // usec since that boot
	BootID    [16]byte
	Fields    []Field
}

type service struct {
	unit, ident, comm, exe, cmdline, slice, cgroup, selinux, invocation string
	uid, gid, pid                                                       int
	transport                                                           string
	kind                                                                int
	weight                                                              int
}

// Gen yields entries in order; the same seed gives the same bytes.
type Gen struct {
	r        *rand.Rand
	svcs     []service
	cum      []int
	i        int
	rt, mono uint64
	boot     [16]byte
	machine  string
	host     string
	bootLen  int
	buf      []Field
	meanUS   float64
}

const (
	kSshd = iota
	kNginx
	kKernel
	kSystemd
	kCron
	kPg
	kApp
	kJava
	kAudit
	kCore
)

// StartUsec is 2026-01-05 00:00:00 UTC.
const StartUsec = 1767571200_000000

// New makes a generator: seed, entries per boot, mean gap between entries in usec.
func New(seed uint64, perBoot int, meanGapUsec float64) *Gen {
	g := &Gen{r: rand.New(rand.NewPCG(seed, 0x7469646d61726b)), bootLen: perBoot, rt: StartUsec, meanUS: meanGapUsec}
	g.machine = g.hex(16)
	g.host = "node-07.fra.example.net"
	g.services()
	t := 0
	for _, s := range g.svcs {
		t += s.weight
		g.cum = append(g.cum, t)
	}
	return g
}

func (g *Gen) hex(n int) string {
	b := make([]byte, n)
	g.bytes(b)
	return hex.EncodeToString(b)
}

func (g *Gen) bytes(b []byte) {
	for i := 0; i < len(b); i += 8 {
		var t [8]byte
		binary.LittleEndian.PutUint64(t[:], g.r.Uint64())
		copy(b[i:], t[:])
	}
}

func (g *Gen) ip() string {
	return fmt.Sprintf("%d.%d.%d.%d", 10+g.r.IntN(180), g.r.IntN(256), g.r.IntN(256), 1+g.r.IntN(254))
}

func (g *Gen) words(n int) string {
	var sb strings.Builder
	for i := 0; i < n; i++ {
		if i > 0 {
			sb.WriteByte(' ')
		}
		sb.WriteString(words[g.r.IntN(len(words))])
	}
	return sb.String()
}

func (g *Gen) add(name, val string) { g.buf = append(g.buf, Field{name, []byte(val)}) }

func (g *Gen) addI(name string, v int) {
	g.buf = append(g.buf, Field{name, strconv.AppendInt(nil, int64(v), 10)})
}

func (g *Gen) addB(name string, b []byte) { g.buf = append(g.buf, Field{name, b}) }

// line is what kinds of services decide about an entry.
type line struct {
	prio, fac, pid int
	msg            string
}

// reboot begins a boot: another ID, other processes.
func (g *Gen) reboot() {
	g.bytes(g.boot[:])
	g.boot[6] = g.boot[6]&0x0f | 0x40
	g.boot[8] = g.boot[8]&0x3f | 0x80
	g.mono = 1_000_000
	if g.i > 0 {
		g.rt += 45_000_000
	}
	for k := range g.svcs {
		if g.svcs[k].pid > 1 {
			g.svcs[k].pid = 300 + g.r.IntN(60000)
		}
	}
}

func (g *Gen) priority() int {
	switch p := g.r.IntN(100); {
	case p < 1:
		return 2
	case p < 5:
		return 3
	case p < 12:
		return 4
	case p < 20:
		return 5
	case p > 94:
		return 7
	}
	return 6
}

// addLine adds what every entry has behind its own fields, and what is known of
// the sender.
func (g *Gen) addLine(s *service, l *line) {
	g.addI("PRIORITY", l.prio)
	g.addI("SYSLOG_FACILITY", l.fac)
	g.add("SYSLOG_IDENTIFIER", s.ident)
	g.add("MESSAGE", l.msg)
	if s.unit != "" {
		g.addI("_PID", l.pid)
		g.addI("_UID", s.uid)
		g.addI("_GID", s.gid)
		g.add("_COMM", s.comm)
		g.add("_EXE", s.exe)
		g.add("_CMDLINE", s.cmdline)
		g.add("_CAP_EFFECTIVE", "1ffffffffff")
		g.add("_SELINUX_CONTEXT", s.selinux)
		g.add("_SYSTEMD_CGROUP", s.cgroup)
		g.add("_SYSTEMD_UNIT", s.unit)
		g.add("_SYSTEMD_SLICE", s.slice)
		g.add("_SYSTEMD_INVOCATION_ID", s.invocation)
		if s.transport == "syslog" {
			g.addI("SYSLOG_PID", l.pid)
			g.add("SYSLOG_TIMESTAMP", "Jan  5 00:00:00 ")
		}
		if s.transport != "stdout" {
			g.add("_SOURCE_REALTIME_TIMESTAMP", strconv.FormatUint(g.rt-uint64(g.r.IntN(300)), 10))
		}
		if s.transport == "stdout" {
			g.add("_STREAM_ID", s.invocation[:31]+"0")
		}
	} else if s.transport == "kernel" {
		g.add("_SOURCE_MONOTONIC_TIMESTAMP", strconv.FormatUint(g.mono, 10))
	}
}

// Next returns the next entry. Its Fields slice is reused by the following call.
func (g *Gen) Next() Entry {
	if g.i%g.bootLen == 0 {
		g.reboot()
	}
	d := uint64(g.r.ExpFloat64()*g.meanUS) + 1
	g.rt += d
	g.mono += d
	x := g.r.IntN(g.cum[len(g.cum)-1])
	k := 0
	for g.cum[k] <= x {
		k++
	}
	s := &g.svcs[k]
	g.buf = g.buf[:0]
	g.add("_BOOT_ID", hex.EncodeToString(g.boot[:]))
	g.add("_MACHINE_ID", g.machine)
	g.add("_HOSTNAME", g.host)
	g.add("_TRANSPORT", s.transport)
	l := line{prio: g.priority(), fac: 3, pid: s.pid}
	switch s.kind {
	case kSshd:
		g.sshd(&l)
	case kNginx:
		g.nginx(&l)
	case kKernel:
		g.kernel(&l)
	case kSystemd:
		g.systemd(&l)
	case kCron:
		g.cron(&l)
	case kPg:
		g.postgres(&l)
	case kApp:
		g.app(s, &l)
	case kJava:
		g.java(&l)
	case kAudit:
		g.audit(&l)
	case kCore:
		g.core(&l)
	}
	if g.r.IntN(400) == 0 { // small binary field
		b := make([]byte, 16+g.r.IntN(64))
		g.bytes(b)
		g.addB("FRAME", b)
	}
	g.addLine(s, &l)
	e := Entry{Index: g.i, Realtime: g.rt, Monotonic: g.mono, BootID: g.boot, Fields: g.buf}
	g.i++
	return e
}

func textSafe(b []byte) bool {
	for _, c := range b {
		if c < 32 && c != '\t' {
			return false
		}
	}
	return true
}

// WriteField writes one field in the form shared by export and native protocol.
func WriteField(w *bytes.Buffer, name string, val []byte) {
	w.WriteString(name)
	if textSafe(val) {
		w.WriteByte('=')
		w.Write(val)
	} else {
		w.WriteByte('\n')
		var l [8]byte
		binary.LittleEndian.PutUint64(l[:], uint64(len(val)))
		w.Write(l[:])
		w.Write(val)
	}
	w.WriteByte('\n')
}

// Export writes e in the Journal Export Format.
func (e *Entry) Export(w *bytes.Buffer) {
	fmt.Fprintf(w, "__CURSOR=s=gen;i=%x\n__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n", e.Index+1, e.Realtime, e.Monotonic)
	for i := range e.Fields {
		WriteField(w, e.Fields[i].Name, e.Fields[i].Value)
	}
	w.WriteByte('\n')
}

// Native writes the fields a client may send (no leading underscore) as a native datagram.
func (e *Entry) Native(w *bytes.Buffer) {
	for i := range e.Fields {
		if e.Fields[i].Name[0] != '_' {
			WriteField(w, e.Fields[i].Name, e.Fields[i].Value)
		}
	}
}

// Get returns the first value of a field.
func (e *Entry) Get(name string) []byte {
	for i := range e.Fields {
		if e.Fields[i].Name == name {
			return e.Fields[i].Value
		}
	}
	return nil
}

// WriteExport streams n entries.
func WriteExport(w io.Writer, g *Gen, n int) error {
	var b bytes.Buffer
	for i := 0; i < n; i++ {
		e := g.Next()
		e.Export(&b)
		if b.Len() > 1<<18 {
			if _, err := w.Write(b.Bytes()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
