package entries

import (
	"fmt"
)

// services makes what sends, in one order, since each draws from the same source.
func (g *Gen) services() {
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
		return service{
			unit: unit, ident: ident, comm: comm, exe: exe, cmdline: cmd, slice: "system.slice",
			cgroup: "/system.slice/" + unit, uid: uid, gid: uid, pid: 300 + g.r.IntN(60000), transport: "journal",
		}
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
}
