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

	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// begin sends one entry: followers end at once where the boot has none.
func (d *served) begin(t *testing.T, s *sender) {
	t.Helper()
	if err := s.send(1); err != nil {
		t.Fatal(err)
	}
	d.command(t, "sync")
}

// flood lets all senders send n entries each while the files are looked at, and
// waits until the tails have shown everything.
func (d *served) flood(t *testing.T, senders []*sender, n int, tails []*tail, meanwhile func()) {
	t.Helper()
	failed := burst(senders, n)
	meanwhile()
	for err := range failed {
		t.Fatal(err)
	}
	for _, f := range tails {
		f.await(t, senders)
	}
}

// testFlood floods the daemon in bursts with quiet spells between them. The
// followers must show everything, the last entries before a quiet spell
// included, and every look at the files meanwhile must find whole, gap-free
// files.
func testFlood(t *testing.T, bin string) {
	const each = 4
	perBurst := 300
	if full() {
		perBurst = 1200
	}
	d := serve(t, bin, sockdir.New(t))
	senders := d.senders(t, each)
	d.begin(t, senders[0])
	tails := append(d.ourTails(t, each), d.theirTails(t, each)...)
	tails = append(tails, d.theirMatchingTails(t, each)...)
	journalctl := func() { d.lookAround(t, []string{"journalctl"}) }

	d.flood(t, senders, perBurst, tails, journalctl)
	d.verify(t, "idle", 1) // all was shown, so the index is written
	d.command(t, "rotate")
	d.flood(t, senders, perBurst, tails, journalctl)
	d.verify(t, "idle after a rotation", 2)
	for range 9 {
		if err := senders[0].send(1); err != nil {
			t.Fatal(err)
		}
		for _, f := range tails {
			f.await(t, senders)
		}
	}
	d.verify(t, "idle after lone entries", 2)
	d.flood(t, senders, perBurst, tails, func() {
		d.command(t, "rotate")
		journalctl()
		d.lookAround(t, []string{d.bin, "query"})
	})
	d.command(t, "sync") // the rotation may still be told
	d.verify(t, "after a rotation in a flood", 3)
	d.flood(t, senders, perBurst, tails, journalctl)
	d.verify(t, "idle", 3)
	d.command(t, "rotate")
	d.command(t, "sync")
	d.verify(t, "rotated", 4)
	checkWhole(t, export(t, d.data), senders)
	d.end(t, syscall.SIGTERM)
	d.verify(t, "ended", 4)
	checkWhole(t, export(t, d.data), senders)
}

// testUsers floods the daemon from several users, whose entries go to files of
// their own: followers must show all of them, journalctl -f when the users take
// turns. In a flood of all it looks at one file after the other, and what comes to
// light in between it passes over, whoever writes the files; DECISIONS.md says what
// is done to keep that rare, TestOrderOfSeveralFiles looks at every moment of it,
// and the bench counts it.
func testUsers(t *testing.T, bin string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to send as other users")
	}
	d := serve(t, bin, sockdir.New(t))
	senders := d.senders(t, 4)
	senders[1].be(1000)
	senders[2].be(1001)
	d.begin(t, senders[0])
	for _, s := range senders[1:3] {
		d.begin(t, s)
	}
	tails := d.ourTails(t, len(senders))
	theirs := append(d.theirTails(t, len(senders)), d.theirMatchingTails(t, len(senders))...)
	for range 3 {
		for i := range senders {
			for err := range burst(senders[i:i+1], 500) {
				t.Fatal(err)
			}
			for _, f := range append(theirs, tails...) {
				f.await(t, senders)
			}
		}
	}
	for _, f := range theirs {
		f.stop()
	}
	for round := range 3 {
		d.flood(t, senders, 1500, tails, func() {
			if round == 1 {
				d.command(t, "rotate")
			}
		})
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
	d := serve(t, bin, sockdir.New(t), "SystemMaxFileSize=512K")
	senders := d.senders(t, each)
	d.begin(t, senders[0])
	tails := d.ourTails(t, each)
	for range 2 {
		d.flood(t, senders, 1200, tails, func() { d.lookAround(t, []string{d.bin, "query"}) })
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
	if want := min(20, len(all)); len(last) < want || len(last) > 20 || len(reverse) < want || len(reverse) > 20 {
		t.Errorf("%s -n 20 shows %d entries, with -r %d, of %d or more", name, len(last), len(reverse), len(all))
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
	dir := sockdir.New(t)
	d := serve(t, bin, dir)
	senders := d.senders(t, each)
	d.begin(t, senders[0])
	tails := append(d.theirTails(t, each), d.ourTails(t, each)...)
	tails = append(tails, d.theirMatchingTails(t, each)...)
	d.flood(t, senders, 500, tails, func() {})
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
	d.flood(t, again, 500, tails, func() {})
	d.verify(t, "idle after a kill", 2)
	checkWhole(t, export(t, d.data), again)
	if files := slices.Collect(maps.Keys(d.files(t))); slices.ContainsFunc(files, func(s string) bool { return filepath.Ext(s) == ".journal~" }) {
		t.Errorf("files %q: one was not repaired", files)
	}
}
