package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/demo"
)

func newDemoCmd() *cobra.Command {
	var o demo.Options
	var f demo.FeedOptions
	cmd := &cobra.Command{
		Use:   "demo [OPTION]...",
		Short: "Run the main job with its proof: eight programs log, the daemon is killed, nothing acknowledged is lost",
		Long: `Starts a daemon in a temporary directory of its own, lets eight processes log
through native, syslog, stdout and HTTP, kills the daemon with -9 in mid-stream,
starts it again and looks every acknowledged record up. Needs no root, touches
nothing of the system's, and ends with exit code 1 when anything acknowledged is
lost or any record is torn.`,
		Example: `  tidemark demo
  tidemark demo --real     # with lines of this machine's own logs
  tidemark demo --keep     # leave the daemon up afterwards`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Kind != "" {
				f.Real, f.RealGlob = o.Real, demo.RealGlob
				err := demo.Feed(cmd.Context(), f, os.Stdin, os.Stdout)
				if cmd.Context().Err() != nil {
					return nil // the demo says so, once
				}
				return err
			}
			return runDemo(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Real, "real", false, "send lines of this machine's readable logs instead of the sample that ships")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the daemon and its files there")
	cmd.Flags().StringVar(&f.Kind, "feed", "", "be a feeder of the demo")
	cmd.Flags().IntVar(&f.ID, "feed-id", 0, "the feeder's number")
	cmd.Flags().StringVar(&f.Run, "feed-run", "", "the daemon's sockets")
	for _, name := range []string{"feed", "feed-id", "feed-run"} {
		if err := cmd.Flags().MarkHidden(name); err != nil {
			panic(err) // a flag defined above
		}
	}
	return cmd
}

func runDemo(ctx context.Context, o demo.Options) error {
	var err error
	if o.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o.Out = os.Stdout
	o.Synchronize = func(ctx context.Context, socket string) error {
		_, err := control.Call(ctx, socket, control.MethodSynchronize, nil)
		return err
	}
	o.Syncs = daemonSyncs
	return demo.Run(ctx, o)
}

// daemonSyncs asks the daemon behind socket how many syncs it has made.
func daemonSyncs(ctx context.Context, socket string) (uint64, error) {
	reply, err := control.Call(ctx, socket, control.MethodStatus, nil)
	if err != nil {
		return 0, err
	}
	var a control.Status
	if err := json.Unmarshal(reply, &a); err != nil {
		return 0, fmt.Errorf("read the daemon's status: %w", err)
	}
	return a.Syncs, nil
}
