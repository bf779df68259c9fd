package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKeysAreDocumented: the table of docs/CONFIGURATION.md has every key that
// does something, and no other.
func TestKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| key | default | value |")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(first, -1) {
			documented = append(documented, m[1])
		}
	}
	const oldName = "RateLimitInterval" // of RateLimitIntervalSec, which journald takes too
	var acted []string
	for _, k := range keys {
		if k.set != nil && k.name != oldName {
			acted = append(acted, k.name)
		}
	}
	for _, name := range acted {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/CONFIGURATION.md does not say what %s= does", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(acted, name) {
			t.Errorf("docs/CONFIGURATION.md has %s=, which does nothing", name)
		}
	}
}
