package ingest

import (
	"os"
	"strings"
	"testing"
)

// Every count has a name, and docs/PROTOCOLS.md says what it counts.
func TestCountsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/PROTOCOLS.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	new(Ingest).EachCount(func(c Count) {
		if n++; c.Name == "" || !strings.Contains(string(b), "`"+c.Reason+"`") {
			t.Errorf("count %d, %s %q, is not in docs/PROTOCOLS.md", n, c.Name, c.Reason)
		}
	})
	if n != int(reasonCount)-1 {
		t.Errorf("%d counts, want %d", n, reasonCount-1)
	}
}
