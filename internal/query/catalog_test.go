package query

import (
	"bufio"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// catalogOf makes a database of texts by id and language: an id is repeated in
// each byte.
func catalogOf(texts map[string]string) []byte {
	keys := make([]string, 0, len(texts))
	for k := range texts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b := []byte(catalogMagic)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint64(b, catalogHeader)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(keys)))
	b = binary.LittleEndian.AppendUint64(b, catalogItem)
	var all []byte
	for _, k := range keys {
		var key [16 + catalogLanguage]byte
		copy(key[:], strings.Repeat(k[:1], 16))
		copy(key[16:], k[1:])
		b = append(b, key[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(all)))
		all = append(append(all, texts[k]...), 0)
	}
	return append(b, all...)
}

func sampleCatalog() []byte {
	return catalogOf(map[string]string{
		"\x01": "Subject: one\nDefined-By: us\n\nText of @NAME@, @MISSING@, @LONG@, a@b @x@ @ @@.\n",
		"\x02": "none", "\x02de": "kein", "\x02de_AT": "kan", "\x03": "three",
	})
}

func idOf(b byte) (id entry.ID) {
	for i := range id {
		id[i] = b
	}
	return id
}

// TestCatalog: texts are found by id, in the language of the user or the next one
// to it, with values of the entry's fields in them.
func TestCatalog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "database")
	if err := os.WriteFile(path, sampleCatalog(), 0o600); err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[string]string{"": "none", "C": "none", "C.UTF-8": "none", "de": "kein", "de_DE.UTF-8": "kein", "de_AT.UTF-8": "kan", "fr_FR": "none", "POSIX": "none"} {
		c, err := OpenCatalog(path, locale)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Text(idOf(2)); got != want {
			t.Errorf("%q: %q, want %q", locale, got, want)
		}
		if got := c.Text(idOf(9)); got != "" {
			t.Errorf("an id that is not there: %q", got)
		}
	}
	c, err := OpenCatalog(path, "C")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("l", 300)
	e := &entry.Entry{Fields: []entry.Field{
		[]byte("MESSAGE_ID=" + idOf(1).String()), []byte("NAME=value"), []byte("LONG=" + long),
	}}
	if got, want := c.Explain(e), "Subject: one\nDefined-By: us\n\nText of value, MISSING, LONG, a@b @x@ @ @@.\n"; got != want {
		t.Errorf("explained by %q, want %q", got, want)
	}
	for _, e := range []*entry.Entry{{}, {Fields: []entry.Field{[]byte("MESSAGE_ID=x")}}} {
		if got := c.Explain(e); got != "" {
			t.Errorf("explained by %q", got)
		}
	}
	for oneLine, want := range map[bool]string{
		true:  idOf(1).String() + " us: one\n" + idOf(3).String() + " n/a: n/a\n",
		false: "-- " + idOf(1).String() + "\n" + c.Text(idOf(1)) + "\n-- " + idOf(3).String() + "\nthree\n",
	} {
		var b strings.Builder
		w := bufio.NewWriter(&b)
		err := errors.Join(c.List(w, []entry.ID{idOf(1), idOf(3)}, oneLine), w.Flush())
		if err != nil || b.String() != want {
			t.Errorf("listed %q, %v; want %q", b.String(), err, want)
		}
	}
	if err := c.List(bufio.NewWriter(&strings.Builder{}), []entry.ID{idOf(7)}, true); err == nil {
		t.Error("an id that is not there was listed")
	}
}

// FuzzCatalog: whatever a database holds, it is refused or can be asked.
func FuzzCatalog(f *testing.F) {
	good := sampleCatalog()
	f.Add(good)
	f.Add(good[:len(good)-3])
	for _, at := range []int{0, 12, 16, 24, 31, 32, 39, 40, catalogHeader + 48, catalogHeader + 55} {
		bad := slices.Clone(good)
		bad[at] ^= 0xff
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCatalog(data, "de_AT.UTF-8")
		if err != nil {
			return
		}
		if c.items+c.n*c.size != c.texts || c.texts > len(data) {
			t.Fatalf("%d items of %d bytes from %d, texts from %d of %d", c.n, c.size, c.items, c.texts, len(data))
		}
		c.Text(idOf(2))
		w := bufio.NewWriter(&strings.Builder{})
		_ = c.List(w, nil, true) // a text may be missing
	})
}
