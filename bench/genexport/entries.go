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
	add := func(n, kind, weight int, f func(i int) service) {
		for i := 0; i < n; i++ {
			s := f(i)
			s.kind, s.weight = kind, weight
			s.invocation = g.hex(16)
			if s.selinux == "" {
				s.selinux = "unconfined\n"
			}
			g.svcs = append(g.svcs, s)
		}
	}
	mk := func(unit, ident, comm, exe, cmd string, uid int) service {
		return service{unit: unit, ident: ident, comm: comm, exe: exe, cmdline: cmd, slice: "system.slice",
			cgroup: "/system.slice/" + unit, uid: uid, gid: uid, pid: 300 + g.r.IntN(60000), transport: "journal"}
	}
	add(1, kSshd, 60, func(int) service {
		s := mk("ssh.service", "sshd", "sshd", "/usr/sbin/sshd", "sshd: [accepted]", 0)
		s.transport = "syslog"
		return s
	})
	add(3, kNginx, 120, func(i int) service {
		s := mk(fmt.Sprintf("nginx-%d.service", i), "nginx", "nginx", "/usr/sbin/nginx", "nginx: worker process", 33)
		s.transport = "syslog"
		return s
	})
	add(1, kKernel, 30, func(int) service {
		return service{ident: "kernel", transport: "kernel"}
	})
	add(1, kSystemd, 60, func(int) service {
		s := mk("init.scope", "systemd", "systemd", "/usr/lib/systemd/systemd", "/sbin/init", 0)
		s.pid = 1
		s.cgroup = "/init.scope"
		s.slice = "-.slice"
		return s
	})
	add(1, kCron, 20, func(int) service {
		s := mk("cron.service", "CRON", "cron", "/usr/sbin/cron", "/usr/sbin/CRON -f -P", 0)
		s.transport = "syslog"
		return s
	})
	add(2, kPg, 60, func(i int) service {
		s := mk(fmt.Sprintf("postgresql@15-%d.service", i), "postgres", "postgres", "/usr/lib/postgresql/15/bin/postgres", "postgres: 15/main: app app 10.0.0.7(51422) SELECT", 114)
		s.transport = "stdout"
		return s
	})
	add(60, kApp, 8, func(i int) service {
		n := appNames[i%len(appNames)]
		s := mk(fmt.Sprintf("%s-%d.service", n, i), n, n, "/opt/app/bin/"+n, fmt.Sprintf("/opt/app/bin/%s --config /etc/app/%s.toml --listen :%d", n, n, 8000+i), 1000+i)
		s.transport = "stdout"
		return s
	})
	add(6, kJava, 15, func(i int) service {
		s := mk(fmt.Sprintf("billing-%d.service", i), "java", "java", "/usr/lib/jvm/java-17/bin/java", fmt.Sprintf("java -Xmx2g -jar /srv/billing/billing.jar --shard=%d", i), 990)
		s.transport = "stdout"
		return s
	})
	add(1, kAudit, 25, func(int) service {
		return service{ident: "audit", transport: "audit"}
	})
	add(1, kCore, 2, func(int) service {
		return mk("systemd-coredump@0.service", "systemd-coredump", "systemd-coredum", "/usr/lib/systemd/systemd-coredump", "/lib/systemd/systemd-coredump", 0)
	})
	t := 0
	for _, s := range g.svcs {
		t += s.weight
		g.cum = append(g.cum, t)
	}
	return g
}

var appNames = []string{"checkout", "catalog", "search", "mailer", "thumbnailer", "session", "ledger", "gateway", "metrics-relay", "scheduler"}
var words = strings.Fields(`connection request response timeout retry backend upstream cache miss hit queue worker job started finished failed
user account token refresh session expired order invoice payment declined accepted shipped warehouse region shard replica leader election
snapshot restore compaction segment index query slow took rows returned disk usage threshold exceeded memory pressure released lock waited
config reloaded certificate renewed expires handshake peer reset closed idle keepalive stream frame dropped duplicate message consumer lag
partition offset committed rebalanced deploy version rollback healthy degraded probe scrape metric flush buffer written bytes`)
var paths = []string{"/", "/api/v1/items", "/api/v1/orders", "/login", "/static/app.js", "/img/logo.png", "/api/v2/search", "/healthz", "/metrics", "/api/v1/users/me", "/admin", "/wp-login.php"}
var agents = []string{
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15", "curl/8.5.0", "kube-probe/1.31", "Prometheus/2.54.1", "Go-http-client/2.0"}

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

// Next returns the next entry. Its Fields slice is reused by the following call.
func (g *Gen) Next() Entry {
	if g.i%g.bootLen == 0 {
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
	prio := 6
	switch p := g.r.IntN(100); {
	case p < 1:
		prio = 2
	case p < 5:
		prio = 3
	case p < 12:
		prio = 4
	case p < 20:
		prio = 5
	case p > 94:
		prio = 7
	}
	fac := 3
	msg := ""
	pid := s.pid
	switch s.kind {
	case kSshd:
		fac = 4
		pid = 2000 + g.r.IntN(30000)
		user := []string{"root", "admin", "deploy", "git", "ubuntu", "test", "oracle"}[g.r.IntN(7)]
		switch g.r.IntN(4) {
		case 0:
			msg = fmt.Sprintf("Failed password for invalid user %s from %s port %d ssh2", user, g.ip(), 1024+g.r.IntN(60000))
		case 1:
			msg = fmt.Sprintf("Accepted publickey for %s from %s port %d ssh2: ED25519 SHA256:%s", user, g.ip(), 1024+g.r.IntN(60000), g.hex(20))
		case 2:
			msg = fmt.Sprintf("Connection closed by authenticating user %s %s port %d [preauth]", user, g.ip(), 1024+g.r.IntN(60000))
		default:
			msg = fmt.Sprintf("pam_unix(sshd:session): session closed for user %s", user)
		}
	case kNginx:
		fac = 23
		st := []int{200, 200, 200, 200, 304, 301, 404, 499, 500, 502}[g.r.IntN(10)]
		pa := paths[g.r.IntN(len(paths))]
		msg = fmt.Sprintf(`%s - - "GET %s?id=%d HTTP/1.1" %d %d "-" "%s" rt=%.3f`, g.ip(), pa, g.r.IntN(100000), st, g.r.IntN(90000), agents[g.r.IntN(len(agents))], g.r.Float64())
		if st >= 500 {
			prio = 3
		}
	case kKernel:
		fac = 0
		switch g.r.IntN(3) {
		case 0:
			msg = fmt.Sprintf("[UFW BLOCK] IN=eth0 OUT= MAC=%s SRC=%s DST=%s LEN=%d TOS=0x00 PREC=0x00 TTL=%d ID=%d PROTO=TCP SPT=%d DPT=%d WINDOW=1024 RES=0x00 SYN URGP=0", g.hex(14), g.ip(), g.ip(), 40+g.r.IntN(1400), 32+g.r.IntN(220), g.r.IntN(65536), g.r.IntN(65536), g.r.IntN(65536))
		case 1:
			msg = fmt.Sprintf("EXT4-fs (dm-%d): mounted filesystem %s r/w with ordered data mode. Quota mode: none.", g.r.IntN(8), g.hex(16))
		default:
			msg = fmt.Sprintf("veth%s: entered promiscuous mode", g.hex(4))
		}
	case kSystemd:
		sv := &g.svcs[6+g.r.IntN(60)]
		verb := []string{"Started", "Stopping", "Stopped", "Starting", "Reloaded"}[g.r.IntN(5)]
		msg = fmt.Sprintf("%s %s - %s.", verb, sv.unit, sv.ident)
		g.add("UNIT", sv.unit)
		g.add("MESSAGE_ID", []string{"39f53479d3a045ac8e11786248231fbf", "7d4958e842da4a758f6c1cdc7b36dcc5", "9d1aaa27d60140bd96365438aad20286"}[g.r.IntN(3)])
		g.addI("JOB_ID", g.r.IntN(100000))
		g.add("JOB_TYPE", []string{"start", "stop", "restart"}[g.r.IntN(3)])
		g.add("INVOCATION_ID", sv.invocation)
		g.add("CODE_FILE", "src/core/job.c")
		g.addI("CODE_LINE", 700+g.r.IntN(40))
		g.add("CODE_FUNC", "job_emit_done_message")
	case kCron:
		fac = 9
		pid = 2000 + g.r.IntN(60000)
		msg = fmt.Sprintf("(root) CMD (   cd / && run-parts --report /etc/cron.%s)", []string{"hourly", "daily", "weekly"}[g.r.IntN(3)])
	case kPg:
		msg = fmt.Sprintf("2026-01-05 %02d:%02d:%02d.%03d UTC [%d] app@app LOG:  duration: %.3f ms  statement: SELECT id, %s FROM %s WHERE %s = %d ORDER BY id LIMIT %d", g.r.IntN(24), g.r.IntN(60), g.r.IntN(60), g.r.IntN(1000), pid, g.r.ExpFloat64()*40, g.words(1), g.words(1), g.words(1), g.r.IntN(1000000), 10*(1+g.r.IntN(10)))
	case kApp:
		switch g.r.IntN(10) {
		case 0, 1, 2: // JSON line
			msg = fmt.Sprintf(`{"level":"%s","ts":%d.%06d,"logger":"%s","msg":"%s","trace_id":"%s","dur_ms":%d,"ok":%v}`, []string{"info", "warn", "error", "debug"}[g.r.IntN(4)], g.rt/1000000, g.rt%1000000, s.ident, g.words(3+g.r.IntN(8)), g.hex(16), g.r.IntN(5000), g.r.IntN(10) > 0)
		case 3: // wide structured
			msg = g.words(4 + g.r.IntN(10))
			g.add("REQUEST_ID", g.hex(16))
			g.add("HTTP_METHOD", []string{"GET", "POST", "PUT", "DELETE"}[g.r.IntN(4)])
			g.add("HTTP_PATH", paths[g.r.IntN(len(paths))])
			g.addI("HTTP_STATUS", []int{200, 201, 204, 400, 404, 500}[g.r.IntN(6)])
			g.addI("DURATION_US", g.r.IntN(1000000))
			g.add("CODE_FILE", "internal/"+s.ident+"/handler.go")
			g.addI("CODE_LINE", 1+g.r.IntN(900))
		case 4: // repeated message, dedupes
			msg = "health check ok"
		default:
			msg = fmt.Sprintf("%s %s=%d %s", g.words(2+g.r.IntN(12)), g.words(1), g.r.IntN(100000), g.words(g.r.IntN(6)))
		}
		if g.r.IntN(50) == 0 { // >512 bytes, compressible
			var sb strings.Builder
			n := 12 + g.r.IntN(120)
			sb.WriteString(`{"event":"audit","items":[`)
			for i := 0; i < n; i++ {
				fmt.Fprintf(&sb, `{"id":%d,"name":"%s","state":"%s"},`, g.r.IntN(1e6), g.words(2), g.words(1))
			}
			sb.WriteString(`{}]}`)
			g.add("PAYLOAD", sb.String())
		}
	case kJava:
		if g.r.IntN(4) == 0 { // multi-line stack trace
			var sb strings.Builder
			fmt.Fprintf(&sb, "java.lang.IllegalStateException: %s\n", g.words(6))
			n := 8 + g.r.IntN(30)
			for i := 0; i < n; i++ {
				fmt.Fprintf(&sb, "\tat net.example.billing.%s.%sService.%s(%sService.java:%d)\n", g.words(1), g.words(1), g.words(1), g.words(1), 10+g.r.IntN(900))
			}
			msg = sb.String()
			prio = 3
		} else {
			msg = fmt.Sprintf("[pool-%d-thread-%d] INFO  n.e.b.%s - %s", g.r.IntN(9), g.r.IntN(32), g.words(1), g.words(5+g.r.IntN(10)))
		}
	case kAudit:
		msg = fmt.Sprintf("SERVICE_START pid=1 uid=0 auid=4294967295 ses=4294967295 subj=unconfined msg='unit=%s comm=\"systemd\" exe=\"/usr/lib/systemd/systemd\" hostname=? addr=? terminal=? res=success'", g.svcs[6+g.r.IntN(60)].ident)
		g.addI("_AUDIT_TYPE", 1130)
		g.add("_AUDIT_TYPE_NAME", "SERVICE_START")
		g.addI("_AUDIT_ID", g.i)
	case kCore:
		prio = 2
		msg = fmt.Sprintf("Process %d (%s) of user 1000 dumped core.\n\nStack trace of thread %d:\n#0  0x%s n/a (libc.so.6 + 0x%s)\n#1  0x%s main (app + 0x%s)", pid, appNames[g.r.IntN(10)], pid, g.hex(8), g.hex(3), g.hex(8), g.hex(3))
		g.add("COREDUMP_EXE", "/opt/app/bin/"+appNames[g.r.IntN(10)])
		g.addI("COREDUMP_SIGNAL", 11)
		n := 1024 + g.r.IntN(32*1024)
		b := make([]byte, n) // half random, half runs: binary, partly compressible
		g.bytes(b[:n/2])
		for i := n / 2; i < n; i++ {
			b[i] = byte(i >> 6)
		}
		g.addB("COREDUMP", b)
		g.addB("COREDUMP_PROC_MAPS", []byte(strings.Repeat("7f00aa000000-7f00aa021000 r-xp 00000000 fe:00 1234 /usr/lib/libc.so.6\n", 20+g.r.IntN(40))))
	}
	if g.r.IntN(400) == 0 { // small binary field
		b := make([]byte, 16+g.r.IntN(64))
		g.bytes(b)
		g.addB("FRAME", b)
	}
	g.addI("PRIORITY", prio)
	g.addI("SYSLOG_FACILITY", fac)
	g.add("SYSLOG_IDENTIFIER", s.ident)
	g.add("MESSAGE", msg)
	if s.unit != "" {
		g.addI("_PID", pid)
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
			g.addI("SYSLOG_PID", pid)
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
