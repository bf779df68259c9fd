package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/control"
)

// controlSocket is the daemon's socket for commands in its run directory.
const controlSocket = "io.systemd.journal"

// command runs one method of the daemon behind the flag --run.
func command(ctx context.Context, runFlag, method string) (json.RawMessage, error) {
	path := filepath.Join(environment().FindRunDir(runFlag), controlSocket)
	out, err := control.Call(ctx, path, method, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s: no daemon answers: start one with tidemark serve, or say where it is with --run or TIDEMARK_RUN", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// newCommandCmd is a verb that is one command without results.
func newCommandCmd(verb, short, method string) *cobra.Command {
	var run string
	cmd := &cobra.Command{
		Use:     verb,
		Short:   short,
		Example: "  tidemark " + verb + "\n  tidemark " + verb + " --run ./run",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := command(cmd.Context(), run, method)
			return err
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "`directory` of the daemon's sockets (default: $TIDEMARK_RUN, else serve's)")
	completeFlags(cmd, nil, "run")
	return cmd
}
