// Command tidemark is a log daemon that writes systemd journal files, and the
// tools that read, check, feed and command it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args, os.Stderr)) }

// verbs lists the commands, in the order of --help.
func verbs() []*cobra.Command {
	return []*cobra.Command{
		newDemoCmd(),
		newServeCmd(),
		newQueryCmd(),
		newSendCmd(),
		newImportCmd(),
		newExportCmd(),
		newVerifyCmd(),
		newSyncCmd(),
		newRotateCmd(),
		newStatusCmd(),
		newVersionCmd(),
	}
}

// run executes one command line and returns the exit code. The first TERM or
// INT ends the context of the verb, a second one ends the process at once.
func run(argv []string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop)

	args, prefix := argv[1:], "tidemark "
	if filepath.Base(argv[0]) == "journalctl" {
		args, prefix = append([]string{"query"}, args...), ""
	}
	root, started := newRootCmd()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !*started {
		err = asUsage(err)
	}
	code, line := outcome(err)
	verb := cmd.Name()
	if verb == "query" {
		code = min(code, exitFailed)
	}
	if line != "" {
		fmt.Fprintln(stderr, errorLine(prefix, verb, line)) //nolint:errcheck // nowhere else to say it
	}
	return code
}

// errorLine is what a person sees: `tidemark VERB: what: why`, on one line.
func errorLine(prefix, verb, line string) string {
	line = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	switch {
	case prefix == "":
		return "journalctl: " + line
	case verb == "tidemark":
		return "tidemark: " + line
	default:
		return prefix + verb + ": " + line
	}
}

// newRootCmd builds the command tree. started turns true when the flags and
// arguments were accepted and a verb began: errors before are usage errors.
func newRootCmd() (root *cobra.Command, started *bool) {
	started = new(bool)
	root = &cobra.Command{
		Use:   "tidemark",
		Short: "A log daemon that writes systemd journal files without waiting for the disk",
		Example: `  tidemark serve --data ./log --run ./run
  tidemark query -D ./log -f
  tidemark help VERB`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetVersionTemplate("tidemark {{.Version}}\n")
	for _, verb := range verbs() {
		noteStart(verb, started)
		root.AddCommand(verb)
	}
	return root, started
}

// noteStart makes verb set started when its own code begins.
func noteStart(verb *cobra.Command, started *bool) {
	inner := verb.RunE
	if inner == nil {
		return
	}
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		*started = true
		return inner(cmd, args)
	}
}

// asUsage marks an error of cobra's own checks as a usage error, in one line.
func asUsage(err error) error {
	what, _, _ := strings.Cut(err.Error(), "\n")
	return usagef("%s: see tidemark help", strings.TrimSuffix(what, ` for "tidemark"`))
}
