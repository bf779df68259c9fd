package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// mayChange lists package-level variables that hold state, and why that is no
// state of the program.
var mayChange = map[string]string{
	"journal/internal/blob.decoders": "a pool: whoever takes from it cannot tell what was in it",
	"journal.spares":                 "a pool: whoever takes from it cannot tell what was in it",
	"journal/internal/blob.encoders": "a pool: whoever takes from it cannot tell what was in it",
}

// checkGlobals is the rule against init and package-level variables that change.
// A variable may stand there if it is an error, a compiled pattern, embedded, or
// a table that nobody writes to.
func checkGlobals(all []*source) (bad []string) {
	byDir := map[string][]*source{}
	for _, s := range all {
		if !s.test {
			byDir[s.dir] = append(byDir[s.dir], s)
		}
	}
	used := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		written := writtenGlobals(byDir[dir])
		for _, s := range byDir[dir] {
			for _, d := range s.file.Decls {
				bad = append(bad, checkGlobalDecl(s, d, written, used)...)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(mayChange)) {
		if !used[key] {
			bad = append(bad, fmt.Sprintf("mayChange in internal/arch/globals_test.go names %s, which is not there or needs no leave: remove it", key))
		}
	}
	return bad
}

func checkGlobalDecl(s *source, d ast.Decl, written map[string]string, used map[string]bool) (bad []string) {
	if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
		bad = append(bad, fmt.Sprintf("%s: func init: nothing may run because a package was imported; let the caller say when", s.at(f.Pos())))
	}
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.VAR {
		return bad
	}
	for _, spec := range g.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			var value ast.Expr
			if i < len(v.Values) {
				value = v.Values[i]
			}
			why := changes(name.Name, v, value, embedded(g, v), written)
			if why == "" {
				continue
			}
			key := s.dir + "." + name.Name
			if _, ok := mayChange[key]; ok {
				used[key] = true
				continue
			}
			bad = append(bad, fmt.Sprintf("%s: var %s %s: make it a field, a parameter or a const; or add %q and a reason to mayChange in internal/arch/globals_test.go", s.at(name.Pos()), name.Name, why, key))
		}
	}
	return bad
}

// changes says why a package-level variable is or may become state, or nothing.
func changes(name string, v *ast.ValueSpec, value ast.Expr, embed bool, written map[string]string) string {
	if name == "_" {
		return ""
	}
	if where := written[name]; where != "" {
		return "is written to at " + where
	}
	if embed || strings.HasPrefix(name, "Err") || strings.HasPrefix(name, "err") {
		return ""
	}
	if value == nil {
		if _, ok := v.Type.(*ast.ArrayType); ok {
			return "" // nobody writes it: a row of zeros
		}
		return "has no value, so somebody must set it"
	}
	return holdsState(value)
}

// holdsState says why the value of a variable that is never written to can change
// all the same, or nothing.
func holdsState(value ast.Expr) string {
	switch x := value.(type) {
	case *ast.UnaryExpr:
		if x.Op == token.AND {
			return "points to something that can change"
		}
	case *ast.CompositeLit:
		if sel, ok := x.Type.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && (id.Name == "sync" || id.Name == "atomic" || id.Name == "bytes") {
				return "is a " + id.Name + "." + sel.Sel.Name
			}
		}
	case *ast.CallExpr:
		if id, ok := x.Fun.(*ast.Ident); ok && (id.Name == "make" || id.Name == "new") {
			return "is made to be filled"
		}
	}
	return ""
}

// embedded tells whether a variable is filled by the compiler.
func embedded(g *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, c := range []*ast.CommentGroup{g.Doc, v.Doc} {
		if c == nil {
			continue
		}
		for _, line := range c.List {
			if strings.HasPrefix(line.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// writtenGlobals finds the package-level variables of a package that are assigned
// to, counted up, or whose address is taken, and where.
func writtenGlobals(pkg []*source) map[string]string {
	globals := map[string]bool{}
	for _, s := range pkg {
		for _, d := range s.file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						for _, n := range v.Names {
							globals[n.Name] = true
						}
					}
				}
			}
		}
	}
	written := map[string]string{}
	for _, s := range pkg {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			w := &writes{s: s, globals: globals, locals: localNames(f), written: written}
			ast.Inspect(f.Body, w.visit)
		}
	}
	return written
}

// writes collects the writes of one function to package-level variables.
type writes struct {
	s       *source
	globals map[string]bool
	locals  map[string]bool // names the function declares anywhere: those are not the globals
	written map[string]string
}

func (w *writes) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, x := range n.Lhs {
				w.note(x)
			}
		}
	case *ast.IncDecStmt:
		w.note(n.X)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			w.note(n.X)
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && slices.Contains([]string{"copy", "clear", "delete"}, id.Name) {
			w.note(n.Args[0])
		}
	}
	return true
}

// note follows x.y[z] down to x.
func (w *writes) note(x ast.Expr) {
	for {
		switch y := x.(type) {
		case *ast.SelectorExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.SliceExpr:
			x = y.X
		case *ast.ParenExpr:
			x = y.X
		case *ast.Ident:
			if w.globals[y.Name] && !w.locals[y.Name] && w.written[y.Name] == "" {
				w.written[y.Name] = w.s.at(y.Pos())
			}
			return
		default: // through a pointer or a call: not the variable itself
			return
		}
	}
}

// localNames lists the names a function declares: receiver, parameters, results,
// variables.
func localNames(f *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	add := func(list *ast.FieldList) {
		if list == nil {
			return
		}
		for _, field := range list.List {
			for _, n := range field.Names {
				names[n.Name] = true
			}
		}
	}
	add(f.Recv)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			add(n.Params)
			add(n.Results)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, x := range n.Lhs {
					if id, ok := x.(*ast.Ident); ok {
						names[id.Name] = true
					}
				}
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names[id.Name] = true
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		}
		return true
	})
	return names
}
