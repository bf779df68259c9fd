package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const exportHelp = `Print entries in the Journal Export Format: query -o export.

Examples:
  tidemark export >all.export
  tidemark export -D /var/log/journal -u ssh.service --since yesterday
  tidemark export --file system.journal | tidemark import -o copy.journal

Usage:
  tidemark export [OPTION]... [MATCH]...

The options are those of tidemark query.
`

func newExportCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [OPTION]... [MATCH]...",
		Short: "Print entries of journal files in the Journal Export Format",
		// The options are journalctl's, as in query.
		DisableFlagParsing: true,
		ValidArgsFunction:  completeQuery,
		RunE: func(cmd *cobra.Command, argv []string) error {
			for _, arg := range argv {
				if arg == "--" {
					break
				}
				if arg == "-h" || arg == "--help" {
					return cmd.Help()
				}
			}
			return runExport(cmd, argv)
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = fmt.Fprint(cmd.OutOrStdout(), exportHelp)
	})
	return cmd
}

// runExport is a query that says how far it is, where the terminal is not needed
// for the entries themselves.
func runExport(cmd *cobra.Command, argv []string) error {
	var out io.Writer = cmd.OutOrStdout()
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		if line := newProgressLine(); line != nil {
			defer line.clear()
			out = &meter{w: out, line: line}
		}
	}
	return runQuery(cmd.Context(), append([]string{"--output=export"}, argv...), out, cmd.ErrOrStderr())
}
