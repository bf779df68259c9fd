package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/follow"
	"github.com/tidemark-log/tidemark/internal/query"
	"github.com/tidemark-log/tidemark/internal/render"
	"github.com/tidemark-log/tidemark/journal"
)

// outputBuffer is the size in bytes of what a query gathers before it writes.
const outputBuffer = 64 << 10

// queryGCPercent has the garbage collector begin at 16 MB.
const queryGCPercent = 400

func newQueryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "query [OPTION]... [MATCH]...",
		Short: "Show entries of journal files, with journalctl's options",
		// The options are journalctl's, down to -n5 and -b -1.
		DisableFlagParsing: true,
		ValidArgsFunction:  completeQuery,
		RunE: func(cmd *cobra.Command, argv []string) error {
			return runQuery(cmd.Context(), argv, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = io.WriteString(cmd.OutOrStdout(), helpOfQuery())
	})
	return cmd
}

// calledAsJournalctl reports whether this process stands in for journalctl.
func calledAsJournalctl() bool { return filepath.Base(os.Args[0]) == "journalctl" }

// runQuery does what a command line of query, or of journalctl, asks for.
func runQuery(ctx context.Context, argv []string, stdout, stderr io.Writer) error {
	// A query keeps a few MB and ends soon: collecting garbage from 4 MB on would be
	// the larger part of a short one.
	debug.SetGCPercent(queryGCPercent)
	a, err := parseQuery(argv, time.Now())
	if err != nil {
		return &usageError{err}
	}
	if done, err := answerAtOnce(a, stdout); done {
		return err
	}
	if a.action == actListCatalog || a.action == actDumpCatalog {
		return a.listCatalog(stdout)
	}
	if a.query.Follow {
		_ = ctx.Done() // listens for signals from now on
	}
	a.explain(query.CatalogFile, stderr) // this machine's, also with --root, as journalctl
	if done, err := a.runCommand(ctx, stderr); done {
		return err
	}
	dirs, files := a.source(stderr)
	j, f, err := openSource(a, dirs, files, stdout)
	if err != nil {
		return err
	}
	defer j.Close()
	if f != nil {
		defer f.watcher.Close()
	}
	if len(j.Files())+len(j.Skipped()) == 0 && !a.query.Quiet {
		a.sayNoFiles(stderr)
	}
	if err := mayReadNone(j); err != nil {
		return err
	}
	out := newQueryOutput(a, stdout)
	defer out.close()
	if out.pager != nil {
		_ = ctx.Done() // as above: it outlives what is shown to it
	}
	err = a.run(ctx, j, f, out)
	if flushErr := out.w.Flush(); err == nil {
		err = flushErr
	}
	paged := out.pager != nil
	out.close()
	warnDamage(j, stderr)
	switch {
	case paged && errors.Is(err, syscall.EPIPE):
		return nil // who reads has seen enough
	case errors.Is(err, query.ErrNoMatch), errors.Is(err, query.ErrNoCursor), errors.Is(err, context.Canceled):
		return silent()
	}
	return err
}

// answerAtOnce serves what needs no journal.
func answerAtOnce(a *queryArgs, stdout io.Writer) (done bool, err error) {
	var text string
	switch a.action {
	case actHelp:
		text = helpOfQuery()
	case actVersion:
		text = "tidemark " + version() + "\n"
	case actModes:
		text = strings.Join(render.Modes(), "\n") + "\n"
	case actFacilities:
		text = strings.Join(query.Facilities(), "\n") + "\n"
		if !a.query.Quiet {
			text = "Available facilities:\n" + text
		}
	default:
		return false, nil
	}
	_, err = io.WriteString(stdout, text)
	return true, err
}

// openSource opens the files in dirs, or files. A follower is given for -f.
func openSource(a *queryArgs, dirs, files []string, stdout io.Writer) (j *journal.Journal, f *followed, err error) {
	// The index of a file that is being written lags behind its entries.
	o := journal.ReadOptions{Map: true, Scan: a.query.Follow, Late: a.action == actShow && !a.query.Follow}
	switch {
	case len(a.dirs) > 0:
		if j, err = a.openDirs(o, dirs); err != nil {
			return nil, nil, unopened(strings.Join(a.dirs, ", "), err)
		}
	case len(files) > 0:
		if j, err = o.Open(files); err == nil && len(j.Skipped()) > 0 {
			err = errors.Join(j.Skipped()[0], j.Close())
		}
		if err != nil {
			return nil, nil, unopened("files", err)
		}
	default:
		if boot, err := query.CurrentBoot(); err == nil {
			a.query.ThisBoot = boot
		}
		if j, err = a.openDirs(o, dirs); err != nil {
			return nil, nil, unopened("journal", err)
		}
	}
	if !a.query.Follow {
		return j, nil, nil
	}
	f, err = watchSource(j, dirs, files, a.wants, stdout)
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	return j, f, nil
}

// openDirs opens the files in dirs that --system, --user and --namespace ask for.
func (a *queryArgs) openDirs(o journal.ReadOptions, dirs []string) (*journal.Journal, error) {
	if len(dirs) == 0 {
		return o.New(), nil
	}
	o.Want = a.wantsInTurn()
	return o.OpenDir(dirs...)
}

// followed is a follower with what it has to close.
type followed struct {
	*follow.Follower
	watcher *follow.Watcher
}

// watchSource follows j, which reads what it wants of dirs or, when there are
// none, files.
func watchSource(j *journal.Journal, dirs, files []string, wants func(path string) bool, stdout io.Writer) (*followed, error) {
	var w *follow.Watcher
	if len(files) > 0 {
		wants = nil // they were named
	}
	var err error
	switch {
	case len(files) > 0:
		w, err = follow.WatchFiles(files)
	case len(dirs) > 0:
		w, err = follow.Watch(dirs)
	default:
		err = errors.New("follow: there is no journal directory yet: start tidemark serve, or name one with -D")
	}
	if err != nil {
		return nil, err
	}
	if out, ok := fileOf(stdout); ok {
		if err := w.HangUp(out); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return &followed{follow.NewOf(j, w, wants), w}, nil
}

// defaultDirs are tidemark's own directory, if somebody says where it is, and,
// with all, those that journald writes: of this machine only, or of any with
// merge, and of the namespaces asked for.
func defaultDirs(own string, all, merge bool, namespace string) []string {
	var dirs []string
	if own != "" {
		dirs = append(dirs, own)
	}
	if !all {
		return dirs
	}
	for _, root := range []string{config.JournaldRunning, config.JournaldFiles} {
		id := machineID()
		if merge || id.IsZero() {
			dirs = append(dirs, root)
			continue
		}
		of := filepath.Join(root, id.String())
		if inNamespace("", namespace) {
			dirs = append(dirs, of)
		}
		switch space := strings.TrimPrefix(namespace, "+"); space {
		case "":
		case "*":
			some, _ := filepath.Glob(of + ".*") // the pattern is well formed
			dirs = append(dirs, some...)
		default:
			dirs = append(dirs, of+"."+space)
		}
	}
	return dirs
}

// run does the action.
func (a *queryArgs) run(ctx context.Context, j *journal.Journal, f *followed, out *queryOutput) error {
	switch a.action {
	case actFieldNames:
		return query.FieldNames(out.w, j)
	case actFieldValues:
		// Of the options that filter, journalctl wants only that they be right.
		if _, err := query.New(j, a.query); err != nil {
			return asTyped(err)
		}
		return query.FieldValues(out.w, j, a.field, a.query.Lines)
	case actBoots, actInvocations:
		return a.listPeriods(j, out)
	case actHeader:
		return query.Headers(out.w, j, time.Local)
	case actDiskUsage:
		n, err := query.DiskUsage(j)
		if err == nil {
			_, err = fmt.Fprintf(out.w, "Archived and active journals take up %s in the file system.\n", config.AppendBytes(nil, n))
		}
		return err
	default:
		return a.show(ctx, j, f, out)
	}
}

// listPeriods prints the boots, or the runs of a unit.
func (a *queryArgs) listPeriods(j *journal.Journal, out *queryOutput) error {
	list, err := query.Boots(j, a.query.Reverse)
	if a.action == actInvocations {
		list, err = query.Invocations(j, a.query)
	}
	if err != nil {
		return asTyped(err)
	}
	if a.mode.IsJSON() {
		before, behind := a.mode.Frame()
		return list.JSON(out.w, a.mode == render.JSONPretty, before, behind)
	}
	return list.Table(out.w, time.Local, !a.query.Quiet, out.colors.Underline())
}

// show prints entries.
func (a *queryArgs) show(ctx context.Context, j *journal.Journal, f *followed, out *queryOutput) error {
	q, err := query.New(j, a.query)
	if err != nil {
		return asTyped(err)
	}
	a.render.Colors = out.colors
	a.render.Columns = out.columns
	a.render.ASCII = !utf8Locale()
	if p := a.query.Pattern; p != nil && out.colors != render.None {
		a.render.Highlight = p.Find
	}
	p, err := render.New(a.mode.String(), out.w, a.render)
	if err != nil {
		return err
	}
	o := query.Output{W: out.w, Printer: p, Bold: out.colors.Bold, Follower: f}
	if a.mode != render.ShortDelta { // that needs the entry before
		o.Fork = func() (query.Formatter, error) { return render.NewFormatter(a.mode.String(), a.render) }
	}
	return asTyped(query.Show(ctx, q, o))
}

// mayReadNone is journalctl's error when there are files and none may be read.
func mayReadNone(j *journal.Journal) error {
	i := slices.IndexFunc(j.Skipped(), func(err error) bool { return errors.Is(err, fs.ErrPermission) })
	if i < 0 || len(j.Files()) > 0 {
		return nil
	}
	err := j.Skipped()[i]
	return &hintedError{error: wordsf("No journal files were opened due to insufficient permissions."), hint: pathOf(err) + readStep(err, "")}
}
