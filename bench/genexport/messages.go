package entries

import (
	"fmt"
	"strings"
)

var (
	appNames = []string{"checkout", "catalog", "search", "mailer", "thumbnailer", "session", "ledger", "gateway", "metrics-relay", "scheduler"}
	words    = strings.Fields(`connection request response timeout retry backend upstream cache miss hit queue worker job started finished failed
user account token refresh session expired order invoice payment declined accepted shipped warehouse region shard replica leader election
snapshot restore compaction segment index query slow took rows returned disk usage threshold exceeded memory pressure released lock waited
config reloaded certificate renewed expires handshake peer reset closed idle keepalive stream frame dropped duplicate message consumer lag
partition offset committed rebalanced deploy version rollback healthy degraded probe scrape metric flush buffer written bytes`)
)

var (
	paths  = []string{"/", "/api/v1/items", "/api/v1/orders", "/login", "/static/app.js", "/img/logo.png", "/api/v2/search", "/healthz", "/metrics", "/api/v1/users/me", "/admin", "/wp-login.php"}
	agents = []string{
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15", "curl/8.5.0", "kube-probe/1.31", "Prometheus/2.54.1", "Go-http-client/2.0",
	}
)

// sshd tells of logins, each from a process of its own.
func (g *Gen) sshd(l *line) {
	l.fac = 4
	l.pid = 2000 + g.r.IntN(30000)
	user := []string{"root", "admin", "deploy", "git", "ubuntu", "test", "oracle"}[g.r.IntN(7)]
	switch g.r.IntN(4) {
	case 0:
		l.msg = fmt.Sprintf("Failed password for invalid user %s from %s port %d ssh2", user, g.ip(), 1024+g.r.IntN(60000))
	case 1:
		l.msg = fmt.Sprintf("Accepted publickey for %s from %s port %d ssh2: ED25519 SHA256:%s", user, g.ip(), 1024+g.r.IntN(60000), g.hex(20))
	case 2:
		l.msg = fmt.Sprintf("Connection closed by authenticating user %s %s port %d [preauth]", user, g.ip(), 1024+g.r.IntN(60000))
	default:
		l.msg = fmt.Sprintf("pam_unix(sshd:session): session closed for user %s", user)
	}
}

// nginx tells of requests.
func (g *Gen) nginx(l *line) {
	l.fac = 23
	st := []int{200, 200, 200, 200, 304, 301, 404, 499, 500, 502}[g.r.IntN(10)]
	pa := paths[g.r.IntN(len(paths))]
	l.msg = fmt.Sprintf(`%s - - "GET %s?id=%d HTTP/1.1" %d %d "-" "%s" rt=%.3f`, g.ip(), pa, g.r.IntN(100000), st, g.r.IntN(90000), agents[g.r.IntN(len(agents))], g.r.Float64())
	if st >= 500 {
		l.prio = 3
	}
}

// kernel tells of packets, mounts and interfaces.
func (g *Gen) kernel(l *line) {
	l.fac = 0
	switch g.r.IntN(3) {
	case 0:
		l.msg = fmt.Sprintf("[UFW BLOCK] IN=eth0 OUT= MAC=%s SRC=%s DST=%s LEN=%d TOS=0x00 PREC=0x00 TTL=%d ID=%d PROTO=TCP SPT=%d DPT=%d WINDOW=1024 RES=0x00 SYN URGP=0", g.hex(14), g.ip(), g.ip(), 40+g.r.IntN(1400), 32+g.r.IntN(220), g.r.IntN(65536), g.r.IntN(65536), g.r.IntN(65536))
	case 1:
		l.msg = fmt.Sprintf("EXT4-fs (dm-%d): mounted filesystem %s r/w with ordered data mode. Quota mode: none.", g.r.IntN(8), g.hex(16))
	default:
		l.msg = fmt.Sprintf("veth%s: entered promiscuous mode", g.hex(4))
	}
}

// systemd tells of the jobs of units, with fields of its own.
func (g *Gen) systemd(l *line) {
	sv := &g.svcs[6+g.r.IntN(60)]
	verb := []string{"Started", "Stopping", "Stopped", "Starting", "Reloaded"}[g.r.IntN(5)]
	l.msg = fmt.Sprintf("%s %s - %s.", verb, sv.unit, sv.ident)
	g.add("UNIT", sv.unit)
	g.add("MESSAGE_ID", []string{"39f53479d3a045ac8e11786248231fbf", "7d4958e842da4a758f6c1cdc7b36dcc5", "9d1aaa27d60140bd96365438aad20286"}[g.r.IntN(3)])
	g.addI("JOB_ID", g.r.IntN(100000))
	g.add("JOB_TYPE", []string{"start", "stop", "restart"}[g.r.IntN(3)])
	g.add("INVOCATION_ID", sv.invocation)
	g.add("CODE_FILE", "src/core/job.c")
	g.addI("CODE_LINE", 700+g.r.IntN(40))
	g.add("CODE_FUNC", "job_emit_done_message")
}

// cron tells of jobs.
func (g *Gen) cron(l *line) {
	l.fac = 9
	l.pid = 2000 + g.r.IntN(60000)
	l.msg = fmt.Sprintf("(root) CMD (   cd / && run-parts --report /etc/cron.%s)", []string{"hourly", "daily", "weekly"}[g.r.IntN(3)])
}

// postgres tells of slow statements.
func (g *Gen) postgres(l *line) {
	l.msg = fmt.Sprintf("2026-01-05 %02d:%02d:%02d.%03d UTC [%d] app@app LOG:  duration: %.3f ms  statement: SELECT id, %s FROM %s WHERE %s = %d ORDER BY id LIMIT %d", g.r.IntN(24), g.r.IntN(60), g.r.IntN(60), g.r.IntN(1000), l.pid, g.r.ExpFloat64()*40, g.words(1), g.words(1), g.words(1), g.r.IntN(1000000), 10*(1+g.r.IntN(10)))
}

// app tells in JSON, in fields of its own, the same again or in words, and now and
// then has a field long enough to be compressed.
func (g *Gen) app(s *service, l *line) {
	switch g.r.IntN(10) {
	case 0, 1, 2: // JSON line
		l.msg = fmt.Sprintf(`{"level":"%s","ts":%d.%06d,"logger":"%s","msg":"%s","trace_id":"%s","dur_ms":%d,"ok":%v}`, []string{"info", "warn", "error", "debug"}[g.r.IntN(4)], g.rt/1000000, g.rt%1000000, s.ident, g.words(3+g.r.IntN(8)), g.hex(16), g.r.IntN(5000), g.r.IntN(10) > 0)
	case 3: // wide structured
		l.msg = g.words(4 + g.r.IntN(10))
		g.add("REQUEST_ID", g.hex(16))
		g.add("HTTP_METHOD", []string{"GET", "POST", "PUT", "DELETE"}[g.r.IntN(4)])
		g.add("HTTP_PATH", paths[g.r.IntN(len(paths))])
		g.addI("HTTP_STATUS", []int{200, 201, 204, 400, 404, 500}[g.r.IntN(6)])
		g.addI("DURATION_US", g.r.IntN(1000000))
		g.add("CODE_FILE", "internal/"+s.ident+"/handler.go")
		g.addI("CODE_LINE", 1+g.r.IntN(900))
	case 4: // repeated message, dedupes
		l.msg = "health check ok"
	default:
		l.msg = fmt.Sprintf("%s %s=%d %s", g.words(2+g.r.IntN(12)), g.words(1), g.r.IntN(100000), g.words(g.r.IntN(6)))
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
}

// java tells in words or with a stack trace of many lines.
func (g *Gen) java(l *line) {
	if g.r.IntN(4) == 0 { // multi-line stack trace
		var sb strings.Builder
		fmt.Fprintf(&sb, "java.lang.IllegalStateException: %s\n", g.words(6))
		n := 8 + g.r.IntN(30)
		for i := 0; i < n; i++ {
			fmt.Fprintf(&sb, "\tat net.example.billing.%s.%sService.%s(%sService.java:%d)\n", g.words(1), g.words(1), g.words(1), g.words(1), 10+g.r.IntN(900))
		}
		l.msg = sb.String()
		l.prio = 3
	} else {
		l.msg = fmt.Sprintf("[pool-%d-thread-%d] INFO  n.e.b.%s - %s", g.r.IntN(9), g.r.IntN(32), g.words(1), g.words(5+g.r.IntN(10)))
	}
}

// audit tells of units as the kernel does.
func (g *Gen) audit(l *line) {
	l.msg = fmt.Sprintf("SERVICE_START pid=1 uid=0 auid=4294967295 ses=4294967295 subj=unconfined msg='unit=%s comm=\"systemd\" exe=\"/usr/lib/systemd/systemd\" hostname=? addr=? terminal=? res=success'", g.svcs[6+g.r.IntN(60)].ident)
	g.addI("_AUDIT_TYPE", 1130)
	g.add("_AUDIT_TYPE_NAME", "SERVICE_START")
	g.addI("_AUDIT_ID", g.i)
}

// core tells of a process that dumped core, half of which is random.
func (g *Gen) core(l *line) {
	l.prio = 2
	l.msg = fmt.Sprintf("Process %d (%s) of user 1000 dumped core.\n\nStack trace of thread %d:\n#0  0x%s n/a (libc.so.6 + 0x%s)\n#1  0x%s main (app + 0x%s)", l.pid, appNames[g.r.IntN(10)], l.pid, g.hex(8), g.hex(3), g.hex(8), g.hex(3))
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
