package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wFileBytes is a small file, closed, with n entries.
func wFileBytes(t testing.TB, fl Flavour, n int) []byte {
	t.Helper()
	fs := crashfs.New(1)
	w, err := Create("/a.journal", Options{FS: fs, Flavour: fl, MaxSize: MinMaxSize})
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock() // a seed means the same damage each time
	w.m.fileID, w.m.hdr.FileID, w.m.hdr.SeqnumID = entry.ID{5}, entry.ID{5}, entry.ID{5}
	w.hasher = w.m.wHasher
	w.mu.Unlock()
	g := newWGen(31)
	if _, k, err := w.TryAppend(g.batch(n)); k != n || err != nil {
		t.Fatal(k, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fs.Bytes("/a.journal")
}

// wInMemory puts a file into a file system of its own.
func wInMemory(t testing.TB, b []byte) *crashfs.FS {
	t.Helper()
	fs := crashfs.New(1)
	f, err := fs.OpenFile(wCrashPath, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return fs
}

// wDamage changes a file as seed says: bits, bytes, stretches of zeros or of
// other parts of the file, its length; mostly where something is.
func wDamage(b []byte, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 4))
	b = bytes.Clone(b)
	end := len(b)
	used := int(decodeHeader(b).TailObjectOffset) + 64
	for range 1 + r.IntN(6) {
		at := r.IntN(min(used, len(b)))
		if r.IntN(3) == 0 {
			at = r.IntN(272) // the header
		}
		switch r.IntN(6) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.Uint32())
		case 2:
			clear(b[at:min(at+r.IntN(5000), len(b))])
		case 3:
			from := r.IntN(len(b))
			copy(b[at:min(at+r.IntN(200), len(b))], b[from:])
		case 4:
			at &^= 7
			if at+8 <= len(b) { // an offset that means something
				copy(b[at:at+8], b[r.IntN(min(used, len(b)))&^7:])
			}
		case 5:
			if r.IntN(4) == 0 {
				end = at
			}
		}
	}
	return b[:end]
}

// checkRepair repairs a damaged file: it says why it cannot, or leaves a file
// that verifies and that a second call does not touch.
func checkRepair(t *testing.T, damaged []byte) {
	fs := wInMemory(t, damaged)
	rep, err := Repair(wCrashPath, RepairOptions{FS: fs})
	if err != nil {
		var fe *FormatError
		if !errors.As(err, &fe) {
			t.Fatalf("an error of another type: %v", err)
		}
		return
	}
	b := fs.Bytes(wCrashPath)
	if rep.Clean && !bytes.Equal(b, damaged) {
		t.Error("a clean file was written to")
	}
	wVerifyBytes(t, b)
	if again, err := Repair(wCrashPath, RepairOptions{FS: fs}); err != nil || !again.Clean || again.Entries != rep.Entries {
		t.Errorf("second Repair: %+v, %v", again, err)
	}
	if rep.Header.State != StateOffline || rep.Header.TailEntryRealtime > 1<<54 {
		return
	}
	w, err := OpenWriter(wCrashPath, Options{
		FS: fs, MachineID: rep.Header.MachineID, MaxSize: 8 << 20,
		Clock: func() (uint64, uint64) { return 1 << 54, 1 << 54 },
	})
	if err != nil {
		t.Fatalf("OpenWriter of a repaired file: %v", err)
	}
	if _, _, err = w.TryAppend([]entry.Entry{wFields("A=1", "_HOSTNAME=host")}); err != nil && !errors.Is(err, ErrFull) {
		t.Errorf("append to a repaired file: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wVerifyBytes(t, fs.Bytes(wCrashPath))
}

func TestStressRepairOfDamagedFiles(t *testing.T) {
	oneGoroutine(t)
	for _, fl := range []Flavour{{}, {Regular: true, Unkeyed: true}} {
		b := wFileBytes(t, fl, 150)
		for seed := range uint64(crashRuns(40)) {
			t.Run(fmt.Sprintf("regular %v seed %d", fl.Regular, seed), func(t *testing.T) { checkRepair(t, wDamage(b, seed)) })
		}
	}
}

// The xor_hash of an entry is worked out anew when it has lost a bit, and left
// alone when a field that came twice explains it.
func TestRepairOfXorHash(t *testing.T) {
	for _, fl := range []Flavour{{}, {Regular: true}, {Unkeyed: true}, {Regular: true, Unkeyed: true}} {
		good := vSmall(t, fl).b
		bad := vParse(bytes.Clone(good))
		for i, p := range bad.entries[10:20] {
			bad.b[p+object.EntryXorHash+i%8] ^= 1 << (i % 8)
		}
		fs := wInMemory(t, bad.b)
		rep, err := Repair(wCrashPath, RepairOptions{FS: fs})
		if err != nil || rep.Relinked != 10 || !errors.Is(rep.Cause, ErrCorrupt) {
			t.Errorf("%+v: %+v, %v", fl, rep, err)
		}
		if !bytes.Equal(fs.Bytes(wCrashPath), good) {
			t.Errorf("%+v: the repaired file is not what it was", fl)
		}
	}

	fs := crashfs.New(1)
	w, err := Create(wCrashPath, Options{FS: fs, MaxSize: MinMaxSize})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1", "B=2", "A=1"), wFields("A=1", "A=1")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if rep, err := Repair(wCrashPath, RepairOptions{FS: fs}); err != nil || !rep.Clean {
		t.Errorf("a field twice: %+v, %v", rep, err)
	}
}

func FuzzRepair(f *testing.F) {
	b := wFileBytes(f, Flavour{}, 60)
	for _, patch := range []string{"", "\x01", "\x98\x10\x07"} {
		f.Add(uint32(0x98), []byte(patch), false)
		f.Add(uint32(0x9000), []byte(patch), true)
	}
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, cut bool) {
		d := bytes.Clone(b)
		i := int(at) % len(d)
		copy(d[i:], patch)
		if cut {
			d = d[:i]
		}
		checkRepair(t, d)
	})
}
