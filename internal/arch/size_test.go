package arch

import (
	"fmt"
	"go/ast"
)

// Limits on what is part of the program and not a test, comments included. A
// reader holds that much.
const (
	maxFileLines = 500
	maxFuncLines = 70
)

// checkSize is the rule of file and function length.
func checkSize(all []*source) (bad []string) {
	for _, s := range all {
		if s.test || !s.inModule() {
			continue
		}
		if s.lines > maxFileLines {
			bad = append(bad, fmt.Sprintf("%s has %d lines, more than %d: split it by noun", s.path, s.lines, maxFileLines))
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > maxFuncLines {
				bad = append(bad, fmt.Sprintf("%s: func %s has %d lines, more than %d: give its parts names", s.at(f.Pos()), f.Name.Name, n, maxFuncLines))
			}
		}
	}
	return bad
}
