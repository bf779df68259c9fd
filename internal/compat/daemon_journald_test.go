package compat

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

const journald = "/lib/systemd/systemd-journald"

// runJournald runs a real journald on the files in data, and does first in its
// place. Then it lets logger write lines as root and as a user, and ends
// journald by a signal.
func runJournald(t *testing.T, data, tag string, lines int, sig string, first ...string) {
	t.Helper()
	needNamespaces(t)
	needTool(t, "logger")
	needTool(t, journald)
	needTool(t, "setpriv")
	if _, err := os.Stat("/etc/machine-id"); err != nil {
		t.Skipf("journald needs a machine id: %v", err)
	}
	script := `mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal /run/systemd/journald.conf.d && mount -t tmpfs tmpfs /var/log && mkdir /var/log/journal && mount --bind "$1" /var/log/journal || exit 99
printf '[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\nReadKMsg=no\nAudit=no\nForwardToSyslog=no\nForwardToWall=no\nSystemKeepFree=1M\n' >/run/systemd/journald.conf.d/test.conf
` + journald + ` 2>/run/errors & pid=$!
n=0
until journalctl --flush 2>/dev/null; do # its socket is not there yet
	n=$((n+1)); [ $n -lt 1200 ] && kill -0 $pid || exit 98
	sleep 0.05
done
` + strings.Join(first, "\n") + `
for i in $(seq "$3"); do echo "$2 $i"; done | logger -u /run/systemd/journal/dev-log -t "$2" || exit 97
for i in 1 2 3; do echo "$2-user $i"; done | setpriv --reuid 1000 --clear-groups logger -u /run/systemd/journal/dev-log -t "$2-user" || exit 97
journalctl --sync || exit 96
if [ "$4" = KILL ]; then # after a sync the files are closed until the next entry
	echo last | logger -u /run/systemd/journal/dev-log -t "$2-last" || exit 97
	echo last | setpriv --reuid 1000 --clear-groups logger -u /run/systemd/journal/dev-log -t "$2-last" || exit 97
	until [ "$(journalctl -q -o cat -t "$2-last" | wc -l)" = 2 ]; do
		n=$((n+1)); [ $n -lt 1200 ] || exit 93
		sleep 0.05
	done
fi
kill -"$4" $pid
wait $pid
exit 0
`
	o := runCommand(t, nil, "unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", data, tag, fmt.Sprint(lines), sig)
	if o.code == 98 {
		t.Skipf("a private journald does not start here: %s", o.stderr)
	}
	if o.code != 0 {
		t.Fatalf("private journald: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// checkTagged checks that the lines of a tag are there, once and in order.
func checkTagged(t *testing.T, all []entry.Entry, tag string, lines int) {
	t.Helper()
	var want [][]string
	for i := range lines {
		want = append(want, []string{fmt.Sprintf("%s %d", tag, i+1)})
	}
	checkValues(t, tag, having(all, "SYSLOG_IDENTIFIER="+tag), want, "MESSAGE")
}

// verifyFiles runs journalctl --verify on files.
func verifyFiles(t *testing.T, files map[string]string) {
	t.Helper()
	for name, path := range files {
		if o := runCommand(t, nil, "journalctl", "--verify", "--file", path); o.code != 0 {
			t.Errorf("journalctl --verify of %s: exit code %d\n%s%s", name, o.code, o.stdout, o.stderr)
		}
	}
}

// closedFiles makes a daemon's directory with a file that was closed, and
// returns what was sent.
func closedFiles(t *testing.T, bin string) (*served, []*sender) {
	t.Helper()
	d := serve(t, bin, sockdir.New(t))
	senders := d.senders(t, 2)
	for err := range burst(senders, 400) {
		t.Fatal(err)
	}
	d.command(t, "sync") // what was sent is there: a signal may overtake it
	d.end(t, syscall.SIGTERM)
	return d, senders
}

// testContinuedByJournald hands a file of ours to a real journald, which must
// go on with it, and takes it back.
func testContinuedByJournald(t *testing.T, bin string) {
	d, senders := closedFiles(t, bin)
	before := export(t, d.data)
	runJournald(t, d.data, "theirs", 200, "TERM")
	names := slices.Sorted(maps.Keys(d.files(t)))
	if !slices.Equal(names, []string{"system.journal", "user-1000.journal"}) {
		t.Errorf("journald has not gone on with system.journal: %q", names)
	}
	after := export(t, d.data)
	checkTagged(t, after, "theirs-user", 3)
	if len(after) < len(before)+203 || after[len(before)-1].Seqnum != before[len(before)-1].Seqnum {
		t.Errorf("%d entries before journald, %d after", len(before), len(after))
	}
	checkTagged(t, after, "theirs", 200)
	verifyFiles(t, d.files(t))

	d = serve(t, bin, filepath.Dir(d.data))
	again := d.senders(t, 2)
	for i, s := range again {
		s.next = senders[i].next
	}
	for err := range burst(again, 400) {
		t.Fatal(err)
	}
	d.command(t, "sync")
	d.verify(t, "taken back", 2)
	all := export(t, d.data)
	checkSent(t, all, again)
	checkTagged(t, all, "theirs", 200)
	d.end(t, syscall.SIGTERM)
	d.verify(t, "taken back and closed", 2)
}

// testContinuedByRemote lets systemd-journal-remote go on with a file of ours.
func testContinuedByRemote(t *testing.T, bin string) {
	d, _ := closedFiles(t, bin)
	path := d.files(t)["system.journal"]
	before := export(t, d.data)
	last := before[len(before)-1]
	var b []byte
	for i := range 500 {
		b = fmt.Appendf(b, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\nMESSAGE=remote %d\nPRIORITY=6\nSYSLOG_IDENTIFIER=remote\nTAG=a\n\n",
			last.Realtime+uint64(i), last.Monotonic+uint64(i), last.BootID, i+1)
	}
	pipe(t, b, journalRemote, "-o", path, "-")
	if files := d.files(t); len(files) != 1 {
		t.Errorf("journal-remote has not gone on with the file: %q", files)
	}
	after := export(t, d.data)
	checkSequence(t, "gone on by journal-remote", after, 1)
	checkTagged(t, after, "remote", 500)
	if len(after) != len(before)+500 {
		t.Errorf("%d entries before journal-remote, %d after", len(before), len(after))
	}
	verifyFiles(t, d.files(t))
}

// testAfterJournald starts the daemon on the files that a journald has left: it
// goes on with those that were closed, whoever has written them.
func testAfterJournald(t *testing.T, bin string) {
	dir := sockdir.New(t)
	data := filepath.Join(dir, "journal")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	runJournald(t, data, "theirs", 300, "TERM")
	theirs := export(t, data)
	d := serve(t, bin, dir)
	senders := d.senders(t, 3)
	senders[1].be(1000)
	for err := range burst(senders, 400) {
		t.Fatal(err)
	}
	d.command(t, "sync")
	d.verify(t, "gone on after journald", 2)
	all := export(t, d.data)
	checkSent(t, all, senders)
	checkTagged(t, all, "theirs", 300)
	checkTagged(t, all, "theirs-user", 3)
	if len(all) < len(theirs)+1200 {
		t.Errorf("%d entries, want the %d of journald and 1200", len(all), len(theirs))
	}
	d.end(t, syscall.SIGTERM)
	d.verify(t, "gone on after journald and closed", 2)
}

// testAfterSealingJournald starts the daemon on files that are sealed, which
// only who has the key can go on with.
func testAfterSealingJournald(t *testing.T, bin string) {
	dir := sockdir.New(t)
	data := filepath.Join(dir, "journal")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	runJournald(t, data, "theirs", 300, "TERM", "journalctl --setup-keys >/dev/null 2>&1 || exit 95", "journalctl --rotate || exit 94")
	place := filepath.Dir(journalFiles(t, data)["system.journal"])
	before := contents(t, place)
	d := serve(t, bin, dir)
	senders := d.senders(t, 2)
	senders[1].be(1000)
	for err := range burst(senders, 100) {
		t.Fatal(err)
	}
	d.command(t, "sync")
	after := contents(t, place)
	if !bytes.Equal(before["fss"], after["fss"]) {
		t.Error("the key was touched")
	}
	d.checkKept(t, before, after)
	all := export(t, d.data)
	checkSent(t, all, senders)
	checkTagged(t, all, "theirs", 300)
	checkTagged(t, all, "theirs-user", 3)
	files := d.files(t)
	maps.DeleteFunc(files, func(name, _ string) bool { return name != "system.journal" && name != "user-1000.journal" })
	verifyFiles(t, files) // the others need the key
}

// checkKept wants the files that a journald had open before the daemon came
// under other names, byte for byte, and the daemon to have said so.
func (d *served) checkKept(t *testing.T, before, after map[string][]byte) {
	t.Helper()
	for _, base := range []string{"system", "user-1000"} {
		kept := ""
		for name, b := range after {
			if bytes.Equal(b, before[base+".journal"]) {
				kept = name
			}
		}
		if !strings.HasPrefix(kept, base+"@") || !strings.HasSuffix(kept, ".journal~") {
			t.Errorf("journald's %s.journal is kept as %q", base, kept)
		}
		if log := d.printed(t); !strings.Contains(log, base+".journal cannot be gone on with, kept as "+kept) {
			t.Errorf("the daemon did not say what it did with %s.journal: %q", base, log)
		}
	}
}

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for _, e := range list {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// testAfterKilledJournald starts the daemon on the files of a journald that was
// killed: they are kept as they are, where extended attributes say whose they
// are, else repaired. Beside them are files that no program should touch.
func testAfterKilledJournald(t *testing.T, bin string) {
	dir := sockdir.New(t)
	data := filepath.Join(dir, "journal")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	runJournald(t, data, "theirs", 300, "KILL")
	files := journalFiles(t, data)
	theirs := export(t, data)
	place := filepath.Dir(files["system.journal"])
	killed := contents(t, place)
	_, err := unix.Getxattr(files["system.journal"], "user.crtime_usec", nil)
	marked := err == nil
	copied := "system@00000000000000000000000000000001-0000000000000001-0000000000000001.journal~"
	strange := []byte("no journal at all")
	for _, name := range []string{copied, "strange.journal"} {
		if err := os.WriteFile(filepath.Join(place, name), strange, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := serve(t, bin, dir)
	senders := d.senders(t, 2)
	for err := range burst(senders, 400) {
		t.Fatal(err)
	}
	d.command(t, "sync")
	for _, name := range []string{copied, "strange.journal"} {
		path := filepath.Join(place, name)
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, strange) {
			t.Errorf("%s was touched: %v, %q", name, err, b)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	names := slices.Sorted(maps.Keys(d.files(t)))
	if len(names) != 3 || !strings.HasPrefix(names[1], "system@") || names[0] != "system.journal" || !strings.HasPrefix(names[2], "user-1000@") {
		t.Errorf("files %q, want the killed journald's beside a new one", names)
	}
	if marked {
		d.checkKept(t, killed, contents(t, place))
	} else if log := d.printed(t); !strings.Contains(log, "system.journal was not closed: repaired") {
		t.Errorf("the start did not say what it did: %q", log)
	}
	all := export(t, d.data)
	checkTagged(t, all, "theirs", 300)
	checkTagged(t, all, "theirs-user", 3)
	checkSent(t, all, senders)
	if len(all) < len(theirs)+800 {
		t.Errorf("%d entries, want the %d of journald and 800", len(all), len(theirs))
	}
	d.verify(t, "after a killed journald", 3)
}
