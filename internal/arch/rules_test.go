package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ruleCase is a source that breaks a rule, or a neighbour that does not.
type ruleCase struct {
	name, path, text string
	rule             func([]*source) []string
	want             string // part of the one complaint; empty: there is none
}

// TestRulesNotice holds each rule against sources that break it, and against
// neighbours that do not. The complaints about stale entries of the tables are
// left out.
func TestRulesNotice(t *testing.T) {
	for _, tt := range slices.Concat(floorCases(), blindCases(), sizeCases(), goCases(), globalCases(), wordCases(), commentCases()) {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parseSource(tt.path, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, bad := range tt.rule([]*source{s}) {
				if !strings.HasPrefix(bad, "may") {
					got = append(got, bad)
				}
			}
			expect(t, got, tt.want)
		})
	}
}

func floorCases() []ruleCase {
	return []ruleCase{
		{"store imports ingest", "internal/store/x.go", `package store; import _ "` + module + `/internal/ingest"`, checkFloors, "is on floor 2"},
		{"journal imports store", "journal/x.go", `package journal; import _ "` + module + `/internal/store"`, checkFloors, "is on floor 2"},
		{"journal imports settle", "journal/x.go", `package journal; import _ "` + module + `/settle"`, checkFloors, ""},
		{"journal imports its child", "journal/x.go", `package journal; import _ "` + module + `/journal/internal/object"`, checkFloors, ""},
		{"child imports parent", "journal/internal/object/x.go", `package object; import _ "` + module + `/journal"`, checkFloors, "imports neither"},
		{"test imports a fake of its floor", "journal/x_test.go", `package journal; import _ "` + module + `/internal/vfs/crashfs"`, checkFloors, ""},
		{"program imports a fake", "journal/x.go", `package journal; import _ "` + module + `/internal/vfs/crashfs"`, checkFloors, "is for tests"},
		{"program high up imports a fake", "internal/daemon/x.go", `package daemon; import _ "` + module + `/internal/sockdir"`, checkFloors, "is for tests"},
		{"program imports slowfs", "internal/store/x.go", `package store; import _ "` + module + `/internal/slowfs"`, checkFloors, "is for tests"},
		{"test imports slowfs", "journal/x_test.go", `package journal; import _ "` + module + `/internal/slowfs"`, checkFloors, ""},
		{"slowfs's command imports it", "internal/slowfs/cmd/slowfs/x.go", `package main; import _ "` + module + `/internal/slowfs"`, checkFloors, ""},
		{"go-fuse elsewhere", "internal/daemon/x.go", `package daemon; import _ "github.com/hanwen/go-fuse/v2/fs"`, checkFloors, "only internal/slowfs may"},
		{"test high up imports a fake", "internal/daemon/x_test.go", `package daemon; import _ "` + module + `/internal/sockdir"`, checkFloors, ""},
		{"unknown package", "internal/new/x.go", `package new`, checkFloors, "has no floor"},
		{"import of an unknown package", "cmd/tidemark/x.go", `package main; import _ "` + module + `/internal/new"`, checkFloors, "has no floor"},
		{"settle imports os", "settle/x.go", `package settle; import _ "os"`, checkFloors, "stay free of os"},
		{"settle imports a library", "settle/x.go", `package settle; import _ "golang.org/x/sys/unix"`, checkFloors, "standard library only"},
		{"journal imports net/http", "journal/x.go", `package journal; import _ "net/http"`, checkFloors, "stay free of net"},
		{"linelog imports log", "linelog/x.go", `package linelog; import _ "log"`, checkFloors, "stay free of log"},
		{"linelog imports log/slog", "linelog/x.go", `package linelog; import _ "log/slog"`, checkFloors, ""},
		{"cobra in a library", "journal/x.go", `package journal; import _ "github.com/spf13/cobra"`, checkFloors, "only cmd/tidemark may"},
		{"cgo", "journal/x.go", `package journal; import "C"`, checkFloors, "no cgo"},
	}
}

func sizeCases() []ruleCase {
	long := func(n int) string { return "func f() {\n" + strings.Repeat("\t_ = 0\n", n-2) + "}\n" }
	return []ruleCase{
		{"long file", "entry/x.go", "package x\n" + strings.Repeat("//\n", maxFileLines), checkSize, "has 501 lines"},
		{"long enough file", "entry/x.go", "package x\n" + strings.Repeat("//\n", maxFileLines-1), checkSize, ""},
		{"long test", "entry/x_test.go", "package x\n" + strings.Repeat("//\n", 2000), checkSize, ""},
		{"long func", "entry/x.go", "package x\n" + long(maxFuncLines+1), checkSize, "func f has 71 lines"},
		{"long enough func", "entry/x.go", "package x\n" + long(maxFuncLines), checkSize, ""},
	}
}

func goCases() []ruleCase {
	return []ruleCase{
		{"go statement", "entry/x.go", "package x\nfunc f() { go f() }", checkGo, "go statement"},
		{"group", "entry/x.go", "package x\nfunc f(g G) { g.Go(func() {}) }", checkGo, "call of Go"},
		{"timer", "entry/x.go", "package x\nimport \"time\"\nfunc f() { time.AfterFunc(0, f) }", checkGo, "time.AfterFunc"},
		{"allowed", "internal/store/x.go", "package x\nfunc f() { go f() }", checkGo, ""},
	}
}

func globalCases() []ruleCase {
	return []ruleCase{
		{"init", "entry/x.go", "package x\nfunc init() {}", checkGlobals, "func init"},
		{"method init", "entry/x.go", "package x\nfunc (T) init() {}", checkGlobals, ""},
		{"without a value", "entry/x.go", "package x\nvar n int", checkGlobals, "has no value"},
		{"assigned", "entry/x.go", "package x\nvar n = 1\nfunc f() { n = 2 }", checkGlobals, "is written to"},
		{"counted", "entry/x.go", "package x\nvar n = 1\nfunc f() { n++ }", checkGlobals, "is written to"},
		{"element assigned", "entry/x.go", "package x\nvar m = map[int]int{}\nfunc f() { m[1] = 2 }", checkGlobals, "is written to"},
		{"address taken", "entry/x.go", "package x\nvar n = 1\nfunc f() { g(&n) }", checkGlobals, "is written to"},
		{"deleted from", "entry/x.go", "package x\nvar m = map[int]int{}\nfunc f() { delete(m, 1) }", checkGlobals, "is written to"},
		{"a local of the same name", "entry/x.go", "package x\nvar n = 1\nfunc f() { n := 2; n++ }", checkGlobals, ""},
		{"mutex", "entry/x.go", "package x\nvar mu = sync.Mutex{}", checkGlobals, "is a sync.Mutex"},
		{"pointer", "entry/x.go", "package x\nvar p = &T{}", checkGlobals, "points to"},
		{"made map", "entry/x.go", "package x\nvar m = make(map[int]int)", checkGlobals, "is made to be filled"},
		{"error", "entry/x.go", "package x\nvar ErrX = &T{}", checkGlobals, ""},
		{"table", "entry/x.go", "package x\nvar names = [...]string{\"a\"}\nfunc f() string { return names[0] }", checkGlobals, ""},
		{"assertion", "entry/x.go", "package x\nvar _ I = (*T)(nil)", checkGlobals, ""},
		{"embedded", "entry/x.go", "package x\n//go:embed a.txt\nvar text string", checkGlobals, ""},
	}
}

func wordCases() []ruleCase {
	return []ruleCase{
		{"directory", "internal/util/x.go", "package x", checkNames, `"util" says nothing`},
		{"package clause", "internal/x/x.go", "package helpers", checkNames, `"helpers" says nothing`},
		{"root", "x.go", "package x", checkNames, "no package at the root"},

		{"sleep", "entry/x.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }", checkSleep, "time.Sleep"},
		{"sleep by another name", "entry/x.go", "package x\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }", checkSleep, "time.Sleep"},
		{"sleep of the system", "entry/x.go", "package x\nimport \"golang.org/x/sys/unix\"\nfunc f() { unix.Nanosleep(nil, nil) }", checkSleep, "unix.Nanosleep"},
		{"sleep in a test", "entry/x_test.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }", checkSleep, ""},
		{"sleep in bench", "bench/x.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }", checkSleep, ""},

		{"promise", "entry/x.go", "package x\n// TO" + "DO: more", checkPromises, "in a comment"},
		{"silent skip", "entry/x_test.go", "package x\nfunc f(t T) { t.SkipNow() }", checkPromises, "says why"},
		{"skip with a reason", "entry/x_test.go", "package x\nfunc f(t T) { t.Skip(\"no root\") }", checkPromises, ""},
		{"a reader skips", "entry/x_test.go", "package x\nfunc f(r T) { r.Skip() }", checkPromises, ""},
	}
}

func commentCases() []ruleCase {
	const doc = "// Package x is x.\npackage x\n"
	return []ruleCase{
		{"no package comment", "entry/x.go", "package x", checkComments, "no package comment"},
		{"func", "entry/x.go", doc + "func F() {}", checkComments, "F is exported"},
		{"method", "entry/x.go", doc + "func (t *T[K]) F() {}", checkComments, "F is exported"},
		{"method of an unexported type", "entry/x.go", doc + "func (t *t) F() {}", checkComments, ""},
		{"type", "entry/x.go", doc + "type T int", checkComments, "T is exported"},
		{"const", "entry/x.go", doc + "const a, B = 1, 2", checkComments, "B is exported"},
		{"consts with one comment", "entry/x.go", doc + "// Limits.\nconst (\n\tA = 1\n\tB = 2\n)", checkComments, ""},
		{"line comment", "entry/x.go", doc + "const (\n\tA = 1 // one\n)", checkComments, ""},
		{"explained", "entry/x.go", doc + "// F is f.\nfunc F() {}", checkComments, ""},
	}
}

func TestStaleLeaveIsNoticed(t *testing.T) {
	if n := len(checkGo(nil)); n != len(mayGo) {
		t.Errorf("%d complaints about %d unused entries of mayGo", n, len(mayGo))
	}
	if n := len(checkGlobals(nil)); n != len(mayChange) {
		t.Errorf("%d complaints about %d unused entries of mayChange", n, len(mayChange))
	}
}

func TestDocumentRulesNotice(t *testing.T) {
	s, err := parseSource("cmd/tidemark/x.go", "package main\nvar a = C{Use: \"serve [flags]\"}\nvar r = C{Use: \"tidemark\"}\nvar b = newShortCmd(\"rotate\", 1)\nvar c = other(\"no\")")
	if err != nil {
		t.Fatal(err)
	}
	names := verbs([]*source{s})
	if fmt.Sprint(names) != "[rotate serve]" {
		t.Errorf("verbs = %v, want [rotate serve]", names)
	}
	names = names[1:]
	expect(t, checkVerbs(names, "run `tidemark serve`"), "")
	expect(t, checkVerbs(names, "| `serve` | the daemon |"), "")
	expect(t, checkVerbs(names, "we serve everybody"), "tidemark serve")

	page := "```\ntidemark/\n├── a/   one\n│     internal/b/   two\n└── c/d/ three\n```\n   x/ not drawn\n"
	there := func(paths ...string) func(string) bool {
		return func(p string) bool { return strings.Contains(" "+strings.Join(paths, " ")+" ", " "+p+" ") }
	}
	expect(t, checkPicture([]string{"a", "a/internal/b", "c/d"}, page, there("a", "a/internal/b", "c/d")), "")
	expect(t, checkPicture([]string{"x"}, page, there("a", "a/internal/b", "c/d")), "does not draw x")
	expect(t, checkPicture(nil, page, there("a", "a/internal/b")), "draws c/d")

	expect(t, checkLinks("docs/A.md", "[b](B.md#part) [c](https://x/y) [d](#here)", there("docs/B.md")), "")
	expect(t, checkLinks("docs/A.md", "[b](../B.md)", there("docs/B.md")), "links to B.md")

	expect(t, checkOrder("A.md", "## 2026-12-02 B\n## 2026-12-02 C\n### D\n## 2026-12-01 E\n"), "")
	expect(t, checkOrder("A.md", "## 2026-12-01 B\n## 2026-12-02 C\n"), `"C" is newer`)
	expect(t, checkOrder("A.md", "## 2026-12-01 B\n## C\n"), `"C" has no date`)
	expect(t, checkOrder("A.md", "B\n"), "no heading has a date")
	expect(t, checkTargets("test:\n\tgo test\n", map[string]string{"A.md": "    make test\n`make test` tests; we make trouble"}), "")
	expect(t, checkTargets("test:\n\tgo test\n", map[string]string{"A.md": "```\nmake test\nmake more\n```"}), "says `make more`")
	expect(t, checkTargets("test:\nmore:\n", map[string]string{"A.md": "`make test`"}), "`make more` is for")
	expect(t, checkTargets(strings.Repeat("\n", 41), nil), "has 41 lines")
}

// expect wants one complaint that contains want, or none.
func expect(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("complains: %q", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("complains: %q, want one complaint with %q", got, want)
	}
}
