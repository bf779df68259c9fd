package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

func newImportCmd() *cobra.Command {
	var output, layout string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "import [OPTION]... -o FILE.journal [IN]...",
		Short: "Write entries in the Journal Export Format to journal files",
		Long: `Write entries in the Journal Export Format to a journal file, as
systemd-journal-remote does: with their times, boots and order, and numbers of
their own. Without IN, or for -, standard input is read. An existing file is
continued; a new one is made when the first entry has been read.

When the file is full, an entry's monotonic time goes backwards within a boot, or
the clock by more than ten seconds, the file gets an archive's name,
FILE@….journal, and FILE.journal begins anew. Every file that was written is printed.

--flavour chooses the layout of files that are begun (one that is continued keeps
its own), by names of these pairs; the first of each is the default:

  compact   32-bit offsets: about 39 % smaller, for systemd 252 and later
  regular   64-bit offsets, also for systemd before 252
  keyed     hashes by a key of the file's own: nobody can choose colliding values
  unkeyed   hashes without a key, also for systemd before 246
  zstd      fields from 512 bytes on are compressed, for systemd 246 and later
  plain     nothing is compressed
  252       the header of systemd 252: all later ones read and verify it
  254       the header of systemd 254: journald 254 and later append to such files
            only; journalctl 252 reads but does not verify them`,
		Example: `  journalctl -o export | tidemark import -o copy.journal
  tidemark import -o all.journal monday.export tuesday.export
  tidemark import --flavour regular,unkeyed,plain -o old.journal monday.export`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return usagef("name the file to write: -o FILE.journal")
			}
			if !strings.HasSuffix(output, ".journal") {
				return usagef("-o %q: want a file name that ends in .journal", output)
			}
			flavour, err := journal.ParseFlavour(layout)
			if err != nil {
				return usagef("--flavour: %w", err)
			}
			r := &importRun{path: output, flavour: flavour, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr()}
			if quiet {
				r.out = io.Discard
			} else {
				r.progress = newProgressLine()
			}
			if len(args) == 0 {
				args = []string{"-"}
			}
			return r.run(cmd.Context(), args)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the `FILE.journal` to write")
	cmd.Flags().StringVar(&layout, "flavour", journal.Flavour{}.String(), "`LIST` of names that choose the layout of new files")
	completeFlags(cmd, map[string][]cobra.Completion{"flavour": {journal.Flavour{}.String(), "regular,unkeyed,plain", "254"}})
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print neither files nor progress")
	return cmd
}

const (
	// importBuffer bounds what waits to be written, in bytes.
	importBuffer = 64 << 20
	// importIndexWindow: nobody matches in a file that is being imported.
	importIndexWindow = time.Minute
	// importChunk is how much of the input is read at once, in bytes.
	importChunk = 512 << 10
	// importChunks are read ahead of what is appended.
	importChunks = 3
)

// importRun is one run of import.
type importRun struct {
	path     string
	out      io.Writer // lists the files written
	notes    io.Writer // what was left out
	progress *progressLine
	maxSize  uint64 // of a file in bytes; 0: the journal's default
	flavour  journal.Flavour

	w       *journal.Writer // nil before the first entry
	before  uint64          // entries in the current file before this run
	written uint64          // entries in the current file by this run
	input   bool            // an input was not empty
	failed  error           // why the file could not be opened
	created bool            // the file did not exist
	total   uint64
	latest  uint64 // realtime of an entry of the current file, in µs
	breaks  uint64 // files ended for the order of their entries
	invalid uint64 // entries that no file may hold
	why     error  // of the first of them
}

// run imports the files called names. They are opened before anything is
// written, and the output is with the first entry.
func (r *importRun) run(ctx context.Context, names []string) error {
	inputs, err := openInputs(names)
	if err != nil {
		return err
	}
	err = r.files(ctx, inputs)
	r.progress.clear()
	for _, in := range inputs {
		_ = in.Close() // only read
	}
	if r.invalid > 0 {
		_, _ = fmt.Fprintf(r.notes, "tidemark import: %s left out: %v\n", plural(r.invalid, "entries"), r.why)
	}
	switch {
	case r.failed != nil:
		return r.failed
	case r.w == nil:
		return r.nothing(err)
	}
	closeErr := r.w.Close()
	if r.created && r.total == 0 {
		return r.nothing(errors.Join(err, closeErr, os.Remove(r.path)))
	}
	switch {
	case closeErr == nil:
		after := ""
		if r.before > 0 {
			after = fmt.Sprintf(" added to the %d it had", r.before)
		}
		_, _ = fmt.Fprintf(r.out, "%s: %s%s\n", r.w.Path(), plural(r.written, "entries"), after)
	default:
		err = fmt.Errorf("%w; %s is not complete: remove it and import again", cmp.Or(err, closeErr), r.w.Path())
	}
	return err
}

// nothing says that no entry was found, and so no file written.
func (r *importRun) nothing(err error) error {
	var bad *entry.ExportError
	var unread *fs.PathError
	switch {
	case errors.As(err, &bad) && !errors.As(err, &unread):
		return fmt.Errorf("%w: no entry was found, %s was not touched: want the Journal Export Format, as journalctl -o export prints it", err, r.path)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: %s was not touched: %s", err, r.path, exportWanted)
	case err != nil:
		return fmt.Errorf("%w: %s was not touched", err, r.path)
	case r.input:
		return fmt.Errorf("no entry was found, %s was not touched: want the Journal Export Format, as journalctl -o export prints it", r.path)
	default:
		_, _ = fmt.Fprintf(r.notes, "tidemark import: the input is empty: %s was not touched\n", r.path)
		return nil
	}
}

// files imports one input after the other.
func (r *importRun) files(ctx context.Context, inputs []*os.File) error {
	for _, in := range inputs {
		if err := r.stream(ctx, in); err != nil {
			return fmt.Errorf("%s: %w", inputName(in), err)
		}
	}
	return nil
}

// stream appends what in holds. One goroutine reads and takes the entries
// apart, this one appends them.
func (r *importRun) stream(ctx context.Context, in *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Where deadlines are not supported no read blocks for long.
	defer context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })()

	reader := entry.NewExportReader(&inputReader{in: in, seen: &r.input, stopped: ctx.Err}, entry.ExportOptions{Buffer: importChunk})
	full, empty := make(chan *entry.ExportBatch), make(chan *entry.ExportBatch, importChunks)
	for range importChunks {
		empty <- new(entry.ExportBatch)
	}
	var readErr error // of the reader's end; read after full is closed
	go func() {
		defer close(full)
		for b := range empty {
			if readErr = reader.NextBatch(b); readErr != nil {
				return
			}
			full <- b
		}
	}()
	var err error
	for b := range full {
		if err == nil {
			if err = r.append(ctx, b.Entries); err != nil {
				cancel() // and let the reader end
			}
		}
		empty <- b
	}
	r.report(reader.Counts())
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF):
		return nil
	default:
		return readErr
	}
}

// append appends entries, to as many files as that takes.
func (r *importRun) append(ctx context.Context, entries []entry.Entry) error {
	if r.w == nil && len(entries) > 0 {
		if r.failed = r.open(); r.failed != nil {
			return r.failed
		}
	}
	for len(entries) > 0 {
		front := r.ordered(entries)
		if front == 0 {
			if err := r.rotate(ctx, "order broken: the clock went back"); err != nil {
				return err
			}
			continue
		}
		pos, n, err := r.w.TryAppend(entries[:front])
		r.written += uint64(n)
		r.total += uint64(n)
		entries = entries[n:]
		var bad *journal.EntryError
		switch {
		case err == nil:
		case errors.Is(err, journal.ErrBufferFull):
			// Unlike an Append that waits for room, this learns that the disk is full.
			if err := r.w.Wait(ctx, pos, settle.Appended); err != nil {
				return err
			}
		case errors.Is(err, journal.ErrFull):
			reason, _ := r.w.RotateDue()
			if err := r.rotate(ctx, reason); err != nil {
				return err
			}
		case errors.Is(err, journal.ErrOrder):
			if r.breaks++; tooDisordered(r.breaks, r.total) {
				return fmt.Errorf("the order of the entries broke %d times: sort them by time first", r.breaks)
			}
			reason := "order broken"
			if errors.As(err, &bad) && bad.Detail != "" {
				reason += ": monotonic time " + bad.Detail
			}
			if err := r.rotate(ctx, reason); err != nil {
				return err
			}
		case errors.As(err, &bad):
			if r.invalid++; r.why == nil {
				r.why = bad.Err
			}
			entries = entries[1:]
		default:
			return err
		}
	}
	r.progress.show(func(seconds float64) string {
		return fmt.Sprintf("%s, %.0f/s", plural(r.total, "entries"), float64(r.total)/seconds)
	})
	return nil
}

// ordered counts the entries at the front that belong into the current file by
// their realtime. 0 says that the file is to be ended. When that has happened too
// often it is not: the file is right, only slower to find a time in.
func (r *importRun) ordered(entries []entry.Entry) (n int) {
	if n, r.latest = journal.InStep(entries, r.latest); n > 0 {
		return n
	}
	if !tooDisordered(r.breaks+1, r.total) {
		r.breaks++
		return 0
	}
	n, r.latest = journal.InStep(entries, 0)
	return n
}

// tooDisordered reports whether so many breaks of the order in so many entries
// would make a file of every few of them.
func tooDisordered(breaks, entries uint64) bool { return breaks > 100 && entries/breaks < 100 }

// open opens the file to write to: it continues one that exists.
func (r *importRun) open() (err error) {
	r.w, err = journal.OpenWriter(r.path, r.options())
	switch {
	case err == nil:
		r.before, r.latest = r.w.Stats().Entries, r.w.TailRealtime()
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if r.w, err = journal.Create(r.path, r.options()); err != nil {
			r.w = nil
			return fmt.Errorf("%w: name a file in a directory that you may write to", err)
		}
		r.created = true
		return nil
	default:
		r.w = nil
		return fmt.Errorf("%w: name another file", err)
	}
}

func (r *importRun) options() journal.Options {
	return journal.Options{MachineID: machineID(), Index: importIndexWindow, Buffer: importBuffer, MaxSize: r.maxSize, Flavour: r.flavour, TightArrays: true}
}

// rotate gives the current file an archive's name and goes on in a new one.
func (r *importRun) rotate(ctx context.Context, reason string) error {
	if err := r.w.Settle(ctx); err != nil {
		return err // the file keeps its name
	}
	id, tail := r.w.Seqnum()
	base := strings.TrimSuffix(filepath.Base(r.path), ".journal")
	archive := filepath.Join(filepath.Dir(r.path), journal.ArchiveName(base, id, r.w.HeadSeqnum(), r.w.HeadRealtime()))
	if err := r.w.Rename(archive); err != nil {
		return err
	}
	if err := r.w.Archive(ctx); err != nil {
		return err
	}
	r.progress.clear()
	if r.before > 0 {
		twice := ""
		if r.written == 0 {
			twice = fmt.Sprintf(" (these entries are older than those in %s: imported twice?)", r.path)
		}
		_, _ = fmt.Fprintf(r.out, "%s: the %s that %s held before, and %d new, have moved here: %s%s\n",
			archive, plural(r.before, "entries"), r.path, r.written, reason, twice)
	} else {
		_, _ = fmt.Fprintf(r.out, "%s: %s, continued: %s\n", archive, plural(r.written, "entries"), reason)
	}
	o := r.options()
	o.SeqnumID, o.Seqnum = id, tail
	w, err := journal.Create(r.path, o)
	if err != nil {
		return err
	}
	r.w, r.before, r.written, r.latest = w, 0, 0, 0
	return nil
}

// report says what of an input was left out.
func (r *importRun) report(c entry.ExportCounts) {
	r.progress.clear()
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{c.BadNames, "lines with an invalid field name"},
		{c.TooMany, "fields over the limit of an entry"},
		{c.ZeroBinary, "binary fields without a value"},
		{c.Unknown, "unknown lines that begin with __"},
		{c.Empty, "entries without fields"},
		{c.Untimed, "entries without __REALTIME_TIMESTAMP"},
	} {
		if x.n > 0 {
			_, _ = fmt.Fprintf(r.notes, "tidemark import: %s left out\n", plural(x.n, x.what))
		}
	}
}
