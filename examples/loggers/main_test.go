package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Every record of each logger is in the file or in one of those before, whole and
// once.
func TestRun(t *testing.T) {
	const n = 1000
	path := filepath.Join(t.TempDir(), "app.log")
	if err := run(path, n); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(path + "*")
	if err != nil || len(names) < 2 {
		t.Fatalf("%q, %v: no file before", names, err)
	}
	seen := map[int]int{}
	for _, name := range names {
		for line := range strings.Lines(contents(t, name)) {
			var record struct {
				Msg, Message string
				ID           *int
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil || record.ID == nil || record.Msg+record.Message != "served" {
				t.Fatalf("%s: %q, %v", name, line, err)
			}
			seen[*record.ID]++
		}
	}
	for id := range n {
		if seen[id] != 3 {
			t.Errorf("record %d is there %d times, want once of each logger", id, seen[id])
		}
	}
	if err := run(filepath.Join(path, "no directory"), 1); err == nil {
		t.Error("no error where no file can be")
	}
}

// contents are what a file holds, uncompressed.
func contents(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(name, ".zst") {
		z, err := zstd.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		from = z
	}
	b, err := io.ReadAll(from)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(b)
}
