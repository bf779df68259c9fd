package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/journal"
)

// repairFile checks one file and, if it fails, writes what can be read of it to out.
func repairFile(cmd *cobra.Command, args []string, out string, quiet, all bool) error {
	switch {
	case len(args) != 1:
		return usagef("--repair: name one damaged journal file, not %d", len(args))
	case !strings.HasSuffix(out, ".journal"):
		return usagef("--repair %q: want a file name that ends in .journal", out)
	}
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("%s: file exists: name one that does not", out)
	}
	name, shown := args[0], verifyShown
	if all {
		shown = 0
	}
	v := newVerifyRun(cmd.ErrOrStderr(), quiet, shown)
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return usagef("--repair: %s is a directory: name one damaged journal file in it", name)
	}
	switch err := v.file(cmd.Context(), name); {
	case errors.Is(err, syscall.EIO):
		v.unread(err) // the rest of the file may be there
	case err != nil:
		return err
	}
	if !v.failed {
		if !quiet {
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s passes: %s was not written\n", name, out)
		}
		return nil
	}
	var o journal.RescueOptions
	if v.bar != nil {
		o.Progress = func(done, total uint64) { v.bar.show(int64(done), int64(total)) }
	}
	rep, err := journal.Rescue(cmd.Context(), name, out, o)
	if v.bar != nil {
		v.bar.clear()
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: name another file", err)
	case err != nil:
		return fmt.Errorf("%w: nothing was written", err)
	}
	return sayRescued(cmd.OutOrStdout(), name, rep)
}

// sayRescued says what was saved and what was not.
func sayRescued(w io.Writer, name string, rep journal.RescueReport) error {
	var b []byte
	b = fmt.Appendf(b, "%s: %s of %s saved", strings.Join(rep.Files, ", "), plural(rep.Entries, "entries"), name)
	if rep.Counted > rep.Entries {
		b = fmt.Appendf(b, ", which counts %d", rep.Counted)
	}
	b = append(b, '\n')
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{rep.Lost, "entries lost of which there is a part"},
		{rep.Skipped, "bytes passed over between objects"},
		{rep.LostFields, "fields of saved entries lost"},
		{rep.ChangedFields, "fields kept that are not what they were: their hash says so"},
		{rep.Renumbered, "entries given another sequence number, as their own broke the order"},
		{rep.Retimed, "entries given the monotonic time of a neighbour, as their own broke the order"},
		{rep.Rehashed, "entries given another xor_hash, as theirs is not that of their fields"},
	} {
		if x.n > 0 {
			b = fmt.Appendf(b, "  %s\n", plural(x.n, x.what))
		}
	}
	_, err := w.Write(b)
	return err
}
