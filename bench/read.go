package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// readFile writes a journal file of about n varied entries with
// systemd-journal-remote, and returns its name: that of the largest, if it wrote
// several.
func readFile(ctx context.Context, s settings, n int) (path string, entries uint64, err error) {
	dir := filepath.Join(s.dir, "read")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", 0, err
	}
	in := filepath.Join(s.dir, "read.export")
	if err := generate(in, n); err != nil {
		return "", 0, err
	}
	if out, err := exec.CommandContext(ctx, remotePath, "-o", filepath.Join(dir, "read.journal"), in).CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("%w (apt install systemd-journal-remote): %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil {
		return "", 0, err
	}
	for _, name := range files {
		f, err := journal.OpenFile(name)
		if err != nil {
			return "", 0, err
		}
		if k := f.Entries(); k > entries {
			path, entries = name, k
		}
		_ = f.Close() // only read
	}
	if entries == 0 {
		return "", 0, errors.New("systemd-journal-remote wrote no entry")
	}
	return path, entries, os.Remove(in)
}

const remotePath = "/lib/systemd/systemd-journal-remote"

// readUnit is the unit with the most entries.
const readUnit = "nginx-1.service"

// benchRead compares what reads a file: the library with libsystemd, query and
// verify with journalctl.
func benchRead(ctx context.Context, s settings) error {
	if err := need("journalctl"); err != nil {
		return err
	}
	path, n, err := readFile(ctx, s, s.read)
	if err != nil {
		return err
	}
	fmt.Printf("\n## read: one file of %d entries; medians of %d interleaved runs (library %d, the quick ones %d), output to /dev/null\n\n", n, s.rounds, 3*s.rounds, quickRounds*s.rounds)
	row, err := scanSides(ctx, s, path)
	if err != nil {
		return err
	}
	rows := []sidesOf{row}
	for _, r := range [...]struct {
		name  string
		args  []string
		bound float64
		quick bool
	}{
		{"-o export", []string{"-o", "export"}, 8, false},
		{"-o json", []string{"-o", "json"}, 20, false},
		{"-o short", nil, 6, false},
		{"-g TEXT", []string{"-g", "session dropped"}, 4, false},
		{"-g A\\|B", []string{"-g", "shipped|declined"}, 4, false},
		{"unit match, export", []string{"_SYSTEMD_UNIT=" + readUnit, "-o", "export"}, 1.5, false},
		{"-u UNIT", []string{"-u", readUnit}, 1.5, false},
		{"PRIORITY=2 PRIORITY=4 + unit", []string{"PRIORITY=2", "PRIORITY=4", "+", "_SYSTEMD_UNIT=ssh.service"}, 1.5, false},
		{"-n 10", []string{"-n", "10"}, 1, true},
		{"--since, 10 lines", []string{"--since", "2026-01-05 08:00:00", "--until", "2026-01-05 08:00:05"}, 1, true},
		{"--list-boots", []string{"--list-boots"}, 1, true},
		{"-F _SYSTEMD_UNIT", []string{"-F", "_SYSTEMD_UNIT"}, 1, true},
		{"-F MESSAGE", []string{"-F", "MESSAGE"}, 1, false},
		{"--header", []string{"--header"}, 1, true},
	} {
		rounds := 0
		if r.quick {
			rounds = quickRounds * s.rounds
		}
		rows = append(rows, sidesOf{
			name: r.name, bound: r.bound, rounds: rounds,
			ours:   append([]string{s.tidemark, "query", "--no-pager", "--file", path}, r.args...),
			theirs: append([]string{"journalctl", "--no-pager", "--file", path}, r.args...),
		})
	}
	rows = append(rows, sidesOf{
		name: "verify", bound: 6,
		ours: []string{s.tidemark, "verify", path}, theirs: []string{"journalctl", "--verify", "--file", path},
	})
	return errors.Join(compare(ctx, s, rows), os.RemoveAll(filepath.Dir(path)))
}

const (
	dirFiles   = 300
	dirEntries = 2000
)

// benchDir compares queries of a directory of many files.
func benchDir(ctx context.Context, s settings) error {
	if err := need("journalctl"); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := writeArchives(ctx, s, dir); err != nil {
		return err
	}
	fmt.Printf("\n## dir: %d files of %d entries in one directory; medians of %d interleaved runs\n\n", dirFiles, dirEntries, 2*s.rounds)
	var rows []sidesOf
	for _, r := range [...]struct {
		name string
		args []string
		cold bool
	}{
		{"-n 10", []string{"-n", "10"}, false},
		{"a minute of the newest file", []string{"--since", "2026-01-08 11:00:00", "--until", "2026-01-08 11:01:00"}, false},
		{"a minute in the middle", []string{"--since", "2026-01-06 20:00:00", "--until", "2026-01-06 20:01:00"}, false},
		{"-n 10, from the disk", []string{"-n", "10"}, true},
		{"a minute of the newest file, from the disk", []string{"--since", "2026-01-08 11:00:00", "--until", "2026-01-08 11:01:00"}, true},
	} {
		var before func() error
		if r.cold {
			before = func() error { return evict(dir) }
		}
		rows = append(rows, sidesOf{
			name: r.name, bound: 10, rounds: 2 * s.rounds, before: before,
			ours:   append([]string{s.tidemark, "query", "--no-pager", "-D", dir}, r.args...),
			theirs: append([]string{"journalctl", "--no-pager", "-D", dir}, r.args...),
		})
	}
	return errors.Join(compare(ctx, s, rows), os.RemoveAll(dir))
}

// evict has the system forget what it keeps in memory of the files in dir.
func evict(dir string) error {
	paths, err := journal.FilesIn(dir)
	for _, path := range paths {
		f, openErr := os.Open(path)
		if openErr != nil {
			return openErr
		}
		// What is not on the disk yet would stay.
		err = errors.Join(err, f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	}
	return err
}

// writeArchives fills a directory as journald leaves it: with files of one
// sequence, each of which goes on where the one before ends.
func writeArchives(ctx context.Context, s settings, dir string) error {
	all := generated()
	in := filepath.Join(s.dir, "dir.export")
	o := journal.Options{MachineID: entry.ID{1}}
	for range dirFiles {
		if err := generateFrom(all, in, dirEntries); err != nil {
			return err
		}
		w, err := journal.Create(filepath.Join(dir, "system.journal"), o)
		if err != nil {
			return err
		}
		if err := appendExport(ctx, w, in); err != nil {
			return errors.Join(err, w.Close())
		}
		o.SeqnumID, o.Seqnum = w.Seqnum()
		err = w.Rename(filepath.Join(dir, journal.ArchiveName("system", o.SeqnumID, w.HeadSeqnum(), w.HeadRealtime())))
		if err == nil {
			err = w.Archive(ctx)
		}
		if err != nil {
			return err
		}
	}
	return os.Remove(in)
}

// appendExport appends the entries of a file in the export format.
func appendExport(ctx context.Context, w *journal.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	r := entry.NewExportReader(f, entry.ExportOptions{})
	for {
		var b entry.ExportBatch
		err := r.NextBatch(&b)
		if _, _, appendErr := w.Append(ctx, b.Entries); appendErr != nil {
			return appendErr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
