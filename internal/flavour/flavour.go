// Package flavour reads and writes the names of the layouts that a new journal
// file may have. journal.Flavour says what each means; this is below it so that
// the configuration, which knows no files, reads the same words.
package flavour

import (
	"fmt"
	"strings"
)

// Flavour is journal.Flavour, member for member.
type Flavour struct {
	Regular, Unkeyed, NoCompression, Header254 bool
}

// choices are the members, each with its name and that of its contrary.
var choices = []struct {
	no, yes string
	member  func(*Flavour) *bool
}{
	{"compact", "regular", func(f *Flavour) *bool { return &f.Regular }},
	{"keyed", "unkeyed", func(f *Flavour) *bool { return &f.Unkeyed }},
	{"zstd", "plain", func(f *Flavour) *bool { return &f.NoCompression }},
	{"252", "254", func(f *Flavour) *bool { return &f.Header254 }},
}

// Names are the words that Parse takes, pairs of which one is to be chosen.
const Names = "compact or regular, keyed or unkeyed, zstd or plain, 252 or 254"

// Error says that a text names no flavour.
type Error struct {
	Text string // what was given
	Why  string // what is wrong in it
}

func (e *Error) Error() string {
	return fmt.Sprintf("invalid flavour %q: %s: want a list such as compact,keyed,zstd,252: %s", e.Text, e.Why, Names)
}

// Parse reads a list of names separated by commas, each at most once. What is not
// named is as in the zero Flavour. Errors are *Error.
func Parse(text string) (Flavour, error) {
	var f Flavour
	named := make([]string, len(choices))
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		known := false
		for i, c := range choices {
			if name != c.no && name != c.yes {
				continue
			}
			switch known = true; named[i] {
			case "":
			case name:
				return Flavour{}, &Error{text, name + " is there twice"}
			default:
				return Flavour{}, &Error{text, fmt.Sprintf("%s and %s exclude each other", named[i], name)}
			}
			named[i] = name
			*c.member(&f) = name == c.yes
		}
		if !known {
			return Flavour{}, &Error{text, fmt.Sprintf("%q is not known", name)}
		}
	}
	return f, nil
}

// String names all of f, as Parse reads it.
func (f Flavour) String() string {
	names := make([]string, 0, len(choices))
	for _, c := range choices {
		if *c.member(&f) {
			names = append(names, c.yes)
		} else {
			names = append(names, c.no)
		}
	}
	return strings.Join(names, ",")
}
