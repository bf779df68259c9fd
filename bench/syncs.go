package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/internal/selfbench"
)

const (
	syncsCrowd = 200
	syncsSlow  = 10 * time.Millisecond
)

// benchSyncs measures in this process what waiting for a sync costs: of a plain
// file and of a journal file, a sync each, shared, or none.
func benchSyncs(ctx context.Context, s settings) error {
	fmt.Printf("\n## syncs: records of 100 bytes, each waits until it is synced; %d interleaved rounds of %s\n", s.rounds, s.each)
	var rows [2][]selfbench.SyncRow
	for i, delay := range []time.Duration{0, syncsSlow} {
		fmt.Println("\n```")
		var err error
		rows[i], err = selfbench.Sync(ctx, selfbench.SyncOptions{
			Options: selfbench.Options{Dir: s.dir, Duration: s.each, Rounds: s.rounds, Delay: delay, Out: os.Stdout},
			Callers: []int{1, syncsCrowd},
		})
		if err != nil {
			return err
		}
		fmt.Println("```")
	}
	return printSyncs(os.Stdout, rows[0], rows[1])
}

// printSyncs prints the ratios: of the disk as it is, and of one whose syncs are
// slower by syncsSlow.
func printSyncs(w io.Writer, fast, slow []selfbench.SyncRow) error {
	var text strings.Builder
	text.WriteString("\n| what is shared | to lock and sync each, 200 callers | to no sync, 200 | to lock and sync each, 1 | slow: p50 of 200 to that of one sync |\n|---|---|---|---|---|\n")
	for _, kind := range []string{"file", "journal"} {
		crowd, lone := syncRow(fast, kind+": one sync for all who wait", syncsCrowd), syncRow(fast, kind+": one sync for all who wait", 1)
		late := syncRow(slow, kind+": one sync for all who wait", syncsCrowd)
		// One sync: what a lone writer of a plain file waits for.
		one := syncRow(slow, "file: lock, write, sync each", 1)
		fmt.Fprintf(&text, "| %s | %.1f | %.3f | %.2f | %.2f |\n", kind, crowd.ToEach, crowd.OfNone, lone.ToEach, us(late.P50)/us(one.P50))
	}
	// The journal beside what anybody would write: the same callers, a plain file.
	crowd, lone := syncRow(fast, "journal: one sync for all who wait", syncsCrowd), syncRow(fast, "journal: one sync for all who wait", 1)
	fmt.Fprintf(&text, "| journal, to the plain file's | %.1f | %.3f | %.2f | |\n", crowd.Rate/syncRow(fast, "file: lock, write, sync each", syncsCrowd).Rate,
		crowd.Rate/syncRow(fast, "file: write", syncsCrowd).Rate, lone.Rate/syncRow(fast, "file: lock, write, sync each", 1).Rate)
	_, err := io.WriteString(w, text.String())
	return err
}

// syncRow finds a row; one of zeroes if there is none.
func syncRow(rows []selfbench.SyncRow, way string, callers int) selfbench.SyncRow {
	for _, r := range rows {
		if r.Way == way && r.Callers == callers {
			return r
		}
	}
	return selfbench.SyncRow{}
}
