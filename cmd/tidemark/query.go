package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/query"
	"github.com/tidemark-log/tidemark/internal/render"
	"github.com/tidemark-log/tidemark/journal"
)

// outputBuffer is the size in bytes of what a query gathers before it writes.
const outputBuffer = 64 << 10

func newQueryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "query [OPTION]... [MATCH]...",
		Short: "Show entries of journal files, with journalctl's options",
		// The options are journalctl's, down to -n5 and -b -1.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, argv []string) error {
			return runQuery(cmd.Context(), argv, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), queryHelp)
	})
	return cmd
}

// calledAsJournalctl reports whether this process stands in for journalctl.
func calledAsJournalctl() bool { return filepath.Base(os.Args[0]) == "journalctl" }

// runQuery does what a command line of query, or of journalctl, asks for.
func runQuery(ctx context.Context, argv []string, stdout, stderr io.Writer) error {
	a, err := parseQuery(argv, time.Now())
	if err != nil {
		return &usageError{err}
	}
	if done, err := answerAtOnce(a, stdout); done {
		return err
	}
	j, err := openSource(a, calledAsJournalctl())
	if err != nil {
		return err
	}
	defer j.Close() //nolint:errcheck // read only
	if len(j.Files()) == 0 && !a.query.Quiet {
		fmt.Fprintln(stderr, "No journal files were found.")
	}
	out := newQueryOutput(a, stdout)
	defer out.close()
	err = a.run(ctx, j, out)
	if flushErr := out.w.Flush(); err == nil {
		err = flushErr
	}
	out.close()
	warnDamage(j, stderr)
	if errors.Is(err, query.ErrNoMatch) || errors.Is(err, query.ErrNoCursor) {
		return silent(exitFailed)
	}
	return err
}

// answerAtOnce serves what needs no journal.
func answerAtOnce(a *queryArgs, stdout io.Writer) (done bool, err error) {
	var text string
	switch a.action {
	case actHelp:
		text = queryHelp
	case actVersion:
		text = "tidemark " + version() + "\n"
	case actModes:
		text = strings.Join(render.Modes(), "\n") + "\n"
	case actFacilities:
		text = strings.Join(query.Facilities(), "\n") + "\n"
		if !a.query.Quiet {
			text = "Available facilities:\n" + text
		}
	case actShow, actFieldNames, actFieldValues, actBoots, actHeader, actDiskUsage:
		return false, nil
	}
	_, err = io.WriteString(stdout, text)
	return true, err
}

// openSource opens the files that a names, or those of this machine.
func openSource(a *queryArgs, all bool) (*journal.Journal, error) {
	o := journal.ReadOptions{Map: true}
	switch {
	case a.directory != "":
		j, err := o.OpenDir(a.directory)
		if err != nil {
			return nil, fmt.Errorf("Failed to open %s: %w", a.directory, query.Reason(err)) //nolint:revive,staticcheck // journalctl's words
		}
		return j, nil
	case len(a.files) > 0:
		j, err := o.Open(a.files)
		if err != nil {
			return nil, fmt.Errorf("Failed to open files: %w", query.Reason(err)) //nolint:revive,staticcheck // journalctl's words
		}
		if skipped := j.Skipped(); len(skipped) > 0 {
			return nil, errors.Join(fmt.Errorf("Failed to open files: %w", query.Reason(skipped[0])), j.Close()) //nolint:revive,staticcheck // journalctl's words
		}
		return j, nil
	}
	boot, err := query.CurrentBoot()
	if err == nil {
		a.query.ThisBoot = boot
	}
	dirs := defaultDirs(all, a.query.Merge)
	if len(dirs) == 0 {
		return o.New(), nil
	}
	return o.OpenDir(dirs...)
}

// defaultDirs are the directories that exist of tidemark's own and, with all,
// of those that journald writes: of this machine only, or of any with merge.
func defaultDirs(all, merge bool) []string {
	dirs := []string{dataDir()}
	if all {
		for _, root := range []string{"/run/log/journal", "/var/log/journal"} {
			if id := machineID(); !merge && id != "" {
				root = filepath.Join(root, id)
			}
			dirs = append(dirs, root)
		}
	}
	var exist []string
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil {
			exist = append(exist, d)
		}
	}
	return exist
}

func machineID() string {
	text, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	id, err := entry.ParseID(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return id.String()
}

// dataDir is where serve keeps its files when it is not told.
func dataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/tidemark/journal"
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(os.Getenv("HOME"), ".local", "state")
	}
	return filepath.Join(state, "tidemark", "journal")
}

// run does the action.
func (a *queryArgs) run(ctx context.Context, j *journal.Journal, out *queryOutput) error {
	switch a.action {
	case actFieldNames:
		return query.FieldNames(out.w, j)
	case actFieldValues:
		return query.FieldValues(out.w, j, a.field, a.query.Lines)
	case actBoots:
		boots, err := query.Boots(j, a.query.Reverse)
		if err != nil {
			return err
		}
		if a.mode.IsJSON() {
			return boots.JSON(out.w, a.mode == render.JSONPretty)
		}
		return boots.Table(out.w, time.Local, !a.query.Quiet)
	case actHeader:
		return query.Headers(out.w, j, time.Local)
	case actDiskUsage:
		n, err := query.DiskUsage(j)
		if err == nil {
			_, err = fmt.Fprintf(out.w, "Archived and active journals take up %s in the file system.\n", query.FormatBytes(n))
		}
		return err
	default:
		return a.show(ctx, j, out)
	}
}

// show prints entries.
func (a *queryArgs) show(ctx context.Context, j *journal.Journal, out *queryOutput) error {
	q, err := query.New(j, a.query)
	if err != nil {
		return err
	}
	a.render.Colors = out.colors
	a.render.Columns = out.columns
	a.render.ASCII = !utf8Locale()
	if p := a.query.Pattern; p != nil && out.colors != render.None {
		a.render.Highlight = func(message []byte) (from, to int, ok bool) {
			if loc := p.FindIndex(message); loc != nil {
				return loc[0], loc[1], true
			}
			return 0, 0, false
		}
	}
	p, err := render.New(a.mode.String(), out.w, a.render)
	if err != nil {
		return err
	}
	return query.Show(ctx, q, query.Output{W: out.w, Printer: p, Bold: out.colors.Bold})
}

// exportQuery writes what a query command line selects in the Journal Export
// Format: the verb export.
func exportQuery(ctx context.Context, argv []string, stdout, stderr io.Writer) error {
	return runQuery(ctx, append([]string{"-o", "export", "--no-pager"}, argv...), stdout, stderr)
}

// warnDamage says in one line that files were damaged or could not be read.
func warnDamage(j *journal.Journal, stderr io.Writer) {
	problems := append(j.Skipped(), j.Warnings()...)
	switch n := len(problems); n {
	case 0:
	case 1:
		fmt.Fprintf(stderr, "warning: %v: intact entries were shown, try tidemark verify\n", problems[0])
	default:
		fmt.Fprintf(stderr, "warning: %v, and %d more problems: intact entries were shown, try tidemark verify\n", problems[0], n-1)
	}
}
