package compat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/render"
)

// renderCase is one way to call journalctl and the options that mean the same.
type renderCase struct {
	name string
	args []string
	env  []string
	o    render.Options
}

func renderCases(t *testing.T) []renderCase {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return []renderCase{
		{"plain", nil, nil, render.Options{}},
		{"all", []string{"-a"}, nil, render.Options{All: true}},
		{"full", []string{"-l"}, nil, render.Options{}},
		{"no-full", []string{"--no-full"}, nil, render.Options{NoFull: true}},
		{"no-full all", []string{"--no-full", "-a"}, nil, render.Options{NoFull: true, All: true}},
		{"no-full wide", []string{"--no-full"}, []string{"COLUMNS=400"}, render.Options{NoFull: true, Columns: 400}},
		{"no-full narrow", []string{"--no-full"}, []string{"COLUMNS=30"}, render.Options{NoFull: true, Columns: 30}},
		{"no-full C", []string{"--no-full"}, []string{"LC_ALL=C"}, render.Options{NoFull: true, ASCII: true}},
		{"no-hostname", []string{"--no-hostname"}, nil, render.Options{NoHostname: true}},
		{"Berlin", nil, []string{"TZ=Europe/Berlin"}, render.Options{Location: berlin}},
		{"Berlin utc", []string{"--utc"}, []string{"TZ=Europe/Berlin"}, render.Options{Location: berlin, UTC: true}},
		{"16 colours", nil, []string{"SYSTEMD_COLORS=16", "SYSTEMD_URLIFY=0"}, render.Options{Colors: render.Colors16}},
		{"256 colours", nil, []string{"SYSTEMD_COLORS=256", "SYSTEMD_URLIFY=0"}, render.Options{Colors: render.Colors256}},
		{"some fields", []string{"--output-fields=MESSAGE,TAG,_HOSTNAME,BIN"}, nil, render.Options{OutputFields: []string{"MESSAGE", "TAG", "_HOSTNAME", "BIN"}}},
	}
}

// TestRender compares every output mode with journalctl's, over entries that
// journalctl exported: what differs is in package render alone.
func TestRender(t *testing.T) {
	needJournalctl(t)
	file := filepath.Join(corpusDir(t), "awkward.journal")
	corpus := awkward()
	for i := range uint64(20) {
		corpus = append(corpus, corpusEntry{summerTime + i*1_000_000, 100 + i*i*3_000_000, bootB, []string{"MESSAGE=clock", "SYSLOG_IDENTIFIER=x"}})
	}
	writeCorpus(t, file, corpus)
	entries := entriesOf(t, file)
	if len(entries) != len(corpus) {
		t.Fatalf("%d entries of %d written", len(entries), len(corpus))
	}
	for _, c := range renderCases(t) {
		for _, mode := range render.Modes() {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				args := append([]string{"--file", file, "-q", "-o", mode}, c.args...)
				want := journalctl(t, c.env, args...)
				if c.o.Location == nil {
					c.o.Location = time.UTC
				}
				var got bytes.Buffer
				w := bufio.NewWriter(&got)
				p, err := render.New(mode, w, c.o)
				if err != nil {
					t.Fatal(err)
				}
				for i := range entries {
					if err := p.Print(&entries[i]); err != nil {
						t.Fatalf("entry %d: %v", i, err)
					}
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				compareOutput(t, mode, c.o, got.Bytes(), want)
			})
		}
	}
}

// journalctl runs the real one in UTC and returns its output.
func journalctl(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("journalctl", args...)
	cmd.Env = append(append(os.Environ(), "TZ=UTC", "LC_ALL=C.UTF-8", "SYSTEMD_LOG_LEVEL=info"), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("journalctl %q: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}

// compareOutput compares bytes, or for json what they say: the order of keys,
// and colours, are journalctl's own.
func compareOutput(t *testing.T, mode string, o render.Options, got, want []byte) {
	t.Helper()
	m, err := render.ParseMode(mode)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case m.IsJSON() && o.Colors != render.None:
		t.Skip("json has no colours here")
	case m.IsJSON():
		if d := cmp.Diff(parseJSON(t, want), parseJSON(t, got)); d != "" {
			t.Errorf("json differs (-journalctl +render):\n%.2000s", d)
		}
	case m == render.Cat && len(o.OutputFields) > 0:
		// The order of the fields is that of a hash table.
		if d := cmp.Diff(lineCounts(want), lineCounts(got)); d != "" {
			t.Errorf("lines differ (-journalctl +render):\n%.2000s", d)
		}
	default:
		if d := diffLines(got, want); d != "" {
			t.Error(d)
		}
	}
}

func lineCounts(b []byte) map[string]int {
	counts := make(map[string]int)
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		counts[string(line)]++
	}
	return counts
}

func parseJSON(t *testing.T, b []byte) []map[string]any {
	t.Helper()
	b = bytes.ReplaceAll(b, []byte("\x1e"), nil)
	b = regexp.MustCompile(`(?m)^-- cursor: .*\n`).ReplaceAll(b, nil) // --show-cursor
	b = bytes.ReplaceAll(b, []byte("\ndata: {"), []byte("\n{"))
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte("data: "))))
	var all []map[string]any
	for {
		var m map[string]any
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("entry %d: %v", len(all), err)
		}
		all = append(all, m)
	}
}
