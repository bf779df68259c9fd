package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

const wJournalRemote = "/lib/systemd/systemd-journal-remote"

// wExportOf serializes entries as systemd-journal-remote reads them.
func wExportOf(entries []entry.Entry) []byte {
	var b []byte
	for i := range entries {
		e := &entries[i]
		b = fmt.Appendf(b, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n", e.Realtime, e.Monotonic)
		for _, f := range e.Fields {
			if bytes.ContainsAny(f, "\n\x00") {
				b = append(append(b, f.Name()...), '\n')
				n := uint64(len(f.Value()))
				for i := range 8 {
					b = append(b, byte(n>>(8*i)))
				}
				b = append(b, f.Value()...)
			} else {
				b = append(b, f...)
			}
			b = append(b, '\n')
		}
		b = append(b, '\n')
	}
	return b
}

// wRemoteFile has systemd-journal-remote write entries to a file.
func wRemoteFile(t *testing.T, entries []entry.Entry, fl Flavour) []byte {
	t.Helper()
	if _, err := os.Stat(wJournalRemote); err != nil {
		t.Skip("systemd-journal-remote is not installed")
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out.journal")
	if err := os.WriteFile(in, wExportOf(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(wJournalRemote, "--compress=no", "-o", out, in)
	flag := map[bool]string{false: "1", true: "0"}
	cmd.Env = append(os.Environ(), "SYSTEMD_JOURNAL_COMPACT="+flag[fl.Regular], "SYSTEMD_JOURNAL_KEYED_HASH="+flag[fl.Unkeyed])
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("systemd-journal-remote: %v\n%s", err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wFileWithID writes entries as Create, Append and Close do, in batches, to a
// file of the given identifiers.
func wFileWithID(t *testing.T, entries []entry.Entry, fl Flavour, want Header) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.journal")
	o := Options{Flavour: fl, MachineID: want.MachineID, BootID: want.TailEntryBootID}
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.m.fileID, w.m.hdr.FileID, w.m.hdr.SeqnumID = want.FileID, want.FileID, want.SeqnumID
	w.hasher = w.m.wHasher
	w.mu.Unlock()
	for i := 0; len(entries) > 0; i++ {
		n := min(1+i*i%37, len(entries))
		if _, k, err := w.Append(t.Context(), entries[:n]); k != n || err != nil {
			t.Fatalf("Append of %d: %d, %v", n, k, err)
		}
		if i%11 == 0 {
			if err := w.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		entries = entries[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wSameBytes reports where two files differ.
func wSameBytes(t *testing.T, got, want []byte) {
	t.Helper()
	for off := 0; off < max(len(got), len(want)); off += 8 {
		var g, w []byte
		if off < len(got) {
			g = got[off:min(off+8, len(got))]
		}
		if off < len(want) {
			w = want[off:min(off+8, len(want))]
		}
		if !bytes.Equal(g, w) {
			t.Errorf("offset %#x: got % x, want % x", off, g, w)
			if off > 0x108 {
				return
			}
		}
	}
}

func TestWriterWritesTheBytesOfJournalRemote(t *testing.T) {
	for _, fl := range []Flavour{{}, {Unkeyed: true}, {Regular: true}, {Regular: true, Unkeyed: true}} {
		fl.NoCompression = true
		name := fmt.Sprintf("regular %v unkeyed %v", fl.Regular, fl.Unkeyed)
		t.Run(name, func(t *testing.T) {
			g := newWGen(7)
			entries := g.batch(map[bool]int{false: 800, true: inFull(6000, 3000)}[fl.Unkeyed])
			g.newBoot()
			entries = append(entries, g.batch(500)...)
			want := wRemoteFile(t, entries, fl)
			h := decodeHeader(want)
			if h.NEntries != uint64(len(entries)) {
				t.Fatalf("journal-remote stored %d of %d entries", h.NEntries, len(entries))
			}
			got := wFileWithID(t, entries, fl, h)
			if fl.Unkeyed && h.DataHashChainDepth == 0 {
				t.Error("no collision in the sample: chains are not tested")
			}
			wSameBytes(t, got, want)
		})
	}
}

// A file that systemd has closed is continued, and still verifies.
func TestOpenWriterContinuesFilesOfSystemd(t *testing.T) {
	for _, fl := range []Flavour{{}, {Regular: true, Unkeyed: true}} {
		g := newWGen(21)
		b := wRemoteFile(t, g.batch(400), fl)
		path := filepath.Join(t.TempDir(), "a.journal")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenWriter(path, Options{MachineID: entry.ID{3}}); !errors.Is(err, ErrOtherMachine) {
			t.Errorf("OpenWriter of another machine's file: %v", err)
		}
		w, err := OpenWriter(path, Options{MachineID: decodeHeader(b).MachineID})
		if err != nil {
			t.Fatal(err)
		}
		if _, n, err := w.Append(t.Context(), g.batch(500)); n != 500 || err != nil {
			t.Fatal(n, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		wVerify(t, path)
		if n := bytes.Count(wExport(t, path), []byte("__CURSOR=")); n != 900 {
			t.Errorf("journalctl shows %d entries, want 900", n)
		}
	}
}

// Offsets of what a file of 252 does not have.
func TestWriterHeaderOf254(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.journal")
	w, err := Create(path, Options{Flavour: Flavour{Header254: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Append(t.Context(), newWGen(3).batch(50)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := decodeHeader(b)
	if h.HeaderSize != 272 || h.CompatibleFlags != object.CompatibleTailEntryBootID {
		t.Errorf("header size %d, compatible flags %d", h.HeaderSize, h.CompatibleFlags)
	}
	off := h.TailEntryOffset
	if object.Type(b[off]) != object.Entry || object.U64(b[off:], object.EntrySeqnum) != 50 {
		t.Errorf("tail_entry_offset %#x is not entry 50", off)
	}
	// systemd 252 reads such files.
	if n := strings.Count(string(wExport(t, path)), "__CURSOR="); n != 50 {
		t.Errorf("journalctl shows %d entries", n)
	}
}
