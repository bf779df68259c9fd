package entry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

func TestParseID(t *testing.T) {
	const digits, dashes = "710d035a90fb403c855864972948eda1", "710d035a-90fb-403c-8558-64972948eda1"
	for _, s := range []string{digits, strings.ToUpper(digits), dashes} {
		id, err := entry.ParseID(s)
		if err != nil || id.String() != digits || id.IsZero() {
			t.Errorf("ParseID(%q) = %s, %v", s, id, err)
		}
	}
	if id, err := entry.ParseID(strings.Repeat("0", 32)); err != nil || !id.IsZero() {
		t.Errorf("ParseID of zeros = %s, %v", id, err)
	}
	if (entry.ID{15: 1}).IsZero() {
		t.Error("an id that ends in 1 is zero")
	}
	for _, s := range []string{
		"", digits[1:], digits + "0", digits + "\n", "g" + digits[1:], dashes[1:],
		"710d035a9-0fb-403c-8558-64972948eda1", "----" + digits, digits[:16] + "----" + digits[16:],
	} {
		if id, err := entry.ParseID(s); err == nil || !id.IsZero() || !strings.Contains(err.Error(), "want 32 hexadecimal digits") {
			t.Errorf("ParseID(%q) = %s, %v, want an error that says what is wanted", s, id, err)
		}
	}
}

func TestFieldParts(t *testing.T) {
	for _, tt := range []struct{ field, name, value string }{
		{"A=b", "A", "b"},
		{"A=b=c", "A", "b=c"},
		{"A=", "A", ""},
		{"=b", "", "b"},
	} {
		f := entry.Field(tt.field)
		if string(f.Name()) != tt.name || string(f.Value()) != tt.value || f.Value() == nil {
			t.Errorf("%q: name %q, value %q, want %q, %q", f, f.Name(), f.Value(), tt.name, tt.value)
		}
	}
	if f := entry.Field("AB"); string(f.Name()) != "AB" || f.Value() != nil {
		t.Errorf("without '=': name %q, value %q, want AB and nil", f.Name(), f.Value())
	}
}

func TestGet(t *testing.T) {
	e := jsonEntry("AB=1", "A=2", "A=3", "E=")
	for name, want := range map[string]string{"A": "2", "AB": "1", "E": ""} {
		if v, ok := e.Get(name); !ok || string(v) != want {
			t.Errorf("Get(%q) = %q, %v, want %q", name, v, ok, want)
		}
	}
	for _, name := range []string{"B", "ABC", "", "A=2"} {
		if v, ok := e.Get(name); ok || v != nil {
			t.Errorf("Get(%q) = %q, %v, want nothing", name, v, ok)
		}
	}
}

// What an error says: where, what kind, and what was found.
func TestErrorTexts(t *testing.T) {
	r := entry.NewExportReader(strings.NewReader("A=1\n_BOOT_ID=zz\n\n"), entry.ExportOptions{})
	_, err := r.Next()
	if want := `export stream: offset 4: invalid _BOOT_ID: "zz"`; err == nil || err.Error() != want {
		t.Errorf("error of the stream %q, want %q", err, want)
	}
	if e, ok := errors.AsType[*entry.ExportError](err); !ok || !errors.Is(e, entry.ErrExportBootID) {
		t.Errorf("%v is no *ExportError of its kind", err)
	}
}

// Every word for a level, in any case, and what is none.
func TestJSONDecoderLevels(t *testing.T) {
	words := []string{"emerg Emergency panic 0", "alert 1", "crit CRITICAL fatal 2", "err error 3", "warn Warning 4", "notice 5", "info informational information 6", "debug trace 7"}
	var d entry.JSONDecoder
	for level, of := range words {
		for _, word := range strings.Fields(of) {
			e, _, err := d.Decode([]byte(`{"message":"m","level":"` + word + `"}`))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := e.Get("PRIORITY")
			if d := cmp.Diff(string('0'+rune(level)), string(got)); d != "" {
				t.Errorf("%s (-want +got):\n%s", word, d)
			}
			if e.Urgent != (level <= 2) {
				t.Errorf("%s: urgent %v", word, e.Urgent)
			}
		}
	}
	for _, word := range []string{"8", "-1", "", "warnings", "a word of more than sixteen bytes"} {
		e, _, err := d.Decode([]byte(`{"message":"m","level":"` + word + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := e.Get("PRIORITY"); ok || e.Urgent {
			t.Errorf("level %q became PRIORITY=%s", word, got)
		}
		if got, _ := e.Get("LEVEL"); string(got) != word {
			t.Errorf("LEVEL=%s, want %q", got, word)
		}
	}
}
