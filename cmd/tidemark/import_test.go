package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/journal"
)

// TestInputReaderStops: an import that was told to end reads no more, however
// large the input is.
func TestInputReaderStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	put(t, path, "some text")
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var stopped error
	var seen bool
	r := &inputReader{in: in, seen: &seen, stopped: func() error { return stopped }}
	b := make([]byte, 4)
	if n, err := r.Read(b); n != 4 || err != nil || !seen {
		t.Errorf("Read = %d, %v; seen %t", n, err, seen)
	}
	stopped = errors.New("told to")
	if n, err := r.Read(b); n != 0 || !errors.Is(err, stopped) {
		t.Errorf("Read = %d, %v, want 0 and the reason", n, err)
	}
}

// exported writes entries in the export format, the nth at the monotonic time
// that at returns.
func exported(t *testing.T, n int, at func(i int) int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=710d035a90fb403c855864972948eda1\nMESSAGE=message %d\n\n", 1_700_000_000_000_000+i, at(i), i)
	}
	path := filepath.Join(t.TempDir(), "in.export")
	put(t, path, b.String())
	return path
}

// importSmall imports into files of the smallest size and returns what was
// printed, and the messages in the files that resulted, in their order.
func importSmall(t *testing.T, in string) (printed string, messages []string, err error) {
	t.Helper()
	dir := t.TempDir()
	var out strings.Builder
	r := &importRun{path: filepath.Join(dir, "x.journal"), out: &out, notes: &out, maxSize: journal.MinMaxSize}
	err = r.run(t.Context(), []string{in})
	j, openErr := journal.ReadOptions{}.OpenDir(dir)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer j.Close()
	for {
		e, nextErr := j.Next()
		if errors.Is(nextErr, io.EOF) {
			break
		}
		if nextErr != nil {
			t.Fatal(nextErr)
		}
		m, _ := e.Get("MESSAGE")
		messages = append(messages, string(m))
		if e.Seqnum != uint64(len(messages)) {
			t.Fatalf("entry %d has the number %d", len(messages), e.Seqnum)
		}
	}
	return strings.ReplaceAll(out.String(), dir+"/", ""), messages, err
}

// TestImportFull: what does not fit into a file goes on in the next, whole, in
// order and with the same sequence, and that is said.
func TestImportFull(t *testing.T) {
	const n = 3000
	printed, messages, err := importSmall(t, exported(t, n, func(i int) int { return i + 1 }))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if i >= len(messages) || messages[i] != fmt.Sprintf("message %d", i) {
			t.Fatalf("%d messages, and number %d is another", len(messages), i)
		}
	}
	if len(messages) != n {
		t.Errorf("%d messages, want %d", len(messages), n)
	}
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	if want := regexp.MustCompile(`^x@[0-9a-f]+-0000000000000001-00060a24181e4000\.journal: [0-9]+ entries, continued: (size limit reached|data hash table full)$`); len(lines) < 2 || !want.MatchString(lines[0]) {
		t.Errorf("printed:\n%s", printed)
	}
}

// TestImportDisordered: entries in no order at all would make a file each.
func TestImportDisordered(t *testing.T) {
	_, messages, err := importSmall(t, exported(t, 110, func(i int) int { return 1000 - i }))
	if err == nil || !strings.HasSuffix(err.Error(), ": the order of the entries broke 101 times: sort them by time first") {
		t.Errorf("error %v", err)
	}
	if len(messages) != 101 {
		t.Errorf("%d messages are kept, want 101", len(messages))
	}
	for _, tt := range []struct {
		breaks, entries uint64
		want            bool
	}{{100, 100, false}, {101, 101, true}, {101, 101*100 - 1, true}, {101, 101 * 100, false}, {5000, 5000 * 99, true}} {
		if got := tooDisordered(tt.breaks, tt.entries); got != tt.want {
			t.Errorf("%d breaks in %d entries: too many %t, want %t", tt.breaks, tt.entries, got, tt.want)
		}
	}
}
