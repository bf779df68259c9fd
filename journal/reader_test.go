package journal

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-log/tidemark/entry"
)

// sampleNames are the files in testdata that a reader must understand.
var sampleNames = []string{"r-00", "r-01", "r-10", "r-11", "esc", "sealed-system"}

// sample unpacks testdata/name.journal.* into a directory of the test.
func sample(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".journal")
	if err := os.WriteFile(path, sampleBytes(t, name), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sampleBytes(t testing.TB, name string) []byte {
	t.Helper()
	if f, err := os.Open(filepath.Join("testdata", name+".journal.gz")); err == nil {
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	packed, err := os.ReadFile(filepath.Join("testdata", name+".journal.zst"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	b, err := z.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// journalctl runs the real one and returns what it prints.
func journalctl(t testing.TB, args ...string) string {
	t.Helper()
	tool, err := exec.LookPath("journalctl")
	if err != nil {
		t.Skip("no journalctl here to compare with")
	}
	cmd := exec.Command(tool, append([]string{"--no-pager", "-q"}, args...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("journalctl %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// readModes are the ways to read, which must not differ in what they deliver.
var readModes = map[string]ReadOptions{
	"pread": {},
	"map":   {Map: true},
}

func openSample(t testing.TB, o ReadOptions, paths ...string) *Journal {
	t.Helper()
	j, err := o.Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	if skipped := j.Skipped(); len(skipped) > 0 {
		t.Fatal(skipped)
	}
	return j
}

func export(t testing.TB, j *Journal, dir direction) string {
	t.Helper()
	var b []byte
	for e, err := range j.each(dir) {
		if err != nil {
			t.Fatal(err)
		}
		b = entry.AppendExport(b, e)
	}
	return string(b)
}

func TestExportEqualsJournalctl(t *testing.T) {
	oneGoroutine(t)
	for _, name := range sampleNames {
		for mode, o := range readModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				path := sample(t, name)
				j := openSample(t, o, path)
				if diff := cmp.Diff(journalctl(t, "--file", path, "-o", "export"), export(t, j, down)); diff != "" {
					t.Errorf("forward (-journalctl +ours):\n%s", diff)
				}
				j.SeekTail()
				if diff := cmp.Diff(journalctl(t, "--file", path, "-o", "export", "-r"), export(t, j, up)); diff != "" {
					t.Errorf("backward (-journalctl +ours):\n%s", diff)
				}
				if w := j.Warnings(); len(w) > 0 {
					t.Errorf("warnings about a good file: %v", w)
				}
			})
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, sample(t, "r-11"))
			for range 100 {
				if _, err := j.Next(); err != nil {
					t.Fatal(err)
				}
			}
			allocs := testing.AllocsPerRun(500, func() {
				if _, err := j.Next(); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations an entry", allocs)
			}
		})
	}
}

func fileBytes(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
