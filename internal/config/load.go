package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Error is a fault in a configuration file that must be mended.
type Error struct {
	// Path of the file.
	Path string
	// Line from 1; 0 when the file as a whole is at fault.
	Line int
	// Err says what is wrong.
	Err error
}

// Error names file, line and fault.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Warning is a line of a configuration file that was left out.
type Warning struct {
	Path string
	Line int
	Text string
}

// String names file, line and reason.
func (w Warning) String() string { return fmt.Sprintf("%s:%d: %s", w.Path, w.Line, w.Text) }

// Load reads the file path and then, in the order of their names, its drop-ins
// path.d/*.conf; what is read later wins. A missing file is an error only if
// required is set; one that ReadFile refuses is always one. Unknown keys and
// sections, and keys of journald that tidemark does not act on, are warnings.
// Every error is an *Error.
func Load(path string, required bool) (Config, []Warning, error) {
	c := Defaults()
	var warnings []Warning
	paths := []string{path}
	dropIns, err := filepath.Glob(filepath.Join(globEscape(path+".d"), "*.conf"))
	if err != nil {
		return c, nil, &Error{Path: path, Err: err}
	}
	for i, p := range append(paths, dropIns...) {
		data, err := ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) && (i > 0 || !required) {
			continue
		}
		if err != nil {
			return c, warnings, &Error{Path: p, Err: err}
		}
		more, err := c.Parse(p, string(data))
		warnings = append(warnings, more...)
		if err != nil {
			return c, warnings, err
		}
	}
	return c, warnings, nil
}

// globEscape quotes what has a meaning in a glob pattern.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Parse applies the text of one file called path to c. Every error is an
// *Error; what stands before the fault has been applied then.
func (c *Config) Parse(path, text string) ([]Warning, error) {
	p := parser{path: path, config: c}
	text = strings.TrimPrefix(text, "\ufeff")
	var logical strings.Builder
	first, number := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if trimmed := strings.TrimLeft(line, blanks); trimmed != "" && (trimmed[0] == '#' || trimmed[0] == ';') {
			continue // also between the lines of a continued one
		}
		if first == 0 {
			first = number
		}
		if continued(line) {
			logical.WriteString(line[:len(line)-1] + " ")
			continue
		}
		logical.WriteString(line)
		if err := p.line(first, logical.String()); err != nil {
			return p.warnings, err
		}
		logical.Reset()
		first = 0
	}
	if first > 0 {
		if err := p.line(first, logical.String()); err != nil {
			return p.warnings, err
		}
	}
	return p.warnings, nil
}

// continued reports whether line ends in a backslash that no other one escapes.
func continued(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// parser is the state of one file.
type parser struct {
	path     string
	config   *Config
	section  string // "" before the first one
	warnings []Warning
}

func (p *parser) warn(line int, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{p.path, line, fmt.Sprintf(format, args...)})
}

// section names.
const (
	sectionJournal = "Journal"
	sectionIgnored = "[" // cannot be a name
)

// line handles one logical line.
func (p *parser) line(number int, text string) error {
	text = strings.Trim(text, blanks)
	switch {
	case text == "":
		return nil
	case !utf8.ValidString(text):
		p.warn(number, "line is not UTF-8, ignored")
		return nil
	case text[0] == '[':
		return p.header(number, text)
	case p.section == sectionIgnored:
		return nil
	}
	name, value, ok := strings.Cut(text, "=")
	name, value = strings.Trim(name, blanks), strings.Trim(value, blanks)
	switch {
	case p.section == "":
		p.warn(number, "assignment outside of a section, ignored: want [%s] before it", sectionJournal)
	case !ok:
		p.warn(number, "missing '=', line ignored")
	case name == "":
		p.warn(number, "missing key before '=', line ignored")
	case strings.HasPrefix(name, "X-"):
	default:
		if _, known := lookup(name); !known {
			p.warn(number, "unknown key %q in section [%s], ignored", name, p.section)
			return nil
		}
		warning, err := p.config.set(name, value)
		if err != nil {
			return &Error{Path: p.path, Line: number, Err: fmt.Errorf("%s=: %w", name, err)}
		}
		if warning != "" {
			p.warn(number, "%s", warning)
		}
	}
	return nil
}

// header handles a line that begins a section.
func (p *parser) header(number int, text string) error {
	name, ok := strings.CutSuffix(text[1:], "]")
	if !ok || name == "" {
		return &Error{Path: p.path, Line: number, Err: fmt.Errorf("invalid section header %q", text)}
	}
	if name == sectionJournal {
		p.section = name
		return nil
	}
	p.section = sectionIgnored
	if !strings.HasPrefix(name, "X-") {
		p.warn(number, "unknown section [%s], ignored", name)
	}
	return nil
}
