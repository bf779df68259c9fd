package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
)

func newVacuumCmd() *cobra.Command {
	var size, age, run string
	var count uint64
	var rotate, dry, quiet bool
	cmd := &cobra.Command{
		Use:   "vacuum [OPTION]... [DIR]...",
		Short: "Remove the oldest archived journal files",
		Long: `Remove the oldest archived journal files of a directory until the rest fits the
limits given. Files that are being written are never removed: with --rotate the
daemon begins new ones first, and archives those before, so that what was written
so far can go. Without DIR it is the data directory of the daemon that --run or
TIDEMARK_RUN name, else that of tidemark serve; DIR's subdirectories named by a machine id are
cleaned too, each by itself.`,
		Example: `  tidemark vacuum --size 500M               # until all files take 500 MiB or less
  tidemark vacuum --age 2weeks --dry-run    # what would go
  tidemark vacuum --count 20 --rotate /var/log/tidemark`,
		RunE: func(cmd *cobra.Command, args []string) error {
			limits, err := readVacuumLimits(size, age, count)
			if err != nil {
				return err
			}
			if rotate && !dry {
				if err := rotateOut(cmd.Context(), run, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				data, err := vacuumData(cmd.Context(), run, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				args = []string{data}
			}
			v := vacuumRun{limits: limits, out: cmd.OutOrStdout(), dry: dry}
			if quiet {
				v.out = io.Discard
			}
			return v.run(args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&size, "size", "", "`SIZE` that all files may take: 512M, 2G, or 10% of the file system")
	f.StringVar(&age, "age", "", "`AGE` that an archive may reach, counted from its first entry: 90min, 2weeks")
	f.Uint64Var(&count, "count", 0, "`N` files that may stay, those being written included")
	f.BoolVar(&rotate, "rotate", false, "have the daemon begin new files first")
	f.BoolVarP(&dry, "dry-run", "n", false, "say what would be removed, remove nothing")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not say what was removed")
	f.StringVar(&run, "run", "", runHelp)
	completeFlags(cmd, nil, "run")
	return cmd
}

// rotateOut has the daemon begin new files, and returns when those before are archives,
// which may be removed. Where the disk refuses to archive one it stays; the others may
// go all the same, which is what a full disk needs.
func rotateOut(ctx context.Context, run string, notes io.Writer) error {
	if _, err := command(ctx, run, control.MethodRotate, notes); err != nil {
		return err
	}
	offline := map[string]bool{"offline": true}
	_, err := commandWith(ctx, run, control.MethodSynchronize, offline, io.Discard)
	if err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintf(notes, "warning: %v: what is not archived stays\n", err)
		return nil
	}
	return err
}

// daemonData asks the daemon for its data directory.
func daemonData(ctx context.Context, run string, notes io.Writer) (string, error) {
	raw, err := command(ctx, run, control.MethodStatus, notes)
	if err != nil {
		return "", err
	}
	var st control.Status
	if err := json.Unmarshal(raw, &st); err != nil {
		return "", fmt.Errorf("the daemon's answer: %w", err)
	}
	return st.Data, nil
}

// vacuumData is the directory that is cleaned when none is named. Where the daemon
// has been named it is the one that this daemon has, and no other's.
func vacuumData(ctx context.Context, run string, notes io.Writer) (string, error) {
	env := environment()
	if run != "" || env.Getenv("TIDEMARK_RUN") != "" {
		return daemonData(ctx, run, notes)
	}
	data := findPlaces(env, notes).data
	if data == "" {
		return "", usagef("name a directory of journal files")
	}
	return data, nil
}

// readVacuumLimits reads the flags of the verb.
func readVacuumLimits(size, age string, count uint64) (vacuumLimits, error) {
	l := vacuumLimits{files: count}
	var err error
	if size != "" {
		if l.size, err = config.ParseSize(size); err != nil {
			return l, usagef("--size: %w", err)
		}
	}
	if age != "" {
		if l.age, err = config.ParseSpan(age); err != nil {
			return l, usagef("--age: %w", err)
		}
	}
	if l == (vacuumLimits{}) {
		return l, usagef("say what may stay: --size, --age or --count")
	}
	return l, nil
}

// vacuumLimits are what may stay; zero values limit nothing.
type vacuumLimits struct {
	size  config.Size
	age   time.Duration
	files uint64
}

// vacuumRun cleans directories.
type vacuumRun struct {
	limits vacuumLimits
	out    io.Writer
	dry    bool
}

// run cleans dirs and the subdirectories that journals are read from. All are
// tried; the first error is returned.
func (v *vacuumRun) run(dirs []string) error {
	var first error
	for _, dir := range dirs {
		list, err := withSubdirs(dir)
		if err != nil {
			return err
		}
		for _, d := range list {
			if err := v.dir(d); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// withSubdirs is dir and what in it IsSubdirName.
func withSubdirs(dir string) ([]string, error) {
	list, err := vfs.OS{}.ReadDir(dir)
	if err != nil {
		return nil, pathError(dir, err)
	}
	dirs := []string{dir}
	for _, d := range list {
		if d.IsDir() && journal.IsSubdirName(d.Name()) {
			dirs = append(dirs, filepath.Join(dir, d.Name()))
		}
	}
	return dirs, nil
}

// dir cleans one directory and says what it did, as journalctl does.
func (v *vacuumRun) dir(dir string) error {
	limits := store.Stay{Age: v.limits.age, Files: v.limits.files, Bytes: v.limits.size.Bytes}
	if v.limits.size.Percent > 0 {
		_, total, err := vfs.OS{}.Free(dir)
		if err != nil {
			return pathError(dir, err)
		}
		limits.Bytes = v.limits.size.Of(total)
	}
	gone, err := store.Vacuum(vfs.OS{}, dir, limits, time.Now(), v.dry)
	verb, done := "Deleted", "Vacuuming done, freed"
	if v.dry {
		verb, done = "Would delete", "Would free"
	}
	var freed uint64
	var text []byte
	for _, g := range gone {
		empty := ""
		if g.Empty {
			empty = "empty "
		}
		freed += g.Bytes
		text = fmt.Appendf(text, "%s %sarchived journal %s (%s).\n", verb, empty, filepath.Join(dir, g.Name), config.AppendBytes(nil, g.Bytes))
	}
	text = fmt.Appendf(text, "%s %s of archived journals from %s.\n", done, config.AppendBytes(nil, freed), dir)
	if err != nil {
		return withStep(err, "run this as a user who may remove files there")
	}
	_, err = v.out.Write(text)
	return err
}

// setRotate is --rotate: before the vacuum, if there is one.
func (a *queryArgs) setRotate() {
	if a.action == actVacuum || a.action == actRotateVacuum {
		a.action = actRotateVacuum
	} else {
		a.action = actRotate
	}
}

// setVacuum notes that a limit of --vacuum-… was given.
func (a *queryArgs) setVacuum() {
	if a.action == actRotate || a.action == actRotateVacuum {
		a.action = actRotateVacuum
	} else {
		a.action = actVacuum
	}
}

func (a *queryArgs) setVacuumSize(s string) (err error) {
	a.setVacuum()
	if a.vacuum.size, err = config.ParseSize(s); err != nil {
		return withHint(wordsf("Failed to parse vacuum size: %s", s), "want for example 512M, 2G or 10%")
	}
	return nil
}

func (a *queryArgs) setVacuumTime(s string) (err error) {
	a.setVacuum()
	if a.vacuum.age, err = config.ParseSpan(s); err != nil {
		return withHint(wordsf("Failed to parse vacuum time: %s", s), "want for example 36h, 2weeks or 1month")
	}
	return nil
}

func (a *queryArgs) setVacuumFiles(s string) (err error) {
	a.setVacuum()
	if a.vacuum.files, err = strconv.ParseUint(strings.TrimLeft(s, " \t"), 0, 64); err != nil {
		return withHint(wordsf("Failed to parse vacuum files: %s", s), "want a number of files")
	}
	return nil
}

// runVacuum is --vacuum-…, which cleans directories but no single files.
func (a *queryArgs) runVacuum(stderr io.Writer) error {
	dirs, _ := a.source(stderr)
	v := vacuumRun{limits: a.vacuum, out: stderr}
	if a.query.Quiet {
		v.out = io.Discard
	}
	if a.vacuum == (vacuumLimits{}) {
		return nil // nothing is limited
	}
	var first error
	for _, dir := range dirs {
		list, err := withSubdirs(dir)
		if err != nil {
			return unopened(dir, err)
		}
		list = slices.DeleteFunc(list[1:], func(d string) bool { return !a.wants(filepath.Join(d, "system.journal")) })
		for _, d := range append([]string{dir}, list...) {
			if err := v.dir(d); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}
