package ingest

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flag is raised by others for one goroutine, its owner, who looks at it and may
// pause until it is raised. The pause is a futex: it costs what a sleep costs, and
// no descriptor. A timer of the runtime would take more turns of its scheduler
// than a pause saves. The runtime knows of the call: the goroutine keeps nobody
// from its processor, nor a garbage collection waiting.
//
// The zero value is a lowered flag.
type flag struct {
	state atomic.Uint32
}

// States of a flag.
const (
	flagLowered uint32 = iota
	flagRaised
	flagAwaited // lowered, and the owner pauses
)

// Operations of futex(2), for one process only.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

func (f *flag) isRaised() bool { return f.state.Load() == flagRaised }

// raise ends a pause, present or to come. It may be called concurrently.
//
//	futex(state, FUTEX_WAKE, 1), if somebody pauses
func (f *flag) raise() {
	if f.state.Swap(flagRaised) == flagAwaited {
		unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.state)), futexWake, 1) //nolint:errcheck // cannot fail: the address is ours
	}
}

// lower is the owner's. What has raised the flag must not be lost by it.
func (f *flag) lower() { f.state.Store(flagLowered) }

// pause is the owner's. It lasts d, or until the flag is raised, which it tells,
// or a signal.
//
//	futex(state, FUTEX_WAIT, flagAwaited, d), which looks at state once more
func (f *flag) pause(d time.Duration) (raised bool) {
	if !f.state.CompareAndSwap(flagLowered, flagAwaited) {
		return true
	}
	limit := unix.NsecToTimespec(d.Nanoseconds())
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.state)), futexWait, uintptr(flagAwaited), //nolint:errcheck // state tells
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	return !f.state.CompareAndSwap(flagAwaited, flagLowered)
}
