package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/control"
)

func newSyncCmd() *cobra.Command {
	return newCommandCmd("sync", "Wait until everything the daemon has received is on stable storage", control.MethodSynchronize)
}
