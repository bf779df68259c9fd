package compat

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/sockdir"
)

const journalUpload = "/lib/systemd/systemd-journal-upload"

// TestUpload has the real systemd-journal-upload send a journal, from its files and
// from a pipe, and holds what is stored against what systemd-journal-remote stores
// of the same input.
func TestUpload(t *testing.T) {
	needJournalctl(t)
	if _, err := os.Stat(journalUpload); err != nil {
		t.Skipf("needs systemd-journal-upload: %v", err)
	}
	source := t.TempDir()
	writeCorpus(t, filepath.Join(source, "source.journal"), uploadCorpus())
	stream := succeed(t, "journalctl", "-D", source, "-o", "export")
	reference := filepath.Join(t.TempDir(), "reference.journal")
	pipe(t, stream, journalRemote, "-o", reference, "-")
	want := withoutNumbers(parseExport(t, succeed(t, "journalctl", "--file", reference, "-o", "export")))

	d, url := serveHTTP(t, tidemarkBinary(t), sockdir.New(t))
	upload := func(stdin []byte, args ...string) {
		t.Helper()
		cmd := exec.Command(journalUpload, append([]string{"--url=" + url}, args...)...)
		cmd.Stdin = bytes.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("systemd-journal-upload %q: %v\n%s", args, err, out)
		}
	}
	upload(nil, "-D", source, "--follow=no")
	d.command(t, "sync")
	remote := filepath.Join(filepath.Dir(d.files(t)["system.journal"]), "remote-127.0.0.1.journal")
	checkUploaded(t, "files", remote, want)
	d.verify(t, "after the files", 2)

	// The same again, and its order breaks: an archive, and a file with all of it.
	upload(stream, "-")
	d.command(t, "sync")
	checkUploaded(t, "pipe", remote, want)
	d.verify(t, "after the pipe", 3)
	all := export(t, d.data, "_HOSTNAME=uploaded")
	if len(all) != 2*len(want) {
		t.Errorf("journalctl -D shows %d uploaded entries, want %d", len(all), 2*len(want))
	}
	d.end(t, syscall.SIGKILL)
	d, _ = serveHTTP(t, d.bin, filepath.Dir(d.data))
	d.verify(t, "after a kill", 4) // the system's own file and its predecessor, and two archives
	if again := export(t, d.data, "_HOSTNAME=uploaded"); len(again) != 2*len(want) {
		t.Errorf("after a kill journalctl -D shows %d uploaded entries, want %d", len(again), 2*len(want))
	}
	d.end(t, syscall.SIGTERM)
}

// uploadCorpus are entries of three boots, with awkward values, many of them.
func uploadCorpus() (all []corpusEntry) {
	for i, boot := range []string{bootA, bootB, bootC} {
		for n := range uint64(600) {
			at := uint64(i)*100_000_000 + n*1000
			all = append(all, corpusEntry{corpusStart + at, n * 1000, boot, []string{
				"_HOSTNAME=uploaded", fmt.Sprintf("MESSAGE=line one of %d\nline two", n), fmt.Sprint("PRIORITY=", n%8), "E=", "TAG=a", "TAG=b",
				"BIN=\x00\x01\n\xff", fmt.Sprint("_PID=", n), "LONG=" + strings.Repeat("long ", int(n)),
			}})
		}
	}
	return all
}

// checkUploaded compares what a file holds with what it should.
func checkUploaded(t *testing.T, what, path string, want []string) {
	t.Helper()
	all := parseExport(t, succeed(t, "journalctl", "--file", path, "-o", "export"))
	got := withoutNumbers(all)
	if len(got) != len(want) {
		t.Errorf("%s: %d entries, systemd-journal-remote has %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s, entry %d (-systemd-journal-remote +tidemark):\n%.2000s", what, i, cmp.Diff(want[i], got[i]))
			break
		}
	}
	for i, e := range all {
		if first := all[0].Seqnum; e.Seqnum != first+uint64(i) {
			t.Errorf("%s: entry %d has number %d, the first one %d", what, i, e.Seqnum, first)
			break
		}
	}
}
