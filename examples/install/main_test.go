package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/funnel"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// asInstall has the test binary be the program.
const asInstall = "INSTALL_TEST_IS_INSTALL"

func TestMain(m *testing.M) {
	if os.Getenv(asInstall) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is a process of the program.
func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asInstall+"=1", "GOMAXPROCS=1")
	return c
}

// tree is a place to install to, with a METALOG that has its first line.
type tree struct{ root, metalog, source, via string }

func newTree(t *testing.T) tree {
	t.Helper()
	dir := t.TempDir()
	p := tree{root: filepath.Join(dir, "root"), metalog: filepath.Join(dir, "METALOG"), source: filepath.Join(dir, "source")}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{p.metalog: "#mtree 2.0\n", p.source: "contents\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// args are those of a process that installs into p.
func (p tree) args(args ...string) []string {
	if p.via != "" {
		args = append([]string{"-V", p.via}, args...)
	}
	return append([]string{"-U", "-M", p.metalog, "-D", p.root, "-o", "root", "-g", "wheel"}, args...)
}

// install runs the program in this process, which must succeed.
func (p tree) install(t *testing.T, args ...string) {
	t.Helper()
	var said bytes.Buffer
	if code := run(p.args(args...), &said); code != 0 {
		t.Fatalf("install %q: exit code %d: %s", args, code, said.String())
	}
}

// lines are those of the METALOG.
func (p tree) lines(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(p.metalog)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// TestLines holds a line of each kind against what FreeBSD's install writes.
func TestLines(t *testing.T) {
	p := newTree(t)
	in := func(name string) string { return filepath.Join(p.root, name) }
	p.install(t, "-d", "-m", "755", p.root, in("usr/bin"), in("a b\\#*ä"))
	p.install(t, "-cm", "4555", "-h", "sha256", "-T", "package=x", p.source, in("usr/bin/tool"))
	p.install(t, "-m", "0444", "-f", "uchg", "-t", in("a b\\#*ä"), p.source)
	p.install(t, "-l", "rs", in("usr/bin/tool"), in("usr/link"))
	p.install(t, "-lh", in("usr/bin/tool"), in("usr/hard"))
	p.install(t, "-b", "-C", "-m444", p.source, in("usr/bin/tool"))
	p.install(t, "-B", ".bak", p.metalog, p.source, in("usr/bin"))
	st, err := os.Stat(p.metalog + "") // its size grew by the line of itself
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("contents\n")))
	const who = " uname=root gname=wheel "
	want := []string{
		"#mtree 2.0",
		". type=dir" + who + "mode=0755",
		"./usr type=dir" + who + "mode=0755",
		"./usr/bin type=dir" + who + "mode=0755",
		`./a\040b\134\043\052\303\244 type=dir` + who + "mode=0755",
		"./usr/bin/tool type=file" + who + "mode=04555 size=9 sha256=" + sum + " tags=package=x",
		`./a\040b\134\043\052\303\244/source type=file` + who + "mode=0444 size=9 flags=uchg",
		"./usr/link type=link" + who + "mode=0755 link=bin/tool",
		"./usr/hard type=file" + who + "mode=0755 size=9",
		"./usr/bin/tool type=file" + who + "mode=0444 size=9",
	}
	got := p.lines(t)
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("METALOG (-want +got):\n%s", diff)
	}
	if len(got) != len(want)+2 || int64(len(got[0])) > st.Size() {
		t.Errorf("%d lines", len(got))
	}
	for name, mode := range map[string]os.FileMode{"usr/bin/tool": 0o444, "usr/bin/METALOG": 0o755, "usr/hard": 0o444, "a b\\#*ä/source": 0o444} {
		if st, err := os.Stat(in(name)); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v %v, want mode %v", name, st, err, mode)
		}
	}
	if target, err := os.Readlink(in("usr/link")); target != "bin/tool" {
		t.Errorf("link to %q %v", target, err)
	}
}

// TestWrongUse says what is wrong, and has exit code 2, or 1.
func TestWrongUse(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-x", "a", "b"}, 2, "-x: no such option"},
		{[]string{"-m"}, 2, "-m: needs a value"},
		{nil, 2, "usage: install"},
		{[]string{"-d"}, 2, "usage: install"},
		{[]string{"-m", "9", "a", "b"}, 1, `mode "9": want an octal number`},
		{[]string{"-h", "md2", "a", "b"}, 1, "-h md2: want sha256"},
		{[]string{"-l", "x", "a", "b"}, 1, "-l x: want some of"},
		{[]string{"/nonexistent/a", filepath.Join(t.TempDir(), "b")}, 1, "/nonexistent/a: no such file"},
		{[]string{"-M", "/nonexistent/METALOG", "-d", filepath.Join(t.TempDir(), "b")}, 1, "/nonexistent/METALOG: "},
	} {
		var said bytes.Buffer
		if code := run(tt.args, &said); code != tt.code || !strings.Contains(said.String(), tt.want) {
			t.Errorf("%q: exit code %d, said %s", tt.args, code, said.String())
		}
	}
}

// TestParallelInstalls: many processes at a time install into one tree, and what
// reads a METALOG finds each file once.
func TestParallelInstalls(t *testing.T) {
	processes, perProcess := 60, 5
	if os.Getenv("TIDEMARK_FULL") != "" {
		processes = 1000
	}
	p := newTree(t)
	want := installAll(t, p, processes, perProcess)
	p.check(t, want)
}

// TestInstallsThroughTheDaemon: the same, with lines that a daemon writes.
func TestInstallsThroughTheDaemon(t *testing.T) {
	dir := sockdir.New(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	d := door{files: funnel.New(funnel.Config{})}
	ended := make(chan error, 1)
	go func() { ended <- control.New(d, control.Info{}, control.Limits{}).Serve(ctx, l) }()
	p := newTree(t)
	p.via = filepath.Join(dir, "s")
	want := installAll(t, p, 15, 5)
	if st := d.files.Stats(); st.Files != 1 || st.Lines != uint64(len(want)) {
		t.Errorf("the daemon has written %d lines of %d to %d files", st.Lines, len(want), st.Files)
	}
	stop()
	if err := errors.Join(<-ended, d.files.Close(t.Context())); err != nil {
		t.Error(err)
	}
	p.check(t, want)
}

// door is as much of a daemon as writes lines.
type door struct {
	control.Daemon
	files *funnel.Funnel
}

// OpenLines implements control.Daemon.
func (d door) OpenLines(ctx context.Context, from control.Peer, appending, repairing int) (control.Lines, error) {
	c, err := d.files.Open(ctx, from.UID, appending, repairing)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// installAll installs files from many processes, each into a directory of its own,
// and returns the names.
func installAll(t *testing.T, p tree, processes, perProcess int) (names []string) {
	t.Helper()
	names = append(names, ".", "./share")
	p.install(t, "-d", p.root, filepath.Join(p.root, "share"))
	var sources []string
	for n := range perProcess {
		name := filepath.Join(t.TempDir(), fmt.Sprintf("file %d", n))
		if err := os.WriteFile(name, fmt.Appendf(nil, "contents of %d\n", n), 0o644); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, name)
	}
	at := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for n := range processes {
		dir := fmt.Sprintf("share/dir %d", n)
		full := filepath.Join(p.root, dir)
		names = append(names, "./"+dir)
		for _, s := range sources {
			names = append(names, "./"+dir+"/"+filepath.Base(s))
		}
		at <- struct{}{}
		wg.Go(func() {
			defer func() { <-at }()
			for _, args := range [][]string{{"-d", full}, append(append([]string{"-m", "644", "-h", "sha256"}, sources...), full)} {
				if out, err := command(p.args(args...)...).CombinedOutput(); err != nil {
					t.Errorf("install %q: %v: %s", args, err, out)
				}
			}
		})
	}
	wg.Wait()
	return names
}

// check has the METALOG read by this test and by all that read such files.
func (p tree) check(t *testing.T, want []string) {
	t.Helper()
	slices.Sort(want)
	at := map[string]int{}
	var got []string
	for n, line := range p.lines(t)[1:] {
		if line == "" { // of a process that saw a line of another's half there: readers skip it
			continue
		}
		words := strings.Fields(line)
		if len(words) < 5 || words[2] != "uname=root" || words[3] != "gname=wheel" {
			t.Fatalf("line %q", line)
		}
		name := strings.ReplaceAll(words[0], `\040`, " ")
		at[name] = n
		got = append(got, name)
		if dir := filepath.Dir(name); dir != "." && name != "." {
			if before, ok := at["./"+strings.TrimPrefix(dir, "./")]; !ok || before > n {
				t.Errorf("%s comes before its directory", name)
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names in the METALOG (-want +got):\n%s", diff)
	}
	db := t.TempDir()
	for name, text := range map[string]string{"master.passwd": "root:*:0:0::0:0:root:/:/bin/sh\n", "group": "wheel:*:0:root\n"} {
		if err := os.WriteFile(filepath.Join(db, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tar, image := filepath.Join(db, "x.tar"), filepath.Join(db, "x.img")
	run := func(name string, args ...string) []string {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
		c := exec.Command(name, args...)
		c.Dir = p.root
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	run("bsdtar", "-cf", tar, "@"+p.metalog)
	if got := run("bsdtar", "-tf", tar); len(got) != len(want) {
		t.Errorf("bsdtar has %d names, want %d", len(got), len(want))
	}
	if got := run("mtree", "-C", "-f", p.metalog, "-N", db); len(got) != len(want) {
		t.Errorf("mtree has %d names, want %d", len(got), len(want))
	}
	// makefs counts the directory that it is told, too.
	said := strings.Join(run("makefs", "-b", "50%", "-F", p.metalog, "-N", db, image, p.root), " ")
	if !strings.Contains(said, fmt.Sprintf(" %d inodes", len(want)+1)) || !strings.Contains(said, "complete") {
		t.Errorf("makefs, which is to have %d files, says: %s", len(want), said)
	}
}

// A value that holds a newline makes no line of its own.
func TestValuesAreEscaped(t *testing.T) {
	p := newTree(t)
	dir := filepath.Join(p.root, "a b")
	if code := run([]string{"-d", "-U", "-M", p.metalog, "-D", p.root, "-T", "x\n./etc type=dir", "-f", "a b", "-o", "ro ot", dir}, os.Stderr); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	got, err := os.ReadFile(p.metalog)
	if want := "#mtree 2.0\n" + `./a\040b type=dir uname=ro\040ot mode=0755 flags=a\040b tags=x\012./etc\040type=dir` + "\n"; err != nil || string(got) != want {
		t.Errorf("the log holds %q, %v", got, err)
	}
}
