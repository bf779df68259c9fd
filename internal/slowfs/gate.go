package slowfs

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// gate is what every call passes that rules can be about.
type gate struct {
	mu      sync.Mutex
	rules   []*liveRule
	changed chan struct{} // closed when anything here changes, and replaced
	held    map[Call]int  // calls that wait for a rule to go
	passed  map[Call]int  // calls that came, since the mount
	ended   bool          // nothing is held any more
	answer  syscall.Errno // what calls get since, if not 0
}

// lookAfter is how often it is looked up whether who waits was killed: the kernel
// tells of the first signal to a caller only.
const lookAfter = 50 * time.Millisecond

// liveRule is a rule and what it has counted.
type liveRule struct {
	Rule
	calls int
	grown int64 // bytes, of Space
}

// passage is a call at the gate.
type passage struct {
	call  Call
	name  string // last element of the file's name
	pid   uint32 // the calling thread; 0: the kernel
	size  int    // bytes to write
	grows int64  // bytes by which it makes the file longer
	dirty bool   // the file has bytes that are not written back
}

// fault is what a rule does to a call.
type fault struct {
	errno syscall.Errno // 0: none
	done  bool          // do it before the error
	keep  int           // bytes of a write; -1: all
}

func newGate() *gate {
	return &gate{changed: make(chan struct{}), held: map[Call]int{}, passed: map[Call]int{}}
}

// tell wakes everybody who waits for a change. mu is held.
func (g *gate) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// set replaces all rules.
func (g *gate) set(rules []Rule) error {
	live := make([]*liveRule, 0, len(rules))
	for _, r := range rules {
		if err := r.check(); err != nil {
			return err
		}
		live = append(live, &liveRule{Rule: r})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules = live
	g.tell()
	return nil
}

// end lets all calls go, those to come too. With an errno they get that.
func (g *gate) end(answer syscall.Errno) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended || g.answer == 0 {
		g.ended, g.answer = true, answer
		g.tell()
	}
}

// count returns how many calls of a kind have come.
func (g *gate) count(c Call) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed[c]
}

// waitHeld returns when n calls of a kind are held at once.
func (g *gate) waitHeld(c Call, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.held[c] < n {
		if g.ended {
			return errors.New("the file system has ended")
		}
		changed := g.changed
		g.mu.Unlock()
		<-changed
		g.mu.Lock()
	}
	return nil
}

// pass keeps a call as long as the rules say and returns what becomes of it. An
// errno means that it is not to be done and that no rule wanted that.
func (g *gate) pass(p passage) (fault, syscall.Errno) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed[p.call]++
	if errno := g.hold(p); errno != 0 {
		return fault{}, errno
	}
	var delay time.Duration
	for _, r := range g.rules {
		if r.about(p) {
			delay += r.Delay
		}
	}
	if delay > 0 && !g.ended {
		g.delay(delay)
	}
	if g.ended {
		return fault{keep: -1}, g.answer
	}
	return g.fault(p), 0
}

// hold waits while a rule holds the call. mu is held, but for the waits.
func (g *gate) hold(p passage) syscall.Errno {
	if g.ended || !g.holds(p) {
		return 0
	}
	g.held[p.call]++
	defer func() { g.held[p.call]-- }()
	g.tell()
	look := time.NewTicker(lookAfter)
	defer look.Stop()
	for !g.ended && g.holds(p) {
		changed, killed := g.changed, false
		g.mu.Unlock()
		select {
		case <-changed:
		case <-look.C:
			killed = dying(p.pid)
		}
		g.mu.Lock()
		if killed {
			return syscall.EINTR
		}
	}
	return 0
}

func (g *gate) holds(p passage) bool {
	for _, r := range g.rules {
		if r.Hold && r.about(p) {
			return true
		}
	}
	return false
}

// delay waits for d, or for the end. mu is held, but for the wait.
func (g *gate) delay(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !g.ended {
		changed := g.changed
		g.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-timer.C:
			over = true
		}
		g.mu.Lock()
		if over {
			return
		}
	}
}

// fault returns what the first rule that has one does to the call. Every rule
// counts the calls it is about. mu is held.
func (g *gate) fault(p passage) fault {
	out := fault{keep: -1}
	for _, r := range g.rules {
		if !r.about(p) {
			continue
		}
		r.calls++
		f := r.fault(p)
		if out.errno == 0 && out.keep < 0 {
			out = f
		}
	}
	return out
}

func (r *liveRule) fault(p passage) fault {
	nth := r.calls%max(r.Every, 1) == 0
	switch {
	case r.Err != 0 && nth:
		return fault{errno: r.Err, done: r.Done, keep: -1}
	case r.Short != 0 && nth && p.size > r.Short:
		return fault{keep: r.Short}
	case r.Space != 0 && p.grows > r.Space-r.grown:
		room := r.Space - r.grown
		if keep := p.size - int(p.grows-room); p.call == Write && keep > 0 {
			r.grown = r.Space
			return fault{keep: keep}
		}
		return fault{errno: syscall.ENOSPC, keep: -1}
	case r.Space != 0:
		r.grown += p.grows
	}
	return fault{keep: -1}
}

// dying tells whether a thread was killed, or is at its end: it will never use
// the answer, and others may wait for it to be gone.
func dying(pid uint32) bool {
	if pid == 0 {
		return false // the kernel itself, or another pid namespace
	}
	proc := "/proc/" + strconv.FormatUint(uint64(pid), 10)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "SigPnd" || key == "ShdPnd" {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err == nil && set&(1<<(syscall.SIGKILL-1)) != 0 {
				return true
			}
		}
	}
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	// The name, in parentheses, may hold anything; the flags are the seventh behind it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	const exiting = 0x4 // PF_EXITING
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err == nil && flags&exiting != 0
}
