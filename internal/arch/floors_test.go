package arch

import (
	"fmt"
	"slices"
	"strings"
)

// floors says how high each package stands. A package imports lower floors only,
// and its own internal/ children, which stand on its floor and import neither it
// nor each other. docs/ARCHITECTURE.md draws the same picture.
var floors = map[string]int{
	"settle":             0,
	"entry":              0,
	"internal/vfs":       0,
	"internal/histogram": 0,
	"internal/namewatch": 0,
	"internal/flavour":   0,

	"journal":              1,
	"linelog":              1,
	"internal/vfs/crashfs": 1,
	"internal/vfs/hookfs":  1,
	"internal/sockdir":     1,
	"internal/config":      1,

	"internal/ingest": 2,
	"internal/store":  2,
	"internal/remote": 2,
	"internal/funnel": 2,
	"internal/follow": 2,
	"internal/query":  2,
	"internal/render": 2,

	"internal/control": 3,
	"internal/web":     3,

	"internal/daemon": 4,
	"internal/demo":   4,

	"internal/selfbench": 4,

	"cmd/tidemark": 5,

	// Beside the house: they look at all of it, and nothing of it imports them.
	"internal/arch":              9,
	"internal/compat":            9,
	"internal/faults":            9,
	"internal/slowfs":            9,
	"internal/slowfs/cmd/slowfs": 9,
	"examples/install":           9,
}

// children says which children of a package may import which others.
var children = map[string][]string{
	"journal/internal/blob": {"journal/internal/object"}, // flags that name a compression
}

// fakes may be imported by any test, and by tests only.
var fakes = []string{"internal/vfs/crashfs", "internal/vfs/hookfs", "internal/sockdir", "internal/slowfs"}

// barred lists what a package must not import although its floor would allow it:
// import paths, or "…/" for all below, or "=…" for none below. "std" allows the
// standard library only.
var barred = map[string][]string{
	"settle":          {"std", "os/", "syscall", "net/", "io/"},                   // schedules; an effect is a func
	"entry":           {"std", "os/", "syscall", "net/"},                          // no I/O
	"journal":         {"net/", "=log"},                                           // files only; a handler for log/slog
	"linelog":         {"net/http", "=log", module + "/entry"},                    // lines, of whatever they are; a handler, too
	"internal/config": {"net/"},                                                   //
	"internal/query":  {"net/", module + "/settle"},                               // reads files, waits for nothing
	"internal/render": {"net/", module + "/settle", module + "/journal/internal"}, // entries in, text out
}

// landlords says which packages may import a library that is heavy or that a
// library's user must not be made to build.
var landlords = map[string][]string{
	"github.com/spf13/cobra":                 {"cmd/tidemark"},
	"github.com/spf13/pflag":                 {"cmd/tidemark"},
	"github.com/prometheus/client_golang":    {}, // the same
	"github.com/prometheus/common":           {},
	"github.com/coreos/go-systemd":           {"internal/daemon", "cmd/tidemark"},
	"github.com/klauspost/compress":          {"journal/internal/blob", "linelog", "internal/web"},
	"github.com/ulikunitz/xz":                {"journal/internal/blob", "internal/web"},
	"github.com/pierrec/lz4":                 {"journal/internal/blob", "internal/web"},
	"github.com/mattn/go-runewidth":          {}, // tests only: its start costs every command
	"golang.org/x/term":                      {"internal/render", "cmd/tidemark"},
	"github.com/google/go-cmp":               {}, // tests only, as the rest
	"github.com/rogpeppe/go-internal":        {},
	"pgregory.net/rapid":                     {},
	"go.uber.org/goleak":                     {},
	"github.com/hanwen/go-fuse":              {"internal/slowfs"},
	"github.com/coreos/go-systemd/sdjournal": {}, // cgo
}

// otherModules have a go.mod of their own: what they need burdens nobody else.
var otherModules = []string{"bench", "examples/loggers"}

// under tells whether path is dir or below it.
func under(path, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// landlord returns the public package that an internal/ child belongs to, or the
// package itself.
func landlord(pkg string) string {
	if before, _, ok := strings.Cut(pkg, "/internal/"); ok {
		return before
	}
	return pkg
}

// checkFloors is the rule of the floors.
func checkFloors(all []*source) (bad []string) {
	for _, s := range all {
		if !s.inModule() {
			continue
		}
		if _, ok := floors[landlord(s.dir)]; !ok {
			bad = append(bad, fmt.Sprintf("%s: package %s has no floor: add it to floors in internal/arch/floors_test.go and to docs/ARCHITECTURE.md", s.path, s.dir))
			continue
		}
		for _, path := range s.imports() {
			bad = append(bad, checkImport(s, path)...)
		}
	}
	return bad
}

func checkImport(s *source, path string) (bad []string) {
	complain := func(format string, args ...any) {
		bad = append(bad, fmt.Sprintf("%s imports %s: ", s.path, path)+fmt.Sprintf(format, args...))
	}
	if path == "C" {
		complain("no cgo")
	}
	if pkg, ok := strings.CutPrefix(path, module+"/"); ok {
		if why := tooHigh(s, pkg); why != "" {
			complain("%s", why)
		}
	} else if strings.Contains(strings.Split(path, "/")[0], ".") && !s.test {
		for library, tenants := range landlords {
			if under(path, library) && !underAny(s.dir, tenants) {
				complain("only %s may; hand the work to it, or extend landlords in internal/arch/floors_test.go with a reason", list(tenants))
			}
		}
	}
	if s.test {
		return bad
	}
	for _, no := range barred[s.dir] {
		switch {
		case no == "std":
			if strings.Contains(strings.Split(path, "/")[0], ".") && !under(path, module) {
				complain("%s is to need the standard library only", s.dir)
			}
		case path == strings.TrimPrefix(no, "="), under(path, no):
			complain("%s is to stay free of %s", s.dir, strings.TrimPrefix(no, "="))
		}
	}
	return bad
}

// tooHigh says why a package of the module may not be imported by s, or nothing.
func tooHigh(s *source, pkg string) string {
	mine, theirs := floors[landlord(s.dir)], floors[landlord(pkg)]
	_, known := floors[landlord(pkg)]
	switch {
	case !known:
		return "it has no floor: add it to floors in internal/arch/floors_test.go"
	case pkg == s.dir:
		return "" // an external test of the package
	case underAny(pkg, fakes):
		if s.test || underAny(s.dir, fakes) {
			return ""
		}
		return "it is for tests: the program is not to need it"
	case landlord(pkg) == s.dir && pkg != s.dir:
		return "" // its own internal child
	case s.test && landlord(pkg) == landlord(s.dir):
		return "" // a child's test may hold it against its parent or a sibling
	case slices.Contains(children[s.dir], pkg):
		return ""
	case landlord(pkg) == landlord(s.dir):
		return "a child of " + landlord(pkg) + " imports neither it nor its other children: extend children in internal/arch/floors_test.go if one is clearly below the other"
	case theirs >= mine:
		return fmt.Sprintf("%s is on floor %d, %s on floor %d; only lower floors may be imported: let the consumer declare an interface, or wire the two higher up", landlord(pkg), theirs, landlord(s.dir), mine)
	}
	return ""
}

func underAny(path string, dirs []string) bool {
	for _, d := range dirs {
		if under(path, d) {
			return true
		}
	}
	return false
}

func list(names []string) string {
	if len(names) == 0 {
		return "tests"
	}
	return strings.Join(names, " and ")
}
