package store

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

const (
	oneID   = "00000000000000000000000000000001"
	otherID = "00000000000000000000000000000002"
)

// aged is a file for TestVacuumElsewhere, with as much of a header as is looked at.
type aged struct {
	name    string
	state   byte
	entries uint64
}

// writeAged writes files of 4096 bytes, one block each.
func writeAged(t *testing.T, dir string, files []aged) {
	t.Helper()
	for _, f := range files {
		b := make([]byte, 4096)
		b[stateAt] = f.state
		binary.LittleEndian.PutUint64(b[nEntriesAt:], f.entries)
		if err := os.WriteFile(filepath.Join(dir, f.name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// archiveOf is an archive's name; when is its time in days before now.
func archiveOf(now time.Time, id string, seqnum uint64, days int) string {
	at := now.Add(-time.Duration(days) * 24 * time.Hour).UnixMicro()
	return "system@" + id + "-" + hex16(seqnum) + "-" + hex16(uint64(at)) + ".journal"
}

func hex16(n uint64) string {
	b := binary.BigEndian.AppendUint64(nil, n)
	const digits = "0123456789abcdef"
	var s []byte
	for _, c := range b {
		s = append(s, digits[c>>4], digits[c&15])
	}
	return string(s)
}

// TestVacuumElsewhere has archives removed by size, by age and by count: the
// oldest, those without entries in any case, and never one that is written.
func TestVacuumElsewhere(t *testing.T) {
	now := time.Now()
	files := []aged{
		{archiveOf(now, oneID, 1, 30), 2, 5},
		{archiveOf(now, oneID, 90, 20), 2, 5},
		{archiveOf(now, otherID, 1, 10), 0, 5},
		{archiveOf(now, oneID, 200, 5), 2, 5},
		{archiveOf(now, otherID, 7, 40), 2, 0},  // empty
		{archiveOf(now, otherID, 70, 50), 1, 5}, // its writer is not done
		{"system@" + hex16(uint64(now.Add(-15*24*time.Hour).UnixMicro())) + "-0123456789abcdef.journal~", 1, 5},
		{"system.journal", 1, 5},
		{"user-1000.journal", 0, 0},
		{"upcoming@0123456789abcdef.journal", 1, 0},
		{"notes.txt", 0, 0},
	}
	order := []string{files[4].name, files[0].name, files[1].name, files[6].name, files[2].name, files[3].name}
	for name, c := range map[string]struct {
		stay Stay
		gone int
	}{
		"nothing is too much": {Stay{Bytes: 1 << 20, Age: 31 * 24 * time.Hour, Files: 9}, 1},
		"size":                {Stay{Bytes: 7 * 4096}, 3},
		"a byte less":         {Stay{Bytes: 7*4096 - 1}, 4},
		"age":                 {Stay{Age: 12 * 24 * time.Hour}, 4},
		"count":               {Stay{Files: 6}, 4}, // four of which are not archives
		"all":                 {Stay{Files: 1}, 6},
		"any of them":         {Stay{Bytes: 8 * 4096, Age: 12 * 24 * time.Hour, Files: 8}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeAged(t, dir, files)
			for _, dry := range []bool{true, false} {
				gone, err := Vacuum(vfs.OS{}, dir, c.stay, now, dry)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, g := range gone {
					if g.Bytes != 4096 || g.Empty != (g.Name == files[4].name) {
						t.Errorf("%+v", g)
					}
					names = append(names, g.Name)
				}
				if d := cmp.Diff(order[:c.gone], names); d != "" {
					t.Errorf("dry %v (-want +got):\n%s", dry, d)
				}
				for _, f := range files {
					_, err := os.Stat(filepath.Join(dir, f.name))
					if want := !dry && slices.Contains(order[:c.gone], f.name); os.IsNotExist(err) != want {
						t.Errorf("dry %v: %s removed: %v, want %v", dry, f.name, os.IsNotExist(err), want)
					}
				}
			}
		})
	}
}

// failingRemoval is the machine's file system, on which the second removal fails.
type failingRemoval struct {
	vfs.OS
	removals int
}

func (f *failingRemoval) Remove(name string) error {
	if f.removals++; f.removals == 2 {
		return &os.PathError{Op: "remove", Path: name, Err: os.ErrPermission}
	}
	return f.OS.Remove(name)
}

// TestVacuumFails has the second removal fail: what went before is told, and the
// error names the file.
func TestVacuumFails(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	files := []aged{{archiveOf(now, oneID, 1, 3), 2, 5}, {archiveOf(now, oneID, 2, 2), 2, 5}, {archiveOf(now, oneID, 3, 1), 2, 5}}
	writeAged(t, dir, files)
	gone, err := Vacuum(&failingRemoval{}, dir, Stay{Files: 1}, now, false)
	if !os.IsPermission(err) || len(gone) != 1 || gone[0].Name != files[0].name {
		t.Errorf("gone %v, error %v", gone, err)
	}
}
