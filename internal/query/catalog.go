package query

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// CatalogFile is where systemd keeps the texts that explain messages, below a
// root directory.
const CatalogFile = "/var/lib/systemd/catalog/database"

// Layout of the database (catalog.c of systemd): a header with its own size, the
// number of items and the size of one; items sorted by id and language; texts
// that end with a NUL.
const (
	catalogMagic    = "RHHHKSLP"
	catalogHeader   = 40
	catalogItem     = 56
	catalogLanguage = 32
)

// Catalog holds explanations of messages, by MESSAGE_ID and language. It is
// immutable.
type Catalog struct {
	data         []byte
	items, texts int // where they begin
	size, n      int // of an item; how many there are
	languages    []string
}

var errCatalog = errors.New("not a message catalog")

// OpenCatalog reads the database in path. locale is the user's, as in LC_MESSAGES.
func OpenCatalog(path, locale string) (*Catalog, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parseCatalog(data, locale)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// parseCatalog checks what data says of itself.
func parseCatalog(data []byte, locale string) (*Catalog, error) {
	le := binary.LittleEndian
	if len(data) < catalogHeader || string(data[:8]) != catalogMagic || le.Uint32(data[12:]) != 0 {
		return nil, errCatalog
	}
	header, n, size := le.Uint64(data[16:]), le.Uint64(data[24:]), le.Uint64(data[32:])
	room := uint64(len(data))
	if header < catalogHeader || size < catalogItem || header > room || n > room || size > room || n*size/size != n || n*size > room-header {
		return nil, errCatalog
	}
	c := &Catalog{data: data, items: int(header), size: int(size), n: int(n), texts: int(header + n*size)} //nolint:gosec // within data
	name, _, _ := strings.Cut(locale, ".")
	if name != "C" && name != "POSIX" && name != "" {
		c.languages = append(c.languages, name)
		if short, _, found := strings.Cut(name, "_"); found {
			c.languages = append(c.languages, short)
		}
	}
	c.languages = append(c.languages, "")
	return c, nil
}

// item returns the key of item i, its id and language, and its text.
func (c *Catalog) item(i int) (key [16 + catalogLanguage]byte, text string) {
	b := c.data[c.items+i*c.size:]
	copy(key[:], b)
	at := binary.LittleEndian.Uint64(b[16+catalogLanguage:])
	if at >= uint64(len(c.data)-c.texts) { //nolint:gosec // a length
		return key, ""
	}
	rest := c.data[uint64(c.texts)+at:] //nolint:gosec // within data
	if end := bytes.IndexByte(rest, 0); end >= 0 {
		rest = rest[:end]
	}
	return key, string(rest)
}

// Text returns what explains messages with an id, in the user's language if there
// is one; empty when nothing does.
func (c *Catalog) Text(id entry.ID) string {
	for _, language := range c.languages {
		var want [16 + catalogLanguage]byte
		copy(want[:], id[:])
		copy(want[16:], language)
		i := sort.Search(c.n, func(i int) bool {
			key, _ := c.item(i)
			return bytes.Compare(key[:], want[:]) >= 0
		})
		if i < c.n {
			if key, text := c.item(i); key == want {
				return text
			}
		}
	}
	return ""
}

// explainLimit is the longest field that is put into an explanation, with its
// name, in bytes.
const explainLimit = 256

// Explain returns the explanation of e, with values of its fields in the place of
// @FIELD@; empty when there is none.
func (c *Catalog) Explain(e *entry.Entry) string {
	value, ok := e.Get("MESSAGE_ID")
	if !ok {
		return ""
	}
	id, err := entry.ParseID(string(value))
	if err != nil {
		return ""
	}
	text := c.Text(id)
	var b strings.Builder
	for text != "" {
		at := strings.IndexByte(text, '@')
		if at < 0 {
			break
		}
		b.WriteString(text[:at])
		text = text[at:]
		n := len(text[1:]) - len(strings.TrimLeft(text[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"))
		if n == 0 || n+1 >= len(text) || text[n+1] != '@' {
			b.WriteByte('@')
			text = text[1:]
			continue
		}
		name := text[1 : n+1]
		text = text[n+2:]
		if v, ok := e.Get(name); ok && len(name)+1+len(v) <= explainLimit {
			b.Write(v)
		} else {
			b.WriteString(name)
		}
	}
	return b.String() + text
}

// List prints the explanations of ids, or all, with oneLine only what they are
// about.
func (c *Catalog) List(w *bufio.Writer, ids []entry.ID, oneLine bool) error {
	if len(ids) == 0 {
		for i := range c.n {
			key, _ := c.item(i)
			id := entry.ID(key[:16])
			if len(ids) == 0 || ids[len(ids)-1] != id {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		text := c.Text(id)
		var err error
		switch {
		case text == "":
			err = wordsf("Failed to retrieve catalog entry for '%s': No such file or directory", id)
		case oneLine:
			_, err = fmt.Fprintf(w, "%s %s: %s\n", id, catalogField(text, "Defined-By:"), catalogField(text, "Subject:"))
		default:
			_, err = fmt.Fprintf(w, "-- %s\n%s\n", id, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// catalogField returns a header of an explanation.
func catalogField(text, name string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			break
		}
		if value, found := strings.CutPrefix(line, name); found {
			return strings.TrimLeft(value, " \t")
		}
	}
	return "n/a"
}

// CatalogIn is the path of the database below root.
func CatalogIn(root string) string {
	if root == "" {
		return CatalogFile
	}
	return filepath.Join(root, CatalogFile)
}
