package settle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits of a window given as text.
const (
	MinWindow = time.Millisecond
	MaxWindow = time.Hour
)

// Policy says when a settler runs its effect without being asked. The zero
// value is Auto. Policies are comparable with ==.
type Policy struct {
	window time.Duration // 0: auto; allWindow: all; else the window
}

const allWindow time.Duration = -1

// Auto runs the effect on demand only.
func Auto() Policy { return Policy{} }

// Every begins an effect at most d after the first unsettled mark. A window
// that is not positive is none: the policy is All.
func Every(d time.Duration) Policy {
	if d <= 0 {
		return All()
	}
	return Policy{window: d}
}

// All begins an effect as soon as the one before has ended.
func All() Policy { return Policy{window: allWindow} }

// IsAuto tells whether the effect runs on demand only.
func (p Policy) IsAuto() bool { return p.window == 0 }

// IsAll tells whether an effect begins as soon as the one before has ended.
func (p Policy) IsAll() bool { return p.window == allWindow }

// Window returns the window of an Every policy, and 0 for Auto and All.
func (p Policy) Window() time.Duration { return max(p.window, 0) }

// String returns the canonical text: auto, all, or a duration such as 250ms
// or 5m.
func (p Policy) String() string {
	switch {
	case p.IsAuto():
		return "auto"
	case p.IsAll():
		return "all"
	}
	// time.Duration prints 5m as 5m0s and 1h as 1h0m0s.
	s := p.window.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalText implements encoding.TextMarshaler with the canonical text.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler as ParsePolicy does.
func (p *Policy) UnmarshalText(text []byte) error {
	q, err := ParsePolicy(string(text))
	if err == nil {
		*p = q
	}
	return err
}

// PolicyError is the error of ParsePolicy.
type PolicyError struct {
	Text string // what was to be read
}

// Error quotes the text and says what is taken.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("invalid sync policy %q: want auto, all, or a duration from 1ms to 1h such as 250ms", e.Text)
}

// ParsePolicy reads a policy as a user writes it: auto, all, a duration in Go's
// form from MinWindow to MaxWindow, or a bare number of milliseconds. never and
// no mean auto, everysec means 1s, always means all. Every error is a
// *PolicyError.
func ParsePolicy(s string) (Policy, error) {
	switch s {
	case "auto", "never", "no":
		return Auto(), nil
	case "all", "always":
		return All(), nil
	case "everysec":
		return Every(time.Second), nil
	}
	d, err := time.ParseDuration(s)
	if ms, e := strconv.ParseUint(s, 10, 64); e == nil {
		ms = min(ms, math.MaxInt32) // far above MaxWindow, and no overflow below
		d, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil || d < MinWindow || d > MaxWindow {
		return Policy{}, &PolicyError{Text: s}
	}
	return Every(d), nil
}
