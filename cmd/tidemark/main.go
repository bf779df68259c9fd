// Command tidemark is a log daemon that writes systemd journal files, and the
// tools that read, check, feed and command it.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() { os.Exit(run(os.Args, os.Stderr)) }

// verbs lists the commands, in the order of --help.
func verbs() []*cobra.Command {
	return []*cobra.Command{
		newDemoCmd(),
		newServeCmd(),
		newQueryCmd(),
		newSendCmd(),
		newAppendCmd(),
		newImportCmd(),
		newExportCmd(),
		newVerifyCmd(),
		newVacuumCmd(),
		newSyncCmd(),
		newRotateCmd(),
		newStatusCmd(),
		newBenchCmd(),
		newCompletionCmd(),
		newVersionCmd(),
	}
}

// run executes one command line and returns the exit code.
func run(argv []string, stderr io.Writer) int {
	args, prefix := argv[1:], "tidemark "
	if filepath.Base(argv[0]) == "journalctl" {
		args, prefix = append([]string{"query"}, args...), ""
	}
	verb, err := execute(args)
	code, line := outcome(err)
	if verb == "query" {
		code = min(code, exitFailed)
	}
	if line != "" {
		fmt.Fprintln(stderr, errorLine(prefix, verb, line)) //nolint:errcheck // nowhere else to say it
		if more := hint(err); more != "" {
			fmt.Fprintln(stderr, errorLine(prefix, verb, more)) //nolint:errcheck // as above
		}
	}
	return code
}

// execute does what args say and returns the name of the verb. A query takes its
// options apart itself, and is often over sooner than all the verbs are built.
func execute(args []string) (verb string, err error) {
	var ctx signalContext
	defer ctx.stop()
	if len(args) > 0 && args[0] == "query" {
		return "query", runQuery(&ctx, args[1:], os.Stdout, os.Stderr)
	}
	ctx.patient = len(args) > 0 && slices.Contains([]string{"serve", "import", "append", "demo"}, args[0])
	ctx.listen()
	root, started := newRootCmd()
	root.SetArgs(args)
	cmd, err := root, unknownVerb(root, args)
	if err == nil {
		if cmd, err = root.ExecuteContextC(&ctx); err != nil && !*started {
			err = asUsage(cmd, err)
		}
	}
	return cmd.Name(), err
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

// usageTemplate is what --help prints of every verb but those with journalctl's
// options: examples first.
const usageTemplate = `{{with .Short}}{{.}}.

{{end}}Examples:
{{.Example}}

Usage:
  {{if .HasSubCommands}}{{.CommandPath}} VERB [OPTION]...{{else}}{{.UseLine}}{{end}}
{{with .Long}}
{{.}}
{{end}}{{if .HasSubCommands}}
Verbs:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Options:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}`

// newRootCmd builds the command tree. started turns true when the flags and
// arguments were accepted and a verb began: errors before are usage errors.
func newRootCmd() (root *cobra.Command, started *bool) {
	started = new(bool)
	root = &cobra.Command{
		Use:   "tidemark",
		Short: "A log daemon that writes systemd journal files without waiting for the disk",
		Example: `  tidemark demo                          # the main job with its proof, in seconds
  tidemark serve --data ./log --run ./run
  tidemark send --run ./run "hello"
  tidemark query -D ./log -f
  tidemark VERB --help                   # examples and options of a verb`,
		Long: `Exit codes: 0 done, 1 failed, 2 wrong usage. query ends as journalctl does, with
0 or 1; send and append -- COMMAND pass on the code of the command.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		SuggestionsMinimumDistance: 2,
	}
	cobra.EnableCommandSorting = false // the demo first
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetVersionTemplate("tidemark {{.Version}}\n")
	root.SetHelpTemplate(usageTemplate)
	root.SetHelpCommand(newHelpCmd())
	for _, verb := range verbs() {
		noteStart(verb, started)
		verb.DisableFlagsInUseLine = true // [flags] would stand behind COMMAND…, whose they would be
		root.AddCommand(verb)
	}
	return root, started
}

// newHelpCmd is `tidemark help [VERB]`.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [VERB]",
		Short:   "Show examples and options of a verb",
		Example: "  tidemark help serve",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("name one verb, not %q", args)
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			for _, verb := range cmd.Root().Commands() {
				if verb.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(verb.Name(), verb.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if err := unknownVerb(root, args); err != nil {
				return err
			}
			verb, _, err := root.Find(args)
			if err != nil {
				return err
			}
			verb.InitDefaultHelpFlag()
			return verb.Help()
		},
	}
}

// unknownVerb returns an error if the first word of args, before or behind
// flags, is no verb. It looks before the flags are read: those of a mistyped
// verb say nothing.
func unknownVerb(root *cobra.Command, args []string) error {
	for _, word := range args {
		if strings.HasPrefix(word, "-") {
			continue
		}
		root.InitDefaultHelpCmd()
		for _, verb := range root.Commands() {
			if verb.Name() == word {
				return nil
			}
		}
		if strings.HasPrefix(word, cobra.ShellCompRequestCmd) {
			return nil // the shell's completion asks
		}
		return usagef("unknown verb %q: %s", word, suggest(root, word))
	}
	return nil
}

// suggest says which verbs word may have meant.
func suggest(root *cobra.Command, word string) string {
	names := root.SuggestionsFor(word)
	if len(names) == 0 {
		return "see tidemark help"
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%q", name)
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}

// suggestOption says which of the long options word may have meant; empty if none is
// like it.
func suggestOption(long []string, word string) string {
	like := &cobra.Command{SuggestionsMinimumDistance: 2} // has the measure of verbs
	for _, name := range long {
		like.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	names := like.SuggestionsFor(word)
	if len(names) == 0 {
		return ""
	}
	return "did you mean --" + strings.Join(names, " or --") + "?"
}

// noArgs is for verbs that take only flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected %q: %s takes options only: see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
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

// asUsage marks an error of cobra's own checks as a usage error, in one line
// that says where to look.
func asUsage(cmd *cobra.Command, err error) error {
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	what, _, _ := strings.Cut(err.Error(), "\n")
	step := "see " + cmd.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var long []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { long = append(long, f.Name) })
		step = cmp.Or(suggestOption(long, unknown.GetSpecifiedName()), step)
	case errors.As(err, &value):
		f := value.GetFlag()
		if want := valueWanted[f.Value.Type()]; want != "" {
			return usagef("--%s %q: want %s", f.Name, value.GetValue(), want)
		}
	}
	return usagef("%s: %s", what, step)
}

// valueWanted says what a value of a type of flag looks like.
var valueWanted = map[string]string{
	"uint64":   "a whole number, 0 or more",
	"int":      "a whole number",
	"duration": "a time with its unit, such as 10ms or 1m30s",
	"bool":     "true or false",
}
