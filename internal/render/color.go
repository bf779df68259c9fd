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
	ansiGreen        = "\x1b[0;32m"
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
// both. What comes from audit has a colour of its own.
func (p palette) priority(value []byte, audit bool) (on, highlight, off string) {
	level := byte('6')
	if len(value) == 1 && value[0] >= '0' && value[0] <= '7' {
		level = value[0]
	}
	switch {
	case level <= '3':
		on, highlight = ansiHighlightRed, ansiHighlight
	case level == '4':
		on, highlight = p.yellow, ansiHighlight
	case level == '5':
		on, highlight = ansiHighlight, ansiHighlightRed
	case level == '7':
		on, highlight = p.grey, ansiHighlightRed
	}
	if audit {
		on = ansiBlue
	}
	if on != "" {
		off = ansiNormal
	}
	return on, highlight, off
}

// Bold makes s stand out on a terminal with colours, as journalctl does with
// the line between two boots.
func (c Colors) Bold(s string) string {
	if c == None {
		return s
	}
	return ansiHighlight + s + ansiNormal
}

// Underline returns what underlines a cell of a table's heading; nil without
// colours.
func (c Colors) Underline() func(cell string) string {
	if c == None {
		return nil
	}
	return func(cell string) string { return ansiNormal + "\x1b[0;4m" + cell + ansiNormal }
}
