package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// mayGo lists where a goroutine may begin, and who ends it. A key is a file, or a
// directory with a slash at its end.
var mayGo = map[string]string{
	"settle/settler.go":       "one per settler; Close joins it",
	"settle/run.go":           "the same one again, after an effect has ended it",
	"linelog/lock.go":         "waits for a lock, which nothing can interrupt; ends with it, and closes its descriptor if nobody waits any more",
	"linelog/watch.go":        "one per log that is watched, asleep until its file is renamed; Close joins it",
	"internal/ingest/":        "one per socket or stdout connection, closers of passed descriptors; Run joins them",
	"internal/store/":         "the janitor and the archiver, joined by Close; workers that a call joins",
	"internal/web/outbox.go":  "ends the settler that sends answers, and sends what a client has no room for; Serve joins them, for as long as it waits for requests",
	"internal/query/":         "workers that share a scan; joined before it ends",
	"internal/remote/":        "closes idle files and archives others, joined by Close; workers that a call joins",
	"internal/funnel/":        "closes an idle file, after a timer; closes all, joined by Close",
	"internal/control/":       "one per connection; Serve joins them",
	"internal/daemon/":        "parts, signals and watchdog; joined before the daemon returns",
	"internal/demo/":          "readers of the processes it starts, and load; joined before it returns",
	"internal/selfbench/":     "callers, readers and servers under measurement; joined before the round is counted",
	"cmd/tidemark/import.go":  "reads ahead of the writer; joined before the verb returns",
	"cmd/tidemark/signals.go": "gives the next signal back to the kernel; ends with the process",
	"cmd/tidemark/child.go":   "reads a command's stderr; joined before the exit code is taken",
	"cmd/tidemark/send.go":    "makes the calls of --ack; joined before the exit code is taken",
	"internal/slowfs/":        "the reader of what is typed, which ends with the process; a guard that its Close stops",
	"examples/loggers/":       "three callers; joined before it returns",
	"bench/":                  "drivers, not part of the program",

	"cmd/tidemark/append_source.go": "opens the log again at HUP, rotates it at ALRM; joined before the verb returns",
}

// checkGo is the rule of where a goroutine may begin: by a go statement, by the
// Go method of a group, or by time.AfterFunc. (context.AfterFunc is a hook that
// its caller takes back, as net.Conn deadlines need.)
func checkGo(all []*source) (bad []string) {
	used := map[string]bool{}
	for _, s := range all {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			what := begins(s, n)
			if what == "" {
				return true
			}
			for key := range mayGo {
				if s.path == key || strings.HasSuffix(key, "/") && strings.HasPrefix(s.path, key) {
					used[key] = true
					return true
				}
			}
			bad = append(bad, fmt.Sprintf("%s: %s: who ends this goroutine? Let a settler, or a caller that joins it, do the work; else add the file and the answer to mayGo in internal/arch/goroutines_test.go", s.at(n.Pos()), what))
			return true
		})
	}
	for _, key := range slices.Sorted(maps.Keys(mayGo)) {
		if !used[key] {
			bad = append(bad, fmt.Sprintf("mayGo in internal/arch/goroutines_test.go allows %s, where no goroutine begins: remove it", key))
		}
	}
	return bad
}

// begins says in which way a node begins a goroutine, or nothing.
func begins(s *source, n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.CallExpr:
		if s.selects(n.Fun, "time", "AfterFunc") {
			return "time.AfterFunc"
		}
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" && len(n.Args) == 1 {
			return "call of Go"
		}
	}
	return ""
}
