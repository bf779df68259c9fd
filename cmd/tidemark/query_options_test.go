package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// journalctlOptions are all options of journalctl 252, and those that 253 to 258
// have added: +, or why tidemark refuses it.
var journalctlOptions = map[string]string{
	"--system": "+", "--user": "+", "-m --merge": "+", "-D --directory=PATH": "+", "-i --file=PATH": "+", "--root=ROOT": "+", "--namespace=NAMESPACE": "+",
	"-M --machine=CONTAINER":     "containers are found by asking systemd",
	"--image=IMAGE":              "disk images are not opened",
	"--image-policy=POLICY":      "disk images are not opened",
	"--list-namespaces":          "namespaces are journald's",
	"--synchronize-on-exit=BOOL": "newer than what tidemark follows",

	"-S --since=DATE": "+", "-U --until=DATE": "+", "-c --cursor=CURSOR": "+", "--after-cursor=CURSOR": "+", "--cursor-file=FILE": "+", "-b --boot[=ID]": "+", "--this-boot": "+",
	"-u --unit=UNIT": "+", "--user-unit=UNIT": "+", "--invocation=ID": "+", "-I": "+", "-t --identifier=STRING": "+", "-T --exclude-identifier=STRING": "+",
	"-p --priority=RANGE": "+", "--facility=FACILITY": "+", "-g --grep=PATTERN": "+", "--case-sensitive[=BOOL]": "+", "-k --dmesg": "+",

	"-o --output=STRING": "+", "--output-fields=LIST": "+", "-n --lines[=INTEGER]": "+", "-r --reverse": "+", "--show-cursor": "+", "--utc": "+", "-x --catalog": "+",
	"-W --no-hostname": "+", "--no-full": "+", "-l --full": "+", "-a --all": "+", "-f --follow": "+", "--no-tail": "+", "--truncate-newline": "+", "-q --quiet": "+",
	"--no-pager": "+", "-e --pager-end": "+",

	"--interval=TIME":  "tidemark does not seal files",
	"--verify-key=KEY": "seals are not checked",
	"--force":          "tidemark does not seal files",
	"--setup-keys":     "tidemark does not seal files",

	"-h --help": "+", "--version": "+", "-N --fields": "+", "-F --field=FIELD": "+", "--list-boots": "+", "--list-invocations": "+", "--disk-usage": "+",
	"--vacuum-size=BYTES": "+", "--vacuum-files=INT": "+", "--vacuum-time=TIME": "+", "--verify": "+", "--sync": "+", "--relinquish-var": "+", "--smart-relinquish-var": "+",
	"--flush": "+", "--rotate": "+", "--header": "+",
	"--list-catalog": "+", "--dump-catalog": "+",
	"--update-catalog": "the catalog is systemd's",
	"--new-id128":      "nothing to do with logs",
}

// optionWords splits an option of journalctlOptions: -n --lines[=INTEGER].
var optionWords = regexp.MustCompile(`^(?:-(\w))? ?(?:--([\w-]+))?(\[?=.*)?$`)

// TestOptionTable wants every option of journalctl built, with a line in --help,
// or refused with a reason and the next step; and none that is not in the table.
func TestOptionTable(t *testing.T) {
	known := make(map[string]queryOption)
	for _, o := range queryOptions() {
		known[string(o.short)+o.long] = o
	}
	for line, want := range journalctlOptions {
		m := optionWords.FindStringSubmatch(line)
		short := byte(0)
		if m[1] != "" {
			short = m[1][0]
		}
		o, ok := known[string(short)+m[2]]
		if !ok {
			t.Errorf("%s is not there", line)
			continue
		}
		delete(known, string(short)+m[2])
		kind := map[string]argKind{"": argNone, "=": argRequired, "[": argOptional}[m[3][:min(len(m[3]), 1)]]
		if o.kind != kind {
			t.Errorf("%s takes values of kind %d, want %d", line, o.kind, kind)
		}
		if want == "+" {
			checkBuilt(t, line, o)
			continue
		}
		word := "--" + o.long
		if o.kind == argRequired {
			word += "=1"
		}
		_, err := parseQuery([]string{word}, time.Now())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--"+o.long) || hint(err) == "" {
			t.Errorf("%s: error %v, next step %q; want the reason %q and a step", line, err, hint(err), want)
		}
	}
	for name := range known {
		t.Errorf("%q is not in the table", name)
	}
}

// checkBuilt wants the option in --help, but for other names of one that is.
func checkBuilt(t *testing.T, line string, o queryOption) {
	t.Helper()
	if o.long == "this-boot" || o.long == "smart-relinquish-var" {
		return
	}
	name := "-" + string(o.short)
	if o.long != "" {
		name = "--" + o.long
	}
	if !regexp.MustCompile(`(?m)^ +(-\w, )?` + regexp.QuoteMeta(name) + `\b`).MatchString(queryHelp) {
		t.Errorf("%s is not in --help", line)
	}
}

// TestOptionTableWhole wants what the real journalctl lists in the table.
func TestOptionTableWhole(t *testing.T) {
	// In PATH, the scripts' journalctl is this program.
	out, err := exec.Command("/usr/bin/journalctl", "--help").Output()
	if err != nil {
		t.Skipf("needs journalctl: %v", err)
	}
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-(\w) )?--([\w-]+)`).FindAllStringSubmatch(string(out), -1) {
		n++
		found := false
		for line := range journalctlOptions {
			w := optionWords.FindStringSubmatch(line)
			found = found || w[2] == m[2] && (m[1] == "" || w[1] == m[1])
		}
		if !found {
			t.Errorf("-%s --%s is not in the table", m[1], m[2])
		}
	}
	if n < 50 {
		t.Errorf("only %d options found in journalctl --help", n)
	}
}
