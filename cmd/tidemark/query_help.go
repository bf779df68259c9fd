package main

import "strings"

// helpOfQuery is queryHelp for the name that this process was called by.
func helpOfQuery() string {
	if !calledAsJournalctl() {
		return queryHelp
	}
	text := strings.ReplaceAll(queryHelp, "tidemark query", "journalctl")
	text = strings.Replace(text, "with journalctl's options", "by tidemark in place of systemd's journalctl", 1)
	return strings.Replace(text, "instead of tidemark's own\n", "instead of journald's and tidemark's own\n", 1)
}

const queryHelp = `Show entries of journal files, with journalctl's options.

Examples:
  tidemark query -n 20                       the last 20 entries
  tidemark query -f                          wait for more
  tidemark query -u ssh -p warning -S today  a unit's warnings since midnight
  tidemark query -b -1 -k                    the kernel's, of the boot before
  tidemark query -D DIR -o json _UID=1000 MESSAGE_ID!=0123…

Usage: tidemark query [OPTION]... [FIELD=VALUE | FIELD!=VALUE | PATH | +]...

Source:
  -D, --directory=DIR      Files below DIR, repeatable, instead of tidemark's own
                           (Data= of tidemark.conf or serve's default; root's if you have none)
  -i, --file=FILE          This file; a pattern, repeatable
      --root=DIR           journald's files of the system below DIR
      --namespace=NAME     Files of this journal namespace; +NAME with the others, '*' all
  -m, --merge              Files of all machines, without lines between boots
      --system             Only the system's files
      --user               Only your own files; with --system both
Filter:
  -S, --since=TIME         "2026-11-30 18:00", 09:30, yesterday, -1h, "2 days ago", @SECONDS
  -U, --until=TIME         Up to and with TIME
  -c, --cursor=CURSOR      From this cursor on
      --after-cursor=CURSOR  Behind it
      --cursor-file=FILE   Behind the cursor in FILE, which is renewed at the end
  -b, --boot[=ID|N]        This boot, the Nth (1 is the oldest), or -N boots before it
  -k, --dmesg              Of the kernel, in this boot
  -u, --unit=UNIT          Of a unit or a pattern of units, repeatable
      --user-unit=UNIT     Of a unit of your own service manager
      --invocation=ID|N    Of a run of the unit: the Nth (1 is the oldest), or -N before the last
  -I                       Of its last run
  -t, --identifier=NAME    Of this syslog identifier or a pattern, repeatable
  -T, --exclude-identifier=NAME  Not of this one
  -p, --priority=LEVEL     Of this priority or a worse one, or of a range A..B
      --facility=NAME,...  Of these syslog facilities
  -g, --grep=PATTERN       Whose message matches; lower-case patterns ignore case
                           (Go's syntax, pkg.go.dev/regexp/syntax: no (?=…), (?!…) or \1)
      --case-sensitive[=BOOL]  Whether -g minds case, whatever the pattern
Output:
  -o, --output=MODE        How entries are shown; -o help lists the modes
                           (short, short-precise, short-iso, short-iso-precise, short-full,
                           short-monotonic, short-delta, short-unix, with-unit, verbose, cat,
                           json, json-pretty, json-sse, json-seq, export)
      --output-fields=A,B  Only these fields
  -n, --lines[=N|+N|all]   The last N entries, or the first
      --no-tail            All entries before those that -f waits for
  -r, --reverse            The newest first
  -f, --follow             Wait for more
      --show-cursor        Print the last entry's cursor at the end
      --utc                Times in UTC
  -W, --no-hostname        Without the host's name
  -a, --all                All fields whole, also unprintable ones
      --no-full            Cut long messages
      --truncate-newline   Of each message the first line
  -l, --full               Cut none, which is the default
  -q, --quiet              Nothing but entries
  -x, --catalog            With what systemd's message catalog says of them
      --no-pager           Without a pager
  -e, --pager-end          The end of this boot first, in the pager
Commands:
  -N, --fields             Names of all fields
  -F, --field=NAME         Values of a field
      --list-boots         Boots with their times
      --list-invocations   Runs of a unit with their times; -u names it
      --header             Headers of the files
      --list-catalog [ID]...  What the message catalog is about
      --dump-catalog [ID]...  Its texts
      --disk-usage         What the files occupy
      --verify             Check the files for damage
      --sync               Have the daemon write everything to the disk
      --rotate             Have the daemon begin new files
      --vacuum-size=SIZE   Remove the oldest archives until all files take no more
      --vacuum-time=AGE    Remove archives that are older
      --vacuum-files=N     Remove the oldest archives until N files are left
      --flush              Nothing: there is one place for logs
      --relinquish-var     Nothing, for the same reason
  -h, --help               This text
      --version            The build

Ends with 0, or with 1 for any error and for -g without hits. NO_COLOR, and
SYSTEMD_COLORS before it, say whether a terminal gets colours; SYSTEMD_PAGER and
PAGER which pager, if SYSTEMD_PAGERSECURE is set too, and cat none.
`
