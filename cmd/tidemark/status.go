package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
)

func newStatusCmd() *cobra.Command {
	var run string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [OPTION]...",
		Short: "Show what the daemon has taken, written, synced and refused",
		Example: `  tidemark status
  tidemark status --json | jq .files`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := command(cmd.Context(), run, control.MethodStatus, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				_, err := fmt.Fprintf(out, "%s\n", raw)
				return err
			}
			var st control.Status
			if err := json.Unmarshal(raw, &st); err != nil {
				return fmt.Errorf("the daemon's answer: %w", err)
			}
			return printStatus(out, &st)
		},
	}
	cmd.Flags().StringVar(&run, "run", "", runHelp)
	completeFlags(cmd, nil, "run")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as it is, in bytes, µs and counts")
	return cmd
}

// printStatus prints st for people: a name and a sentence a line.
func printStatus(out io.Writer, st *control.Status) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) //nolint:errcheck // Flush tells
	}
	row("tidemark", "%s, pid %d, up since %s", st.Version, st.PID, clock(st.Started))
	row("data", "%s", st.Data)
	for i, e := range st.Endpoints {
		name := ""
		if i == 0 {
			name = "listens"
		}
		row(name, "%s: %s", e.Protocol, e.Address)
	}
	row("sync", "%s: %s", st.Sync, syncWords(st.Sync))
	row("syncs", "%d since the start, %s", st.Syncs, orNone(st.SyncErrors, "failed"))
	if st.Unsynced > 0 {
		row("unsynced", "%s in at most %s, the oldest since %s", plural(st.Unsynced, "entries"), bytesText(st.UnsyncedBytes), clock(st.UnsyncedSince))
	}
	row("notify", "%s: how long matches of other processes may lag under load", time.Duration(st.Notify)*time.Microsecond)
	row("nice", "%d", st.Nice)
	row("buffer", "%s of %s wait to be written", bytesText(uint64(st.Buffered)), bytesText(uint64(st.Buffer)))
	row("space", "%s used, %s allowed, %s available", bytesText(st.Space.Usage), bytesText(st.Space.Limit), bytesText(st.Space.Available))
	if st.Space.Full {
		row("", "THE DISK IS FULL: entries wait or are refused until there is space")
	}
	if st.ClockSteps > 0 {
		row("clock", "stepped back %s: the last time was repeated", times(st.ClockSteps))
	}
	current := 0
	for _, f := range st.Files {
		if !strings.Contains(filepath.Base(f.Path), "@") {
			current++
		}
	}
	row("files", "%d current, %d on the way to the archive, %d archived, %d prepared", current, len(st.Files)-current, st.Space.Archived, st.Space.Prepared)
	for i := range st.Files {
		f := &st.Files[i]
		row("  "+shortName(f.Path), "%s in %s, %d%% full; %s, %s", plural(f.Entries, "entries"), bytesText(f.Bytes), f.Fill,
			owed(f.Unsynced == 0, "all synced", "%s not synced yet", plural(f.Unsynced, "entries")),
			owed(f.Unwritten <= 0, "all written", "%s not written yet", bytesText(uint64(f.Unwritten))))
		if f.Error != "" {
			row("", "FAILED: %s", f.Error)
		}
	}
	for _, c := range st.Counts {
		if c.N > 0 {
			row(c.Name, "%s", countText(c))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printHistograms(out, st.Histograms)
}

// shortName is the name of a file, without the numbers of an archive's.
func shortName(path string) string {
	base, _, archive := strings.Cut(filepath.Base(path), "@")
	if archive {
		return base + "@…"
	}
	return base
}

// syncWords says what a sync policy means.
func syncWords(policy string) string {
	switch policy {
	case "auto":
		return "the kernel writes back when it likes, unless somebody asks for a sync"
	case "all":
		return "an acknowledged append is on the disk"
	default:
		return "a sync begins at most that long after an append"
	}
}

func owed(none bool, all, format string, args ...any) string {
	if none {
		return all
	}
	return fmt.Sprintf(format, args...)
}

func orNone(n uint64, what string) string {
	if n == 0 {
		return "none " + what
	}
	return fmt.Sprintf("%d %s", n, what)
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// clock prints a time in µs since 1970.
func clock(usec uint64) string {
	return time.UnixMicro(int64(usec)).Format(time.RFC3339)
}

// bytesText prints a size with one digit behind the point, cut as journalctl
// does: 1048575 bytes are 1023.9 KiB, not 1024.0.
func bytesText(n uint64) string {
	if n < 1024 {
		return plural(n, "bytes")
	}
	text := config.AppendBytes(nil, n)
	unit := len(text) - 1
	return fmt.Sprintf("%s %ciB", text[:unit], text[unit])
}
