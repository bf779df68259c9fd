package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/query"
	"github.com/tidemark-log/tidemark/internal/render"
)

func newCompletionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes verbs, options and values in a shell",
		Example: `  source <(tidemark completion bash)                # in this shell; bash-completion must be there
  tidemark completion bash >/etc/bash_completion.d/tidemark
  tidemark completion zsh >"${fpath[1]}/_tidemark"
  tidemark completion fish >~/.config/fish/completions/tidemark.fish`,
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return usagef("unknown shell %q: want bash, zsh or fish", args[0])
			}
		},
	}
}

// completeQuery completes a command line of journalctl's options, which cobra
// does not read. Values of fields are those in the files that the line reads.
func completeQuery(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	options := queryOptions()
	if name, value, found := strings.Cut(word, "="); found && strings.HasPrefix(name, "--") {
		if o, err := findLong(options, name[2:]); err == nil {
			return newCompleter(args).value(o.long, value)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) > 0 {
		if o := valueMissing(options, args[len(args)-1]); o != nil && (o.kind == argRequired || o.long == "boot" || !strings.HasPrefix(word, "-")) {
			return newCompleter(args[:len(args)-1]).value(o.long, word)
		}
	}
	if strings.HasPrefix(word, "-") {
		return completeOption(options, word), cobra.ShellCompDirectiveNoFileComp
	}
	return newCompleter(args).word(word)
}

// valueMissing returns the option that word is, when its value is the next word.
func valueMissing(options []queryOption, word string) *queryOption {
	for i := range options {
		o := &options[i]
		if o.kind == argNone || o.set == nil {
			continue
		}
		if word == "--"+o.long && o.kind == argRequired || o.short != 0 && word == "-"+string(o.short) {
			return o
		}
	}
	return nil
}

// completeOption lists the options that begin with word, with what --help says
// about them. Other names of the same, which it does not have, are not offered.
func completeOption(options []queryOption, word string) []cobra.Completion {
	var list []cobra.Completion
	for i := range options {
		o := &options[i]
		name := "--" + o.long
		if text := describe(name); o.set != nil && text != "" && strings.HasPrefix(name, word) {
			list = append(list, cobra.CompletionWithDesc(name, text))
		}
	}
	return list
}

// describe finds the text of an option in the help.
func describe(name string) string {
	for line := range strings.SplitSeq(queryHelp, "\n") {
		line = strings.TrimSpace(line)
		if len(line) > 4 && line[0] == '-' && line[2] == ',' {
			line = line[4:] // the short form
		}
		rest, found := strings.CutPrefix(line, name)
		if !found || rest != "" && strings.IndexByte(" =[,", rest[0]) < 0 {
			continue
		}
		if _, text, ok := strings.Cut(rest, "  "); ok {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// value completes the value of an option.
func (c completer) value(option, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var values []cobra.Completion
	switch option {
	case "output":
		values = render.Modes()
	case "priority":
		values = levelNames()
	case "facility":
		values = query.Facilities()
	case "case-sensitive":
		values = []cobra.Completion{"yes", "no"}
	case "since", "until":
		values = []cobra.Completion{"today", "yesterday", "-1h", "-1d"}
	case "lines":
		values = []cobra.Completion{"all"}
	case "field":
		values = c.names(word, "")
	case "output-fields":
		before, last := "", word
		if i := strings.LastIndexByte(word, ','); i >= 0 {
			before, last = word[:i+1], word[i+1:]
		}
		for _, name := range c.names(last, "") {
			values = append(values, before+name)
		}
	case "unit":
		values = c.values("", word, "_SYSTEMD_UNIT", "UNIT")
	case "user-unit":
		values = c.values("", word, "_SYSTEMD_USER_UNIT", "USER_UNIT")
	case "identifier", "exclude-identifier":
		values = c.values("", word, "SYSLOG_IDENTIFIER")
	case "boot":
		return c.boots(word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	case "directory", "root":
		return nil, cobra.ShellCompDirectiveFilterDirs
	case "file", "cursor-file":
		return nil, cobra.ShellCompDirectiveDefault
	}
	return startingWith(values, word), cobra.ShellCompDirectiveNoFileComp
}

// levelNames are the values of -p.
func levelNames() []cobra.Completion {
	names := entry.LevelNames()
	return names[:]
}

func startingWith(list []cobra.Completion, word string) []cobra.Completion {
	var some []cobra.Completion
	for _, s := range list {
		if strings.HasPrefix(s, word) {
			some = append(some, s)
		}
	}
	return some
}

// completeFlags gives flags of a verb their values: a fixed list, or directories.
func completeFlags(cmd *cobra.Command, values map[string][]cobra.Completion, dirs ...string) {
	for name, list := range values {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)))
	}
	for _, name := range dirs {
		must(cmd.MarkFlagDirname(name))
	}
}

// must is for calls that fail only if a flag is not defined.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
