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
	for i, n := range new(counts).list() {
		if n.Name == "" || !strings.Contains(string(b), "`"+n.Reason+"`") {
			t.Errorf("count %d, %s %q, is not in docs/PROTOCOLS.md", i, n.Name, n.Reason)
		}
	}
}
