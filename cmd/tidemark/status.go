package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/control"
)

func newStatusCmd() *cobra.Command {
	var run string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the daemon has taken, written, synced and refused",
		Example: `  tidemark status
  tidemark status --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := command(cmd.Context(), run, control.MethodStatus)
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
			return printStatus(out, st)
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "directory of the daemon's sockets")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as it is")
	return cmd
}

// printStatus prints st for people.
func printStatus(out io.Writer, st control.Status) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) //nolint:errcheck // Flush tells
	}
	row("tidemark", "%s, pid %d, since %s", st.Version, st.PID, clock(st.Started))
	row("data", "%s", st.Data)
	row("run", "%s", st.Run)
	row("sync", "%s", st.Sync)
	row("synced", "%d times, %d failed", st.Syncs, st.SyncErrors)
	row("notify", "%s", time.Duration(st.Notify)*time.Microsecond)
	row("nice", "%d", st.Nice)
	row("buffer", "%s of %s", bytesText(uint64(st.Buffered)), bytesText(uint64(st.Buffer)))
	row("space", "%s used, %s allowed, %s available, %d archived files", bytesText(st.Space.Usage), bytesText(st.Space.Limit), bytesText(st.Space.Available), st.Space.Archived)
	if st.Space.Full {
		row("disk full", "entries wait or are refused until there is space")
	}
	if st.ClockSteps > 0 {
		row("clock", "stepped back %d times", st.ClockSteps)
	}
	for _, f := range st.Files {
		row(filepath.Base(f.Path), "%d entries, %s, %d not synced, %s not written, %d%% full", f.Entries, bytesText(f.Bytes), f.Unsynced, bytesText(uint64(f.Unwritten)), f.Fill)
		if f.Error != "" {
			row("", "%s", f.Error)
		}
	}
	for _, c := range st.Counts {
		if c.N > 0 {
			row(c.Name, "%d %s", c.N, c.Reason)
		}
	}
	return w.Flush()
}

// clock prints a time in µs since 1970.
func clock(usec uint64) string {
	return time.UnixMicro(int64(usec)).Format(time.RFC3339)
}

// bytesText prints a size with one digit behind the point.
func bytesText(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return fmt.Sprintf("%.1f%c", v, units[i])
}
