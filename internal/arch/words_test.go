package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// sayNothing are package names that say nothing about what is inside.
var sayNothing = []string{
	"util", "utils", "common", "helper", "helpers", "types", "misc", "base", "core",
	"lib", "pkg", "manager", "service", "services", "handler", "handlers", "shared", "tools",
}

// checkNames is the rule of package names.
func checkNames(all []*source) (bad []string) {
	seen := map[string]bool{}
	for _, s := range all {
		if s.dir == "." {
			bad = append(bad, fmt.Sprintf("%s: there is no package at the root", s.path))
		}
		for _, name := range append(strings.Split(s.dir, "/"), s.file.Name.Name) {
			if slices.Contains(sayNothing, name) && !seen[s.dir+name] {
				seen[s.dir+name] = true
				bad = append(bad, fmt.Sprintf("%s: %q says nothing about what is inside: name it after what it holds", s.path, name))
			}
		}
	}
	return bad
}

// checkSleep is the rule against waiting for time to pass.
func checkSleep(all []*source) (bad []string) {
	for _, s := range all {
		if s.test || !s.inModule() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, call := range []string{"time.Sleep", "time.Tick", "syscall.Nanosleep", "golang.org/x/sys/unix.Nanosleep", "golang.org/x/sys/unix.ClockNanosleep"} {
				dot := strings.LastIndex(call, ".")
				if s.selects(n, call[:dot], call[dot+1:]) {
					bad = append(bad, fmt.Sprintf("%s: %s: every wait ends by a wake-up: use a channel, a timer in a select, or a settle.Bell", s.at(n.Pos()), call))
				}
			}
			return true
		})
	}
	return bad
}

// checkPromises is the rule against leaving work in comments, and against tests
// that go without a word. The words are in two parts here, not to find themselves.
func checkPromises(all []*source) (bad []string) {
	promise := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	for _, s := range all {
		for _, g := range s.file.Comments {
			for _, c := range g.List {
				if w := promise.FindString(c.Text); w != "" {
					bad = append(bad, fmt.Sprintf("%s: %s in a comment: do it, or file an issue", s.at(c.Pos()), w))
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && s.test && (sel.Sel.Name == "SkipNow" || sel.Sel.Name == "Skip") && len(call.Args) == 0 {
				if id, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, id.Name) {
					bad = append(bad, fmt.Sprintf("%s: a test that skips says why", s.at(n.Pos())))
				}
			}
			return true
		})
	}
	return bad
}

// checkComments is the rule that what is exported, and each package, is explained.
func checkComments(all []*source) (bad []string) {
	explained := map[string]bool{}
	for _, s := range all {
		explained[s.dir] = explained[s.dir] || s.file.Doc != nil && !s.test
	}
	for _, s := range all {
		if s.test {
			continue
		}
		if !explained[s.dir] {
			explained[s.dir] = true // complain once
			bad = append(bad, fmt.Sprintf("%s: package %s has no package comment in any file", s.path, path.Base(s.dir)))
		}
		if s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			for _, id := range unexplained(d) {
				bad = append(bad, fmt.Sprintf("%s: %s is exported and has no comment: say what it does, its units, errors, and whether it may be called concurrently", s.at(id.Pos()), id.Name))
			}
		}
	}
	return bad
}

// unexplained lists the exported names of a declaration without a comment.
func unexplained(d ast.Decl) (ids []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && receiverExported(d) && !obvious(d) {
			ids = append(ids, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if d.Doc == nil && spec.Doc == nil && spec.Name.IsExported() {
					ids = append(ids, spec.Name)
				}
			case *ast.ValueSpec:
				if d.Doc != nil || spec.Doc != nil || spec.Comment != nil || d.Tok == token.IMPORT {
					continue
				}
				for _, n := range spec.Names {
					if n.IsExported() {
						ids = append(ids, n)
					}
				}
			}
		}
	}
	return ids
}

// obvious methods are what their interface says.
func obvious(f *ast.FuncDecl) bool {
	return f.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "String", "Is", "Len", "Less", "Swap"}, f.Name.Name)
}

func receiverExported(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return true
	}
	x := f.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.Ident:
			return y.IsExported()
		default:
			return true
		}
	}
}
