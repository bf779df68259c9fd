package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
)

func TestReadID(t *testing.T) {
	dir := t.TempDir()
	const id = "00112233445566778899aabbccddeeff"
	for text, want := range map[string]string{
		id + "\n":                                id,
		"00112233-4455-6677-8899-aabbccddeeff\n": id,
		strings.Repeat("0", 32) + "\n":           "the id is zero",
		"uninitialized\n":                        "",
		"":                                       "",
	} {
		path := filepath.Join(dir, "id")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.ReadID(path)
		switch {
		case want == id:
			if err != nil || got.String() != id {
				t.Errorf("ReadID of %q = %s, %v", text, got, err)
			}
		case err == nil || !got.IsZero() || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want):
			t.Errorf("ReadID of %q = %s, %v; want the path and %q", text, got, err, want)
		}
	}
	if _, err := config.ReadID(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadID of no file: %v", err)
	}
}
