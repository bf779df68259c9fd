package render

// Colors says how many colours a terminal has.
type Colors uint8

// The kinds of terminals.
const (
	None Colors = iota
	Colors16
	Colors256
)

const (
	ansiNormal       = "\x1b[0m"
	ansiHighlight    = "\x1b[0;1;39m"
	ansiHighlightRed = "\x1b[0;1;31m"
	ansiBlue         = "\x1b[0;34m"
)

// palette holds the colours that differ between terminals.
type palette struct{ yellow, grey string }

func (c Colors) palette() palette {
	if c == Colors256 {
		return palette{yellow: "\x1b[0;1;38;5;185m", grey: "\x1b[0;38;5;245m"}
	}
	return palette{yellow: "\x1b[0;1;33m", grey: "\x1b[0;90m"}
}

// priority returns the colour of a message, of a match inside it, and what ends
// both.
func (p palette) priority(value []byte, audit bool) (on, highlight, off string) {
	level := byte('6')
	if len(value) == 1 && value[0] >= '0' && value[0] <= '7' {
		level = value[0]
	}
	switch {
	case level <= '3':
		return ansiHighlightRed, ansiHighlight, ansiNormal
	case level == '4':
		return p.yellow, ansiHighlight, ansiNormal
	case level == '5':
		return ansiHighlight, ansiHighlightRed, ansiNormal
	case level == '7':
		return p.grey, ansiHighlightRed, ansiNormal
	case audit:
		return ansiBlue, "", ansiNormal
	default:
		return "", "", ""
	}
}

// Bold makes s stand out on a terminal with colours, as journalctl does with
// the line between two boots.
func (c Colors) Bold(s string) string {
	if c == None {
		return s
	}
	return ansiHighlight + s + ansiNormal
}
