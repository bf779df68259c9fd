package flavour

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Flavour{
		"compact,keyed,zstd,252":     {},
		"compact":                    {},
		"252":                        {},
		"254":                        {Header254: true},
		"plain":                      {NoCompression: true},
		"unkeyed , regular":          {Regular: true, Unkeyed: true},
		"254,plain,unkeyed,regular":  {true, true, true, true},
		"regular,keyed,plain,252":    {Regular: true, NoCompression: true},
		" keyed,zstd,regular,254 \t": {Regular: true, Header254: true},
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// Every flavour is what its text says.
func TestStringIsRead(t *testing.T) {
	for i := range 16 {
		f := Flavour{i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0}
		if got, err := Parse(f.String()); got != f || err != nil {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", f, got, err, f)
		}
	}
	if got := (Flavour{}).String(); got != "compact,keyed,zstd,252" {
		t.Errorf("the default is %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                ` "" is not known: `,
		"lz4":             ` "lz4" is not known: `,
		"compact,":        ` "" is not known: `,
		"Compact":         ` "Compact" is not known: `,
		"keyed,keyed":     " keyed is there twice: ",
		"compact,regular": " compact and regular exclude each other: ",
		"254,zstd,252":    " 254 and 252 exclude each other: ",
	} {
		_, err := Parse(text)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), why) || !strings.HasSuffix(err.Error(), Names) {
			t.Errorf("Parse(%q): %v, want%sand the names", text, err, why)
		}
	}
	// The names that are listed are those that are taken.
	for _, c := range choices {
		if !strings.Contains(Names, c.no+" or "+c.yes) {
			t.Errorf("%s or %s is not among the names", c.no, c.yes)
		}
	}
}
