// slowfs mounts a directory through a file system that is slow, fails, or loses
// its power, as one tells it to; `slowfs -h` has examples.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tidemark-log/tidemark/internal/slowfs"
)

const help = `Examples:
  slowfs                                       mount a new directory, and say where
  slowfs /var/tmp/back /mnt                    show /var/tmp/back at /mnt
  slowfs -rule 'fsync delay=100ms'             each fsync takes 100 ms more
  slowfs -rule 'write err=EIO every=10 match=*.log'
  slowfs -rule 'write,allocate space=1048576'  the disk is full after 1 MiB more
  slowfs -rule 'fsync err=EIO done'            syncs are done and say that they failed

Then, line by line on its standard input:
  set fsync delay=1s; write short=7 every=3    replace all rules
  set fsync hold                               keep calls until the next set
  set                                          no rules
  calls                                        how many calls have come
  image 7 /tmp/image                           what a power cut now could leave; 7 is the seed
  cut 7 /tmp/image                             the same, and the end
Ctrl-C, or the end of the input, unmounts.

Calls: write fsync syncdir lock unlock flush truncate allocate; all
What happens: delay=1s hold err=EIO [done] short=N space=BYTES; every=N match=PATTERN; dirty: only while
the file has what no fsync, flush or unlock has written back

Usage: slowfs [-rule RULE]... [-nocut] [DIRECTORY MOUNTPOINT]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowfs:", err)
		os.Exit(1)
	}
}

// run mounts, does what it is told, and unmounts.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("slowfs", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o := slowfs.Options{PowerCut: true}
	noCut := flags.Bool("nocut", false, "")
	flags.Func("rule", "", func(text string) error {
		r, err := slowfs.ParseRule(text)
		o.Rules = append(o.Rules, r)
		return err
	})
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, werr := io.WriteString(out, help)
			return errors.Join(err, werr)
		}
		return fmt.Errorf("%w (slowfs -h has examples)", err)
	}
	o.PowerCut = !*noCut
	dir, mnt := flags.Arg(0), flags.Arg(1)
	switch flags.NArg() {
	case 0:
		made, err := os.MkdirTemp("", "slowfs")
		if err != nil {
			return err
		}
		dir, mnt = filepath.Join(made, "back"), filepath.Join(made, "mnt")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(mnt, 0o700)); err != nil {
			return err
		}
		// The mount point goes; what was written stays.
		defer func() { err = errors.Join(err, os.Remove(mnt)) }()
	case 2:
	default:
		return errors.New("want a directory and a mount point, or neither")
	}
	s, err := slowfs.Serve(dir, mnt, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := fmt.Fprintf(out, "%s is mounted at %s; type help, or Ctrl-C to end\n", dir, mnt); err != nil {
		return err
	}
	return obey(ctx, s, in, out)
}

// obey does what the lines of in say, until they end, ctx does, or the power is cut.
func obey(ctx context.Context, s *slowfs.Server, in io.Reader, out io.Writer) error {
	lines := make(chan string)
	go func() { // it ends with the input, or with the process
		defer close(lines)
		for sc := bufio.NewScanner(in); sc.Scan(); {
			select {
			case lines <- sc.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			end, err := do(s, line, out)
			if end {
				return err
			}
			if err != nil {
				_, err = fmt.Fprintln(out, "slowfs:", err)
			}
			if err != nil {
				return err
			}
		}
	}
}

// do does what one line says.
func do(s *slowfs.Server, line string, out io.Writer) (end bool, err error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch verb {
	case "":
		return false, nil
	case "set":
		return false, set(s, rest)
	case "calls":
		for _, c := range slowfs.Calls() {
			if _, err := fmt.Fprintf(out, "%-9s %d\n", c, s.Calls(c)); err != nil {
				return false, err
			}
		}
		return false, nil
	case "image", "cut":
		word, to, _ := strings.Cut(rest, " ")
		seed, err := strconv.ParseUint(word, 10, 64)
		if err != nil || to == "" {
			return false, fmt.Errorf("want: %s SEED DIRECTORY", verb)
		}
		if verb == "cut" {
			return true, s.Cut(seed, to)
		}
		return false, s.Image(seed, to)
	default:
		_, err := io.WriteString(out, help)
		return false, err
	}
}

// set replaces all rules by those in text, with semicolons between them.
func set(s *slowfs.Server, text string) error {
	var rules []slowfs.Rule
	for one := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		r, err := slowfs.ParseRule(one)
		if err != nil {
			return err
		}
		rules = append(rules, r)
	}
	return s.Set(rules...)
}
