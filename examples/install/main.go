// Command install is install(1) of the BSDs in one file, as an example of a log
// that many short processes share: with -M each installed file is one line of a
// METALOG, an mtree(5) manifest that bsdtar, mtree and makefs read.
//
// The line of a file is written after the file is in its place, and exit code 0
// says that all lines are in the log, whole. The lines of one process stand in
// the order in which it has installed: that of a directory before those of the
// files in it, also with several processes if the second begins when the first
// has ended, as it does under make.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/linelog"
)

const usage = `usage: install [-bCcpSU] [-B suffix] [-f flags] [-g group] [-m mode] [-o owner]
               [-M metalog [-V socket] [-D destdir] [-h hash] [-T tags]]
               [-l linkflags] file1 file2
       install [options] file1 ... fileN directory
       install [options] -t directory file1 ... fileN
       install [options] -d directory ...
  -b  keep what was there as file.old, or with -B's suffix
  -C  leave a file alone that has the same contents
  -c  copy: always done
  -D  the top of the tree that is installed into: left out of the names in the log
  -d  make directories, and their parents
  -f  file flags, for the log only
  -h  digest in the log: sha256, sha384, sha512, none
  -l  link instead of copying: h hard, s symbolic, m hard if possible; with a or r
      the target of a symbolic link is made absolute or relative
  -M  the log; -V has it written by the daemon of that socket ($INSTALL_VIA)
  -p  keep the time of the file
  -S  exchange the file in one step: always done
  -T  tags, for the log only
  -U  leave owner and group to the log
`

// options are those of the command line.
type options struct {
	backup, compare, dirs, preserve, unprivileged bool

	suffix, destDir, flags, group, digest, link, metalog, via, mode, owner, target, tags string

	perm fs.FileMode
	args []string
}

// flag returns where the flag c is kept, nil if there is none.
func (o *options) flag(c byte) *bool {
	return map[byte]*bool{
		'b': &o.backup, 'C': &o.compare, 'c': new(bool), 'd': &o.dirs, 'p': &o.preserve,
		'S': new(bool), 'U': &o.unprivileged,
	}[c]
}

// value returns where the value of the option c is kept, nil if there is none.
func (o *options) value(c byte) *string {
	return map[byte]*string{
		'B': &o.suffix, 'D': &o.destDir, 'f': &o.flags, 'g': &o.group, 'h': &o.digest, 'l': &o.link, 'M': &o.metalog,
		'm': &o.mode, 'o': &o.owner, 't': &o.target, 'T': &o.tags, 'V': &o.via,
	}[c]
}

// errUsage has the usage printed.
var errUsage = errors.New("wrong usage")

// parse reads a command line as getopt(3) does: -cm 644 is -c -m644.
func parse(args []string) (options, error) {
	o := options{suffix: ".old", mode: "0755", via: os.Getenv("INSTALL_VIA")}
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0][1:]
		args = args[1:]
		if word == "-" {
			break
		}
		for word != "" {
			c := word[0]
			word = word[1:]
			if f := o.flag(c); f != nil {
				*f = true
				continue
			}
			v := o.value(c)
			switch {
			case v == nil:
				return o, fmt.Errorf("-%c: no such option: %w", c, errUsage)
			case word != "":
				*v, word = word, ""
			case len(args) > 0:
				*v, args = args[0], args[1:]
			default:
				return o, fmt.Errorf("-%c: needs a value: %w", c, errUsage)
			}
			if c == 'B' {
				o.backup = true
			}
		}
	}
	mode, err := strconv.ParseUint(o.mode, 8, 12)
	if err != nil {
		return o, fmt.Errorf("mode %q: want an octal number such as 0644", o.mode)
	}
	o.perm = fs.FileMode(mode & 0o777)
	for bit, m := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			o.perm |= m
		}
	}
	if _, err := o.newHash(); err != nil {
		return o, err
	}
	if strings.Trim(o.link, "hmsar") != "" {
		return o, fmt.Errorf("-l %s: want some of h, s, m, a, r", o.link)
	}
	o.args = args
	return o, nil
}

// newHash returns the digest that was asked for, nil for none.
func (o *options) newHash() (hash.Hash, error) {
	switch o.digest {
	case "", "none":
		return nil, nil //nolint:nilnil // none is asked for
	case "sha256":
		return sha256.New(), nil
	case "sha384":
		return sha512.New384(), nil
	case "sha512":
		return sha512.New(), nil
	}
	return nil, fmt.Errorf("-h %s: want sha256, sha384, sha512 or none", o.digest)
}

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run is the program. Its result is the exit code.
func run(args []string, complaints io.Writer) int {
	o, err := parse(args)
	if err == nil {
		err = install(&o)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprint(complaints, "install: ", err, "\n", usage) //nolint:errcheck // nowhere to say it
		return 2
	}
	fmt.Fprintln(complaints, "install:", err) //nolint:errcheck // nowhere to say it
	return 1
}

// install does what the command line says. The log is opened first: nothing is
// installed that cannot be logged.
func install(o *options) (err error) {
	i := installer{options: o}
	if o.metalog != "" {
		if i.log, err = openLog(o); err != nil {
			return fmt.Errorf("%s: %w", o.metalog, err)
		}
		defer func() { err = errors.Join(err, i.log.Close()) }()
	}
	if o.dirs {
		if len(o.args) == 0 {
			return errUsage
		}
		for _, dir := range o.args {
			if err := i.makeDir(dir); err != nil {
				return err
			}
		}
		return nil
	}
	files, to := o.args, o.target
	if to == "" && len(files) > 1 {
		files, to = files[:len(files)-1], files[len(files)-1]
	}
	if len(files) == 0 || to == "" {
		return errUsage
	}
	if st, err := os.Stat(to); err != nil || !st.IsDir() {
		if len(files) > 1 || o.target != "" {
			return fmt.Errorf("%s: not a directory", to)
		}
		return i.put(files[0], to)
	}
	for _, from := range files {
		if err := i.put(from, filepath.Join(to, filepath.Base(from))); err != nil {
			return err
		}
	}
	return nil
}

// openLog opens the METALOG, which other processes append to at the same time.
func openLog(o *options) (*linelog.Writer, error) {
	lines := linelog.Options{Shared: true, CloseUnsynced: true, Perm: 0o644, Trailing: true, Window: time.Second}
	if o.via != "" {
		return linelog.Dial(context.Background(), o.via, o.metalog, lines)
	}
	return linelog.Open(o.metalog, lines)
}

// installer does the work.
type installer struct {
	*options
	log *linelog.Writer // nil: there is none
}

// record is a line of the METALOG.
type record struct {
	path, kind, link, digest string
	size                     int64
	time                     time.Time
}

// write appends r to the log. The line is kept in memory for a second at most: many
// files of one process are one write(2).
func (i *installer) write(r record) error {
	if i.log == nil {
		return nil
	}
	var b bytes.Buffer
	name := strings.TrimLeft(i.inTree(r.path), "/")
	if name == "" || name == "." {
		b.WriteByte('.')
	} else {
		b.WriteString("./" + vis(name))
	}
	field := func(key, value string) {
		if value != "" {
			b.WriteString(" " + key + "=" + vis(value))
		}
	}
	field("type", r.kind)
	field("uname", i.owner)
	field("gname", i.group)
	field("mode", "0"+strings.TrimLeft(i.mode, "0"))
	field("link", r.link)
	if r.kind == "file" {
		field("size", strconv.FormatInt(r.size, 10))
		if i.preserve {
			field("time", fmt.Sprintf("%d.%09d", r.time.Unix(), r.time.Nanosecond()))
		}
		field(i.digest, r.digest)
	}
	field("flags", i.flags)
	field("tags", i.tags)
	b.WriteByte('\n')
	_, err := i.log.Write(b.Bytes())
	return err
}

// inTree is path without the DESTDIR.
func (i *installer) inTree(path string) string {
	path = filepath.Clean(path)
	if i.destDir == "" {
		return path
	}
	if rest, ok := strings.CutPrefix(path, filepath.Clean(i.destDir)); ok && (rest == "" || rest[0] == '/') {
		return rest
	}
	return path
}

// vis escapes as vis(3) does with VIS_OCTAL, what the readers of a manifest take
// for patterns too.
func vis(s string) string {
	var b strings.Builder
	for n := range len(s) {
		if c := s[n]; c > ' ' && c < 0x7f && !strings.ContainsRune(`\#*?[`, rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return b.String()
}

// makeDir makes a directory and its parents, and logs those that it has made, and
// the last.
func (i *installer) makeDir(dir string) error {
	dir = filepath.Clean(dir)
	st, err := os.Stat(dir)
	switch {
	case err == nil && !st.IsDir():
		return fmt.Errorf("%s: not a directory", dir)
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) {
			if err := i.makeDir(filepath.Dir(dir)); err != nil {
				return err
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	if err := i.own(dir); err != nil {
		return err
	}
	return i.write(record{path: dir, kind: "dir"})
}

// own gives a file the owner, group and mode that were asked for.
func (i *installer) own(path string) error {
	if i.unprivileged {
		return os.Chmod(path, i.perm&0o777)
	}
	uid, err := id(i.owner, func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	gid, err := id(i.group, func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
	if err != nil {
		return fmt.Errorf("-g: %w", err)
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return err
	}
	return os.Chmod(path, i.perm)
}

// id is the number of a name, which may be one; -1 for none.
func id(name string, lookUp func(string) (string, error)) (int, error) {
	if name == "" {
		return -1, nil
	}
	number, err := lookUp(name)
	if err != nil {
		number = name
	}
	n, atoiErr := strconv.Atoi(number)
	if atoiErr != nil {
		return 0, err
	}
	return n, nil
}

// put installs one file, or links to it.
func (i *installer) put(from, to string) error {
	if i.link != "" {
		return i.putLink(from, to)
	}
	var r record
	var err error
	if i.compare && sameContents(from, to) {
		if r, err = i.describe(to, io.Discard); err == nil {
			err = i.own(to)
		}
	} else {
		err = i.exchange(to, func(temp string) (err error) {
			r, err = i.copy(from, temp)
			return err
		})
	}
	if err != nil {
		return err
	}
	r.path = to
	return i.write(r)
}

// describe reads a file that is to be installed or linked to, to w too.
func (i *installer) describe(path string, w io.Writer) (record, error) {
	r := record{kind: "file"}
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return r, err
	}
	r.time = st.ModTime()
	h, err := i.newHash()
	if h != nil {
		w = io.MultiWriter(w, h)
	}
	if err == nil {
		r.size, err = io.Copy(w, f)
	}
	if h != nil {
		r.digest = hex.EncodeToString(h.Sum(nil))
	}
	return r, err
}

// copy copies a file, and describes what was copied.
func (i *installer) copy(from, to string) (record, error) {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return record{}, err
	}
	r, err := i.describe(from, out)
	if err = errors.Join(err, out.Close()); err == nil {
		err = i.own(to)
	}
	if err == nil && i.preserve {
		err = os.Chtimes(to, r.time, r.time)
	}
	return r, err
}

// exchange has fill make a file beside to and renames it.
func (i *installer) exchange(to string, fill func(temp string) error) error {
	temp := filepath.Join(filepath.Dir(to), fmt.Sprintf(".INS.%d.%s", os.Getpid(), filepath.Base(to)))
	os.Remove(temp) //nolint:errcheck // one of a process that was killed, or none
	err := fill(temp)
	if err == nil && i.backup {
		if err = os.Rename(to, to+i.suffix); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(temp, to)
	}
	if err != nil {
		os.Remove(temp) //nolint:errcheck // the error at hand says more
	}
	return err
}

// sameContents tells whether two files are equal.
func sameContents(a, b string) bool {
	x, errX := os.ReadFile(a)
	y, errY := os.ReadFile(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// putLink makes a link instead of a copy.
func (i *installer) putLink(from, to string) error {
	if strings.ContainsAny(i.link, "hm") {
		err := i.exchange(to, func(temp string) error { return os.Link(from, temp) })
		if err == nil {
			r, err := i.describe(to, io.Discard)
			if r.path = to; err != nil {
				return err
			}
			return i.write(r)
		}
		if !strings.Contains(i.link, "m") {
			return err
		}
	}
	if strings.ContainsAny(i.link, "ar") {
		target, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		from = target
	}
	if strings.Contains(i.link, "r") {
		dir, err := filepath.Abs(filepath.Dir(to))
		if err != nil {
			return err
		}
		if from, err = filepath.Rel(dir, from); err != nil {
			return err
		}
	}
	if err := i.exchange(to, func(temp string) error { return os.Symlink(from, temp) }); err != nil {
		return err
	}
	return i.write(record{path: to, kind: "link", link: from})
}
