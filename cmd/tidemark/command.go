package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
)

// command runs one method of the daemon behind the flag --run. notes gets
// warnings.
func command(ctx context.Context, runFlag, method string, notes io.Writer) (json.RawMessage, error) {
	return commandWith(ctx, runFlag, method, nil, notes)
}

// commandWith is command with parameters.
func commandWith(ctx context.Context, runFlag, method string, params any, notes io.Writer) (json.RawMessage, error) {
	dir, err := runDir(runFlag, notes)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, config.ControlSocket)
	out, err := control.Call(ctx, path, method, params)
	var refused *control.Error
	switch {
	case errors.As(err, &refused) && refused.Name == control.ErrorPermissionDenied:
		return nil, fmt.Errorf("%s: %w: run this as one of them, with sudo for example", path, err)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%s: %w", path, err)
	case ctx.Err() != nil:
		return nil, errors.New("interrupted: what was asked of the daemon may be done all the same")
	case err != nil:
		return nil, unreachable(path, err)
	}
	return out, nil
}

// newCommandCmd is a verb that is one command without results.
func newCommandCmd(verb, short, method string) *cobra.Command {
	var run string
	cmd := &cobra.Command{
		Use:     verb + " [OPTION]...",
		Short:   short,
		Example: "  tidemark " + verb + "\n  tidemark " + verb + " --run ./run",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := command(cmd.Context(), run, method, cmd.ErrOrStderr())
			return err
		},
	}
	cmd.Flags().StringVar(&run, "run", "", runHelp)
	completeFlags(cmd, nil, "run")
	return cmd
}
