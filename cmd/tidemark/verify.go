package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-log/tidemark/journal"
)

func newVerifyCmd() *cobra.Command {
	var quiet, all bool
	var repair string
	cmd := &cobra.Command{
		Use:   "verify [OPTION]... FILE|DIR…",
		Short: "Check journal files for damage",
		Long: `Check journal files for damage: everything that journalctl --verify checks, and
the field lists, xor hashes and hints that it does not. Every problem is printed
with its offset in hexadecimal. A directory stands for the journal files in it
and in its subdirectories named by a machine id. Ends with 1 when a file fails, or
cannot be read.

Seals are not checked; all else in a sealed file is. A file that is being
written may fail: stop its writer, or sync it, first.

With --repair OUT.journal, of one FILE that fails, every entry of which a field
can be read is written to a new file, which passes; FILE is not touched. What is
lost is said. When one file cannot hold all there are OUT.2.journal and so on.
Ends with 0 when the new file is there, or FILE needs none.`,
		Example: `  tidemark verify system.journal
  tidemark verify /var/log/journal
  tidemark verify --repair good.journal system@0005ebbfd42fc981-39a8842ec948769a.journal~`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name a journal file, or a directory of journal files: see tidemark verify --help")
			}
			if repair != "" {
				return repairFile(cmd, args, repair, quiet, all)
			}
			files, unlisted, err := journalFiles(args)
			if err != nil {
				return err
			}
			shown := verifyShown
			if all {
				shown = 0
			}
			v := newVerifyRun(cmd.ErrOrStderr(), quiet, shown)
			for _, err := range unlisted {
				v.unread(err)
			}
			for _, name := range files {
				err := v.listed(cmd.Context(), name, !slices.Contains(args, name))
				if err != nil && (cmd.Context().Err() != nil || len(files) == 1) {
					return err
				}
				if err != nil {
					v.unread(err) // the others are to be checked all the same
				}
			}
			if v.failed {
				return silent()
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only what is wrong")
	cmd.Flags().StringVar(&repair, "repair", "", "write what can be read of FILE to `OUT.journal`, a new file")
	cmd.Flags().BoolVarP(&all, "all", "a", false, fmt.Sprintf("print all problems of a file, not only the first %d", verifyShown))
	return cmd
}

// journalFiles replaces the directories in args by the journal files in them.
// What in them could not be listed is in unlisted.
func journalFiles(args []string) (files []string, unlisted []error, err error) {
	for _, arg := range args {
		st, err := os.Stat(arg)
		if err != nil {
			return nil, nil, pathError(arg, err)
		}
		if !st.IsDir() {
			files = append(files, arg)
			continue
		}
		found, err := journal.FilesIn(arg)
		switch {
		case err != nil && len(found) == 0:
			return nil, nil, pathError(arg, err)
		case err != nil:
			unlisted = append(unlisted, err)
		case len(found) == 0:
			return nil, nil, fmt.Errorf("%s: no journal files in this directory: name another, or a file", arg)
		}
		files = append(files, found...)
	}
	return files, unlisted, nil
}

// pathError says what is wrong with the path of a journal file, naming it once,
// and what to do.
func pathError(name string, err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return withStep(fmt.Errorf("%s: %w", name, err), readStep(err, "name a journal file, or a directory of journal files"))
}

// verifyShown is how many problems of a file are printed.
const verifyShown = 20

// newVerifyRun prepares a check that prints to out, of each file as many
// problems as shown, or all for 0.
func newVerifyRun(out io.Writer, quiet bool, shown int) *verifyRun {
	v := &verifyRun{out: out, quiet: quiet, shown: shown}
	if w, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && !quiet {
		v.bar = &progressBar{w: os.Stderr, width: w * 3 / 4}
	}
	return v
}

// verifyRun is one run of the verb over several files.
type verifyRun struct {
	out    io.Writer
	bar    *progressBar // nil when there is no terminal
	quiet  bool
	shown  int // problems of a file; 0: all
	failed bool
}

// unread says why a file of several could not be checked.
func (v *verifyRun) unread(err error) {
	v.failed = true
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, _ = fmt.Fprintf(v.out, "FAIL: %s\n", line) // the exit code tells it, too
	}
}

// listed is file for one that may have been found in a directory. Then it may
// have got another name meanwhile, as the empty next one does in a rotation.
func (v *verifyRun) listed(ctx context.Context, name string, found bool) error {
	err := v.file(ctx, name)
	if found && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// file checks one file and prints the result. It returns an error only when
// there is no result.
func (v *verifyRun) file(ctx context.Context, name string) error {
	// A FIFO that nobody writes to must not be waited for.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return pathError(name, err)
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil {
		return pathError(name, err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file: name a journal file, or a directory of journal files", name)
	}
	if f, st, err = unpacked(f, st); err != nil {
		return pathError(name, err)
	}
	var o journal.VerifyOptions
	if v.bar != nil {
		o.Progress = v.bar.show
	}
	report, err := journal.Verify(ctx, f, st.Size(), name, o)
	if v.bar != nil {
		v.bar.clear()
	}
	var text []byte
	var bad *journal.FormatError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted", name)
	case errors.As(err, &bad):
		v.failed = true
		text = fmt.Appendf(text, "%s:\n%06x: %s\nFAIL: %s (%v)\n", name, bad.Offset, bad.Detail, name, bad.Err)
	case err != nil:
		return pathError(name, err)
	default:
		v.failed = v.failed || !report.OK()
		text = v.appendReport(text, name, &report)
	}
	_, err = v.out.Write(text)
	return err
}

// unpacked returns what a file holds that was compressed whole, and others as they
// are.
func unpacked(f *os.File, st fs.FileInfo) (*os.File, fs.FileInfo, error) {
	out, err := journal.Unpack(f)
	if err != nil || out == f {
		return f, st, err // f is still open
	}
	st, err = out.Stat()
	return out, st, err
}

// appendReport appends a report in journalctl's form.
func (v *verifyRun) appendReport(b []byte, name string, r *journal.VerifyReport) []byte {
	problems, left := r.Problems, 0
	if v.quiet {
		problems = slices.DeleteFunc(slices.Clone(problems), func(p journal.Problem) bool { return p.Harmless })
	}
	if v.shown > 0 && len(problems) > v.shown {
		problems, left = problems[:v.shown], len(problems)-v.shown
	}
	if len(problems) > 0 {
		b = fmt.Appendf(b, "%s:\n", name)
	}
	for i, p := range problems {
		more := i+1 < len(problems) && problems[i+1].Kind == p.Kind && problems[i+1].Offset == p.Offset
		b = appendProblem(b, p, more)
	}
	switch {
	case left > 0:
		b = fmt.Appendf(b, "%d more problems: tidemark verify -a prints them\n", left+r.Omitted)
	case r.Omitted > 0:
		b = fmt.Appendf(b, "%d more problems\n", r.Omitted)
	}
	if r.Stopped != 0 {
		b = fmt.Appendf(b, "%06x: cannot tell where the next object begins: neither the rest of the file nor its links were checked\n", r.Stopped)
	}
	if r.Sealed && !v.quiet {
		b = fmt.Appendf(b, "%s: sealed: all was checked but the seal, which takes the verification key: journalctl --verify --verify-key=KEY\n", name)
	}
	if p, ok := r.First(); ok {
		b = fmt.Appendf(b, "File corruption detected at %s:%06x (of %d bytes, %d%%).\n", name, p.Offset, r.Size, 100*p.Offset/uint64(max(r.Size, 1)))
		b = fmt.Appendf(b, "FAIL: %s (Bad message)\n", name)
	} else if !v.quiet {
		b = fmt.Appendf(b, "PASS: %s\n", name)
	}
	return b
}

// appendProblem appends a problem and what journalctl says behind it, unless more
// of the same place follow.
func appendProblem(b []byte, p journal.Problem, more bool) []byte {
	if p.Harmless {
		return fmt.Appendf(b, "%v (harmless)\n", p)
	}
	b = fmt.Appendln(b, p)
	switch {
	case more:
	case p.Kind == journal.ProblemObject && !strings.HasPrefix(p.Text, "Invalid object:"):
		b = fmt.Appendf(b, "%06x: Invalid object: Bad message\n", p.Offset)
	case p.Kind == journal.ProblemContents:
		b = fmt.Appendf(b, "%06x: Invalid object contents: Bad message\n", p.Offset)
	}
	return b
}

// progressBar draws how far the work is, on one line of a terminal. That the
// terminal has gone is no reason to stop.
type progressBar struct {
	w     io.Writer
	width int
	drawn int // permille, of the bar that is visible; 0: none
}

func (b *progressBar) show(done, total int64) {
	permille := 1000
	if total > 0 {
		permille = int(done * 1000 / total)
	}
	if permille == b.drawn {
		return
	}
	b.drawn = permille
	full := b.width * permille / 1000
	_, _ = fmt.Fprintf(b.w, "\r%s%s %3d%%\r", strings.Repeat("█", full), strings.Repeat("░", b.width-full), permille/10)
}

func (b *progressBar) clear() {
	if b.drawn != 0 {
		_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", b.width+5))
		b.drawn = 0
	}
}
