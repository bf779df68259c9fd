package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// blind lists packages that get their files from others as descriptors, and never
// lead the program to a path or start another: what they are handed is a client's.
var blind = map[string]string{
	"internal/funnel": "the daemon opens no path for a client, and forks nothing: take the descriptors that it has passed",
}

// leading are, by import path, what opens or changes what a path leads to, or starts a
// program; "*" is everything.
var leading = map[string][]string{
	"os": {
		"Open", "OpenFile", "OpenInRoot", "OpenRoot", "Create", "CreateTemp", "ReadFile", "WriteFile", "ReadDir", "DirFS", "CopyFS",
		"Mkdir", "MkdirAll", "MkdirTemp", "Rename", "Remove", "RemoveAll", "Link", "Symlink", "Truncate", "Chdir",
		"Chmod", "Chown", "Lchown", "Chtimes", "StartProcess",
	},
	"golang.org/x/sys/unix": {
		"Open", "Openat", "Openat2", "OpenTree", "Creat", "Mknod", "Mknodat", "Mkdir", "Mkdirat", "Rename", "Renameat", "Renameat2",
		"Unlink", "Unlinkat", "Rmdir", "Link", "Linkat", "Symlink", "Symlinkat", "Truncate", "Chdir", "Chmod", "Fchmodat", "Chown", "Lchown", "Fchownat",
		"Exec", "Syscall", "Syscall6", "RawSyscall", "RawSyscall6",
	},
	"syscall": {
		"Open", "Openat", "Creat", "Mknod", "Mkdir", "Rename", "Unlink", "Rmdir", "Link", "Symlink", "Truncate", "Chdir", "Chmod", "Chown",
		"Exec", "ForkExec", "StartProcess", "Syscall", "Syscall6", "RawSyscall", "RawSyscall6",
	},
	"io/ioutil":              {"*"},
	"os/exec":                {"*"},
	"plugin":                 {"*"},
	module + "/linelog":      {"Open", "Dial"},
	module + "/internal/vfs": {"OS", "MakeDirs"},
}

// checkBlind is the rule for those packages.
func checkBlind(all []*source) (bad []string) {
	for _, s := range all {
		why, ok := blind[s.dir]
		if !ok || s.test {
			continue
		}
		complain := func(where, what string) {
			bad = append(bad, fmt.Sprintf("%s: %s in %s: %s", where, what, s.dir, why))
		}
		for _, path := range s.imports() {
			if slices.Equal(leading[path], []string{"*"}) {
				complain(s.path, path)
			}
		}
		for _, i := range s.file.Imports {
			if path := strings.Trim(i.Path.Value, `"`); i.Name != nil && i.Name.Name == "." && leading[path] != nil {
				complain(s.at(i.Pos()), path+" without a name")
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for path, names := range leading {
				for _, name := range names {
					if s.selects(n, path, name) {
						complain(s.at(n.Pos()), path+"."+name)
					}
				}
			}
			return true
		})
	}
	return bad
}

func blindCases() []ruleCase {
	const dir = "internal/funnel/x.go"
	return []ruleCase{
		{"funnel opens", dir, "package x\nimport \"os\"\nfunc f() { os.Open(\"\") }", checkBlind, "os.Open in internal/funnel"},
		{"funnel opens by another name", dir, "package x\nimport u \"golang.org/x/sys/unix\"\nfunc f() { u.Openat2(0, \"\", nil) }", checkBlind, "unix.Openat2 in"},
		{"funnel hands on what opens", dir, "package x\nimport \"os\"\nvar f = os.OpenFile", checkBlind, "os.OpenFile in"},
		{"funnel opens by the system's number", dir, "package x\nimport \"syscall\"\nfunc f() { syscall.RawSyscall(2, 0, 0, 0) }", checkBlind, "syscall.RawSyscall in"},
		{"funnel opens a log", dir, "package x\nimport \"" + module + "/linelog\"\nfunc f() { linelog.Open(\"\", linelog.Options{}) }", checkBlind, "linelog.Open in"},
		{"funnel opens through vfs", dir, "package x\nimport \"" + module + "/internal/vfs\"\nvar f vfs.OS", checkBlind, "vfs.OS in"},
		{"funnel forks", dir, "package x\nimport _ \"os/exec\"", checkBlind, "os/exec in"},
		{"funnel imports without a name", dir, "package x\nimport . \"os\"", checkBlind, "os without a name"},
		{"funnel takes descriptors", dir, "package x\nimport \"os\"\nvar f = os.NewFile(3, \"\")", checkBlind, ""},
		{"funnel's test opens", "internal/funnel/x_test.go", "package x\nimport \"os\"\nvar f = os.Open", checkBlind, ""},
		{"store opens", "internal/store/x.go", "package x\nimport \"os\"\nvar f = os.Open", checkBlind, ""},
	}
}
