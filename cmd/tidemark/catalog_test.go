package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNoCatalog: that there is no catalog is said once, for -x, unless -q is
// given; entries are shown all the same.
func TestNoCatalog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "database")
	for line, said := range map[string]bool{"-x": true, "-x -q": false, "-q": false, "": false, "-x -N": false} {
		a, err := parseQuery(strings.Fields(line), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		a.explain(path, &stderr)
		if got := strings.Contains(stderr.String(), path) && strings.Contains(stderr.String(), "journalctl --update-catalog"); got != said || stderr.Len() > 0 != said || a.render.Explain != nil {
			t.Errorf("%q says %q", line, stderr.String())
		}
	}
}
