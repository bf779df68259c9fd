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

// openCatalog reads systemd's message catalog, in the language of the user.
func (a *queryArgs) openCatalog() (*query.Catalog, error) {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	return query.OpenCatalog(query.CatalogIn(a.rootDir), locale)
}

// explain has entries explained, for -x, where there is a catalog.
func (a *queryArgs) explain(stderr io.Writer) {
	if !a.catalog || a.action != actShow {
		return
	}
	c, err := a.openCatalog()
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
	c, err := a.openCatalog()
	if err != nil {
		return withHint(wordsf("Failed to list catalog: %w", query.Reason(err)), query.CatalogIn(a.rootDir)+" is made by journalctl --update-catalog")
	}
	w := bufio.NewWriter(stdout)
	return errors.Join(c.List(w, ids, a.action == actListCatalog), w.Flush())
}
