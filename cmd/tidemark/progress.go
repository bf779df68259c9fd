package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/tidemark-log/tidemark/internal/config"
)

// progressEvery is how often a line of progress is renewed.
const progressEvery = 200 * time.Millisecond

// progressLine says on one line of a terminal how far something is. A nil one
// says nothing.
type progressLine struct {
	w     io.Writer
	now   func() time.Time
	began time.Time
	shown time.Time
	drawn bool
}

// newProgressLine is for standard error; nil when that is no terminal.
func newProgressLine() *progressLine {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return beginProgress(os.Stderr, time.Now)
}

func beginProgress(w io.Writer, now func() time.Time) *progressLine {
	t := now()
	return &progressLine{w: w, now: now, began: t, shown: t}
}

// show renews the line with what text says of the seconds passed, unless that was
// done a moment ago. That the terminal has gone is no reason to stop.
func (p *progressLine) show(text func(seconds float64) string) {
	if p == nil {
		return
	}
	now := p.now()
	if now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown, p.drawn = now, true
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", text(now.Sub(p.began).Seconds()))
}

// clear takes the line away.
func (p *progressLine) clear() {
	if p != nil && p.drawn {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// meter passes on what is written to it, and says how much that was.
type meter struct {
	w    io.Writer
	line *progressLine
	n    uint64
}

// Write implements io.Writer.
func (m *meter) Write(b []byte) (int, error) {
	n, err := m.w.Write(b)
	m.n += uint64(n) //nolint:gosec // not negative
	m.line.show(func(seconds float64) string {
		return fmt.Sprintf("%s, %s/s", config.AppendBytes(nil, m.n), config.AppendBytes(nil, uint64(float64(m.n)/seconds)))
	})
	return n, err
}

// fileOf is the file that w writes to, by way of a meter or not.
func fileOf(w io.Writer) (*os.File, bool) {
	if m, ok := w.(*meter); ok {
		w = m.w
	}
	f, ok := w.(*os.File)
	return f, ok
}
