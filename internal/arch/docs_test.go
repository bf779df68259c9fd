package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// verbs finds the verbs of cmd/tidemark: the first word of every Use of a cobra
// command but the root's, and of the first argument to a func new…Cmd.
func verbs(all []*source) (names []string) {
	for _, s := range all {
		if s.test || s.dir != "cmd/tidemark" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			use := strings.Fields(verbIn(n))
			if len(use) > 0 && use[0] != "tidemark" && !slices.Contains(names, use[0]) {
				names = append(names, use[0])
			}
			return true
		})
	}
	slices.Sort(names)
	return names
}

// verbIn returns the text of a command's use that a node holds, or nothing.
func verbIn(n ast.Node) string {
	var value ast.Expr
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Use" {
			value = n.Value
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && regexp.MustCompile(`^new\w*Cmd$`).MatchString(f.Name) {
			value = n.Args[0]
		}
	}
	lit, ok := value.(*ast.BasicLit)
	if !ok {
		return ""
	}
	use, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return use
}

// checkVerbs wants every verb in the README, as `tidemark VERB` or `VERB`.
func checkVerbs(names []string, readme string) (bad []string) {
	for _, v := range names {
		if !regexp.MustCompile("tidemark " + regexp.QuoteMeta(v) + `\b` + "|`" + regexp.QuoteMeta(v) + "[` ]").MatchString(readme) {
			bad = append(bad, fmt.Sprintf("README.md does not mention the verb: write what `tidemark %s` does", v))
		}
	}
	return bad
}

// drawn finds the directories that the picture in docs/ARCHITECTURE.md shows, as
// paths from the root. A line is a branch, or an indented child of the last one.
func drawn(page string) (dirs []string) {
	branch := regexp.MustCompile(`^[├└]── ([a-z0-9/._-]+)/ `)
	child := regexp.MustCompile(`^│? +([a-z0-9/_-]+)/ `)
	parent := ""
	for line := range strings.Lines(page) {
		if m := branch.FindStringSubmatch(line); m != nil {
			parent = m[1]
			dirs = append(dirs, parent)
		} else if m := child.FindStringSubmatch(line); m != nil && parent != "" {
			dirs = append(dirs, path.Join(parent, m[1]))
		} else if strings.HasPrefix(line, "```") {
			parent = ""
		}
	}
	return dirs
}

// checkPicture wants every package in the picture, and nothing in it that is not
// there.
func checkPicture(pkgs []string, page string, exists func(dir string) bool) (bad []string) {
	dirs := drawn(page)
	for _, p := range pkgs {
		if !slices.Contains(dirs, p) {
			bad = append(bad, fmt.Sprintf("docs/ARCHITECTURE.md does not draw %s: add a line `├── %s/  what it is`", p, p))
		}
	}
	for _, d := range dirs {
		if !exists(d) {
			bad = append(bad, fmt.Sprintf("docs/ARCHITECTURE.md draws %s, which is not there: remove the line, or build it", d))
		}
	}
	return bad
}

// checkLinks wants every relative link of a page to lead somewhere.
func checkLinks(page, text string, exists func(path string) bool) (bad []string) {
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		if full := path.Join(path.Dir(page), target); !exists(full) {
			bad = append(bad, fmt.Sprintf("%s links to %s, which is not there", page, full))
		}
	}
	return bad
}

// checkOrder wants a date in every heading of the second level, none later than that
// of the one before.
func checkOrder(page, text string) (bad []string) {
	before := ""
	for _, m := range regexp.MustCompile(`(?m)^## (\d{4}-\d\d-\d\d )?(.*)$`).FindAllStringSubmatch(text, -1) {
		date, what := m[1], m[2]
		switch {
		case date == "":
			bad = append(bad, fmt.Sprintf("%s: %q has no date: write it as `## 2026-11-30 What was decided`", page, what))
			continue
		case before != "" && date > before:
			bad = append(bad, fmt.Sprintf("%s: %q is newer than what stands before it: the newest is first", page, what))
		}
		before = date
	}
	if before == "" {
		bad = append(bad, page+": no heading has a date")
	}
	return bad
}

// maxMakefile is how many lines the Makefile has at most: what takes more is a script.
const maxMakefile = 40

// checkTargets wants every target of the Makefile in docs/TESTING.md or
// CONTRIBUTING.md, and every `make TARGET` in a page to be a target.
func checkTargets(makefile string, pages map[string]string) (bad []string) {
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z]+):`).FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, m[1])
	}
	if n := strings.Count(makefile, "\n"); n > maxMakefile {
		bad = append(bad, fmt.Sprintf("Makefile has %d lines, more than %d: make the longest recipe a script in .ci", n, maxMakefile))
	}
	mentioned := map[string]bool{}
	for _, page := range slices.Sorted(keys(pages)) {
		for _, m := range regexp.MustCompile(`\bmake (?:-s )?([a-z]+)\b`).FindAllStringSubmatch(quoted(pages[page]), -1) {
			mentioned[m[1]] = true
			if !slices.Contains(targets, m[1]) {
				bad = append(bad, fmt.Sprintf("%s says `make %s`, and Makefile has no such target", page, m[1]))
			}
		}
	}
	for _, target := range targets {
		if !mentioned[target] {
			bad = append(bad, fmt.Sprintf("no page says what `make %s` is for: add it to docs/TESTING.md", target))
		}
	}
	return bad
}

// quoted returns what stands between back quotes or in fenced or indented blocks;
// in running text "make" is a verb.
func quoted(text string) string {
	return strings.Join(regexp.MustCompile("(?s)```.*?```|`[^`\n]+`|(?m:^    [^\n]*$)").FindAllString(text, -1), "\n")
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// pages reads every page of the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			rel, err := filepath.Rel(root, p)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.ToSlash(rel)] = readText(t, filepath.ToSlash(rel))
		}
	}
	return texts
}

// exists tells whether a path of the repository is there.
func exists(rel string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(rel)))
	return err == nil
}
