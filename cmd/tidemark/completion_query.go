package main

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/query"
	"github.com/tidemark-log/tidemark/journal"
)

const (
	// completionLooks is how many values of a field are looked at.
	completionLooks = 20_000
	// completionLength is the longest value that is offered, in bytes.
	completionLength = 200
)

// completer finds values in the journal that a command line reads.
type completer struct{ a *queryArgs }

// newCompleter reads the words before the one that is completed, as far as they
// are right.
func newCompleter(words []string) completer {
	a := &queryArgs{query: query.Defaults(), now: time.Now()}
	_, _ = getopt(queryOptions(), a, words) // what is wrong is said when the line is run
	a.query.Follow = false
	return completer{a}
}

// journal opens the files of the command line; nil when there are none to read.
func (c completer) journal() *journal.Journal {
	dirs, files := c.a.source(io.Discard)
	j, _, err := openSource(c.a, dirs, files, io.Discard)
	if err != nil {
		return nil
	}
	return j
}

// values are the values of fields that begin with word, behind prefix.
func (c completer) values(prefix, word string, fields ...string) []cobra.Completion {
	j := c.journal()
	if j == nil {
		return nil
	}
	defer j.Close()
	var list []cobra.Completion
	for _, field := range fields {
		looks := 0
		for value, err := range j.UniqueValues(field) {
			if looks++; err != nil || looks > completionLooks {
				break
			}
			if v := string(value); len(v) <= completionLength && strings.HasPrefix(v, word) && isTypable(v) {
				list = append(list, prefix+v)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// isTypable reports whether a shell can be given s on one line.
func isTypable(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// names are the names of fields that begin with word, with what stands behind.
func (c completer) names(word, behind string) []cobra.Completion {
	j := c.journal()
	if j == nil {
		return nil
	}
	defer j.Close()
	var list []cobra.Completion
	for name, err := range j.FieldNames() {
		if err != nil {
			break
		}
		if strings.HasPrefix(name, word) {
			list = append(list, name+behind)
		}
	}
	slices.Sort(list)
	return list
}

// boots are the boots, by number and by id, with their times.
func (c completer) boots(word string) []cobra.Completion {
	j := c.journal()
	if j == nil {
		return nil
	}
	defer j.Close()
	boots, err := j.Boots()
	if err != nil {
		return nil
	}
	var list []cobra.Completion
	for i, b := range slices.Backward(boots) {
		for _, name := range []string{strconv.Itoa(i - len(boots) + 1), b.ID.String()} {
			if strings.HasPrefix(name, word) {
				list = append(list, cobra.CompletionWithDesc(name, query.FormatTime(b.First, time.Local)+" to "+query.FormatTime(b.Last, time.Local)))
			}
		}
	}
	return list
}

// word completes a word that is no option and not the value of one.
func (c completer) word(word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasPrefix(word, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	if name, value, found := strings.Cut(word, "="); found {
		return c.values(name+"=", value, strings.TrimSuffix(name, "!")), cobra.ShellCompDirectiveNoFileComp
	}
	names := c.names(word, "=")
	if len(names) == 0 {
		names = startingWith(usualFields(), word)
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

// usualFields are offered where no journal can be read.
func usualFields() []cobra.Completion {
	return []cobra.Completion{
		"MESSAGE_ID=", "PRIORITY=", "SYSLOG_IDENTIFIER=", "_BOOT_ID=", "_COMM=", "_EXE=", "_HOSTNAME=", "_PID=", "_SYSTEMD_UNIT=",
		"_SYSTEMD_USER_UNIT=", "_TRANSPORT=", "_UID=",
	}
}
