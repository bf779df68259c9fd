package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tidemark-log/tidemark"

// source is one Go file.
type source struct {
	path  string // from the root of the repository, with slashes
	dir   string // directory of path; "." is the root
	test  bool   // name ends in _test.go
	lines int
	fset  *token.FileSet
	file  *ast.File
	text  string
}

// at names a place as an editor understands it.
func (s *source) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(p).Line)
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// inModule tells whether the file belongs to the main module.
func (s *source) inModule() bool { return !underAny(s.dir, otherModules) }

// parseSource parses one file; it accepts every build tag.
func parseSource(path, text string) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	dir, name := filepath.Split(path)
	dir = strings.TrimSuffix(dir, "/")
	if dir == "" {
		dir = "."
	}
	return &source{
		path:  path,
		dir:   dir,
		test:  strings.HasSuffix(name, "_test.go"),
		lines: strings.Count(text, "\n"),
		fset:  fset,
		file:  file,
		text:  text,
	}, nil
}

// root is the root of the repository, seen from this package.
const root = "../.."

// readAll reads every Go file of the repository but those that are data.
func readAll(t *testing.T) []*source {
	t.Helper()
	var all []*source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "testdata", "bin"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s, err := parseSource(filepath.ToSlash(rel), string(text))
		if err != nil {
			return err
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// readText reads a file of the repository.
func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// packages lists the directories of the main module that hold Go files.
func packages(all []*source) []string {
	var dirs []string
	for _, s := range all {
		if s.inModule() && !slices.Contains(dirs, s.dir) {
			dirs = append(dirs, s.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// imports lists what a file imports.
func (s *source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		paths = append(paths, strings.Trim(i.Path.Value, `"`))
	}
	return paths
}

// selects tells whether n is the name of an imported package and a selector, as
// in time.Sleep.
func (s *source) selects(n ast.Node, importPath, name string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return false
	}
	for _, i := range s.file.Imports {
		if strings.Trim(i.Path.Value, `"`) != importPath {
			continue
		}
		local := importPath[strings.LastIndex(importPath, "/")+1:]
		if i.Name != nil {
			local = i.Name.Name
		}
		return id.Name == local
	}
	return false
}
