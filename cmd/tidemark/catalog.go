package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/query"
)

// openCatalog reads a message catalog, in the language of the user.
func openCatalog(path string) (*query.Catalog, error) {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	return query.OpenCatalog(path, locale)
}

// explain has entries explained, for -x, where there is a catalog in path.
func (a *queryArgs) explain(path string, stderr io.Writer) {
	if !a.catalog || a.action != actShow {
		return
	}
	c, err := openCatalog(path)
	if err == nil {
		a.render.Explain = c.Explain
	} else if !a.query.Quiet {
		_, _ = fmt.Fprintf(stderr, "-x: entries are shown without explanations: %v: journalctl --update-catalog makes systemd's message catalog.\n", err)
	}
}

// listCatalog prints the message catalog, or what it says of the ids given.
func (a *queryArgs) listCatalog(stdout io.Writer) error {
	var ids []entry.ID
	for _, word := range a.query.Matches {
		id, err := entry.ParseID(word)
		if err != nil {
			return &usageError{withHint(wordsf("Failed to parse id128 '%s': Invalid argument", word), "want a MESSAGE_ID of 32 hexadecimal digits")}
		}
		ids = append(ids, id)
	}
	c, err := openCatalog(query.CatalogIn(a.rootDir))
	if err != nil {
		return withHint(wordsf("Failed to list catalog: %w", query.Reason(err)), query.CatalogIn(a.rootDir)+" is made by journalctl --update-catalog")
	}
	w := bufio.NewWriter(stdout)
	return errors.Join(c.List(w, ids, a.action == actListCatalog), w.Flush())
}
