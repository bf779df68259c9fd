package demo

import (
	"bufio"
	"bytes"
	_ "embed" // the sample that ships
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed sample.txt
var sampleText string

// sampleLines returns the lines that ship with the program.
func sampleLines() []string { return strings.Split(strings.TrimSpace(sampleText), "\n") }

// realLimit bounds what is read of each of the machine's own logs, in bytes.
const realLimit = 256 << 10

// realLines returns lines of the machine's own readable text logs, and the
// names of the files they come from. Compressed and binary files are passed
// over.
func realLines(pattern string) (lines, files []string) {
	paths, _ := filepath.Glob(pattern) // the only error is a bad pattern, and ours is fixed
	for _, p := range paths {
		got := readLines(p)
		if len(got) > 0 {
			lines, files = append(lines, got...), append(files, p)
		}
	}
	return lines, files
}

func readLines(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	var lines []string
	sc := bufio.NewScanner(io.LimitReader(f, realLimit))
	for sc.Scan() {
		b := bytes.TrimSpace(sc.Bytes())
		if bytes.IndexByte(b, 0) >= 0 {
			return nil
		}
		if len(b) > 0 && len(b) < 8<<10 {
			lines = append(lines, strings.ToValidUTF8(string(b), "?"))
		}
	}
	return lines
}
