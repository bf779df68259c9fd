package compat

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// prepare lets each sender send its first entries, and the followers show them:
// what the flood is about is in the files, and everybody is at their end.
func (d *served) prepare(t *testing.T, senders []*sender, tails ...*tail) {
	t.Helper()
	for err := range burst(senders, 8) {
		t.Fatal(err)
	}
	d.command(t, "sync")
	for _, f := range tails {
		f.await(t, senders)
	}
}

// testFlood floods the daemon in bursts with quiet spells between them. The
// followers must show everything, the last entries before a quiet spell
// included, and every look at the files meanwhile must find whole, gap-free
// files.
func testFlood(t *testing.T, bin string) {
	const each, perBurst = 4, 1200
	d := serve(t, bin, shortDir(t))
	senders := d.senders(t, each)
	d.prepare(t, senders)
	tails := append(d.theirTails(t, each), d.ourTails(t, each)...)
	d.prepare(t, senders, tails...)
	for round := range 4 {
		failed := burst(senders, perBurst)
		if round == 2 {
			d.command(t, "rotate")
		}
		d.lookAround(t, []string{"journalctl"})
		if round == 1 {
			d.lookAround(t, []string{d.bin, "query"})
		}
		for err := range failed {
			t.Fatal(err)
		}
		for _, f := range tails {
			f.await(t, senders)
		}
		switch round {
		case 2:
			d.command(t, "sync") // the rotation may still be told
			d.verify(t, "after a rotation", 2)
		default: // everything was shown, so the index is written
			d.verify(t, "idle", len(d.files(t)))
		}
	}
	for range 9 {
		if err := senders[0].send(1); err != nil {
			t.Fatal(err)
		}
		for _, f := range tails {
			f.await(t, senders)
		}
	}
	d.verify(t, "idle after lone entries", 2)
	d.command(t, "sync")
	d.verify(t, "synced", 2)
	d.command(t, "rotate")
	d.command(t, "sync")
	d.verify(t, "rotated", 3)
	checkWhole(t, export(t, d.data), senders)
	d.end(t, syscall.SIGTERM)
	d.verify(t, "ended", 3)
	checkWhole(t, export(t, d.data), senders)
}

// testUsers floods the daemon from several users, whose entries go to files of
// their own: followers must show all of them. journalctl -f is not among them:
// it leaves out what is written to one file later than it has a time that comes
// before what it has shown of another.
func testUsers(t *testing.T, bin string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to send as other users")
	}
	d := serve(t, bin, shortDir(t))
	senders := d.senders(t, 4)
	senders[1].be(1000)
	senders[2].be(1001)
	d.prepare(t, senders)
	tails := d.ourTails(t, len(senders))
	for round := range 3 {
		failed := burst(senders, 1500)
		if round == 1 {
			d.command(t, "rotate")
		}
		for err := range failed {
			t.Fatal(err)
		}
		for _, f := range tails {
			f.await(t, senders)
		}
	}
	d.command(t, "sync")
	d.verify(t, "synced", 6)
	checkSent(t, export(t, d.data), senders)
}

// testSmallFiles floods a daemon that fills file after file, faster than a
// follower may hear of them. journalctl -f is not among them: it opens files by
// their names, and leaves out one that has lost its name to the next meanwhile.
func testSmallFiles(t *testing.T, bin string) {
	const each = 3
	d := serve(t, bin, shortDir(t), "SystemMaxFileSize=512K")
	senders := d.senders(t, each)
	d.prepare(t, senders)
	tails := d.ourTails(t, each)
	for range 2 {
		failed := burst(senders, 1200)
		d.lookAround(t, []string{d.bin, "query"})
		for err := range failed {
			t.Fatal(err)
		}
		for _, f := range tails {
			f.await(t, senders)
		}
	}
	d.command(t, "sync")
	n := len(d.files(t))
	if n < 4 {
		t.Errorf("%d files: they were to be more", n)
	}
	d.verify(t, "synced", n)
	checkWhole(t, export(t, d.data), senders)
}

// lookAround reads what the daemon is writing, with journalctl or what stands in
// for it.
func (d *served) lookAround(t *testing.T, program []string) {
	t.Helper()
	look := func(args ...string) []byte {
		return succeed(t, program[0], append(append(slices.Clone(program[1:]), "-D", d.data), args...)...)
	}
	name := filepath.Base(program[0])
	all := parseExport(t, look("-o", "export"))
	checkSequence(t, name+" -o export", all, 1)
	checkPrefixes(t, name+" -o export", all)
	last := parseExport(t, look("-o", "export", "-n", "20"))
	checkSequence(t, name+" -n 20", last, 1)
	reverse := parseExport(t, look("-o", "export", "-r", "-n", "20"))
	checkSequence(t, name+" -r -n 20", reverse, -1)
	if len(last) != 20 || len(reverse) != 20 {
		t.Errorf("%s -n 20 shows %d entries, with -r %d", name, len(last), len(reverse))
	}
	if boots := bytes.Count(look("--list-boots", "-q"), []byte("\n")); boots != 1 {
		t.Errorf("%s --list-boots shows %d boots", name, boots)
	}
	if tags := slices.Sorted(strings.Lines(string(look("-F", "TAG")))); !slices.Equal(tags, []string{"a\n", "b\n", "c\n"}) {
		t.Errorf("%s -F TAG shows %q", name, tags)
	}
	checkMatches(t, name, parseExport(t, look(append([]string{"-o", "export"}, floodTerms()...)...)))
}

// testKill kills the daemon in a flood, starts it again, and lets the
// followers go on: they must have shown everything that is there.
func testKill(t *testing.T, bin string) {
	const each = 4
	dir := shortDir(t)
	d := serve(t, bin, dir)
	senders := d.senders(t, each)
	d.prepare(t, senders)
	tails := append(d.theirTails(t, each), d.ourTails(t, each)...)
	d.prepare(t, senders, tails...)
	for err := range burst(senders, 500) {
		t.Fatal(err)
	}
	d.command(t, "sync")
	promised := senders[1].next
	failed := burst(senders, 100_000)
	for tails[0].shown() < 8*promised { // in mid-stream
		<-tails[0].moved
	}
	d.end(t, syscall.SIGKILL)
	n := 0
	for err := range failed {
		if n++; !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	}
	if n != each {
		t.Fatalf("%d of %d senders were cut off", n, each)
	}
	d = serve(t, bin, dir)
	d.command(t, "sync")
	d.verify(t, "killed and started again", 2)
	stored := checkPrefixes(t, "after the kill", export(t, d.data))
	for _, s := range senders {
		if stored[s.id] < promised {
			t.Errorf("sender %d: %d entries are there, %d were synced", s.id, stored[s.id], promised)
		}
	}
	// The senders go on behind what is there.
	again := d.senders(t, each)
	for i, s := range again {
		s.next = stored[i]
	}
	for err := range burst(again, 500) {
		t.Fatal(err)
	}
	for _, f := range tails {
		f.await(t, again)
	}
	d.verify(t, "idle after a kill", 2)
	checkWhole(t, export(t, d.data), again)
	if files := slices.Collect(maps.Keys(d.files(t))); slices.ContainsFunc(files, func(s string) bool { return filepath.Ext(s) == ".journal~" }) {
		t.Errorf("files %q: one was not repaired", files)
	}
}
