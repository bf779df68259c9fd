package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/control"
)

func newRotateCmd() *cobra.Command {
	return newCommandCmd("rotate", "Have the daemon archive its files and begin new ones", control.MethodRotate)
}
