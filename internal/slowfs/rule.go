package slowfs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Call is a kind of call that rules can be about.
type Call string

// The kinds of call.
const (
	Write    Call = "write"    // at most 1 MiB of a write(2), or mapped pages written back
	Fsync    Call = "fsync"    // fsync, fdatasync, and what O_SYNC does after a write
	SyncDir  Call = "syncdir"  // fsync of a directory
	Lock     Call = "lock"     // flock, and fcntl's locks
	Unlock   Call = "unlock"   // their release by a call; that by close is a part of flush
	Flush    Call = "flush"    // each close(2) of a descriptor
	Truncate Call = "truncate" // truncate, ftruncate, and open with O_TRUNC
	Allocate Call = "allocate" // fallocate
)

// Calls lists them.
func Calls() []Call {
	return []Call{Write, Fsync, SyncDir, Lock, Unlock, Flush, Truncate, Allocate}
}

// Rule says what happens to calls. A call waits for as long as any rule holds it,
// then for the sum of the delays, then the first rule with a fault for it decides.
type Rule struct {
	// Calls are the kinds it is about; none: all.
	Calls []Call
	// Match is a pattern as of path.Match for the last element of the file's
	// name. Empty: all files.
	Match string

	// Dirty makes it about calls only while the file has bytes that were written and
	// not written back since: by an fsync, a flush of a descriptor for writing, or the
	// release of a lock, as on NFS, where those take the time of a write-back, and
	// others of the kind none.
	Dirty bool

	// Hold keeps calls from going on until the rule is gone.
	Hold bool
	// Delay keeps each call for that long.
	Delay time.Duration

	// Err is returned instead of doing the call; with Done, after doing it. A call
	// with Done has all of its effect, for a power cut too.
	Err  syscall.Errno
	Done bool
	// Short, if not 0, makes a write of more bytes write only the first Short.
	Short int
	// Every makes Err or Short hit every nth of the calls that the rule is about,
	// counted from the moment it was set. 0 and 1: each.
	Every int
	// Space, if not 0, is the number of bytes by which writes and allocations may
	// still make files longer. A write that needs more writes what fits;
	// when nothing fits it fails with ENOSPC. Bytes inside a file are free, and nothing gives
	// space back.
	Space int64
}

func (r Rule) check() error {
	for _, c := range r.Calls {
		if !slices.Contains(Calls(), c) {
			return fmt.Errorf("no call is named %q; there are %q", c, Calls())
		}
	}
	if _, err := path.Match(r.Match, ""); err != nil {
		return fmt.Errorf("match=%s: %w", r.Match, err)
	}
	faults := 0
	for _, has := range []bool{r.Err != 0, r.Short != 0, r.Space != 0} {
		if has {
			faults++
		}
	}
	switch {
	case r.Delay < 0 || r.Short < 0 || r.Every < 0 || r.Space < 0:
		return errors.New("a number is negative")
	case faults > 1:
		return errors.New("err, short and space are a rule each")
	case r.Done && r.Err == 0:
		return errors.New("done goes with err")
	case r.Every != 0 && r.Err == 0 && r.Short == 0:
		return errors.New("every goes with err or short")
	}
	return nil
}

// about tells whether the rule is about a call.
func (r *Rule) about(p passage) bool {
	if len(r.Calls) > 0 && !slices.Contains(r.Calls, p.call) || r.Dirty && !p.dirty {
		return false
	}
	ok, _ := path.Match(r.Match, p.name) // check has seen the pattern
	return ok || r.Match == ""
}

// ParseRule reads a rule as people write it: the kinds of call, or "all", then
// words of the lower-case names of Rule's members.
//
//	fsync,syncdir delay=100ms
//	write short=7 every=3 match=*.log
//	fsync err=EIO done
//	flush dirty delay=1ms
func ParseRule(text string) (Rule, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return Rule{}, fmt.Errorf("rule %q: want calls and what happens to them, as in: fsync delay=100ms", text)
	}
	var r Rule
	if words[0] != "all" {
		for _, c := range strings.Split(words[0], ",") {
			r.Calls = append(r.Calls, Call(c))
		}
	}
	for _, w := range words[1:] {
		if err := r.setWord(w); err != nil {
			return Rule{}, fmt.Errorf("rule %q: %s: %w", text, w, err)
		}
	}
	if err := r.check(); err != nil {
		return Rule{}, fmt.Errorf("rule %q: %w", text, err)
	}
	return r, nil
}

func (r *Rule) setWord(w string) (err error) {
	key, value, _ := strings.Cut(w, "=")
	switch key {
	case "match":
		r.Match = value
	case "dirty":
		r.Dirty = true
	case "hold":
		r.Hold = true
	case "delay":
		r.Delay, err = time.ParseDuration(value)
	case "err":
		r.Err, err = parseErrno(value)
	case "done":
		r.Done = true
	case "short":
		r.Short, err = strconv.Atoi(value)
	case "every":
		r.Every, err = strconv.Atoi(value)
	case "space":
		r.Space, err = strconv.ParseInt(value, 10, 64)
	default:
		err = errors.New("no such word; there are match= dirty hold delay= err= done short= every= space=")
	}
	return err
}

// parseErrno reads the name of an error, as EIO.
func parseErrno(name string) (syscall.Errno, error) {
	for e := syscall.Errno(1); e < 200; e++ {
		if unix.ErrnoName(e) == name {
			return e, nil
		}
	}
	return 0, errors.New("no such error; EIO is one")
}
