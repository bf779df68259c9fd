package demo

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// noise is an entry that no feeder sent, easily found in a file.
const noise = "an entry of somebody else, which the proof does not count"

// scene is what a demo has at its end: a data directory, and what was promised
// of it. Each feeder has sent four records, of which the last was promised
// nothing; those over HTTP were answered, the others synchronized.
type scene struct {
	*stage
	out     *bytes.Buffer
	records []string // to be written, in this order
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	s := &scene{out: &bytes.Buffer{}, records: []string{noise}}
	s.stage = &stage{
		o:   Options{Out: s.out, measure: time.Millisecond},
		dir: dir, data: filepath.Join(dir, "journal"),
	}
	for i, kind := range kinds {
		c := &child{kind: kind, sent: 4, answered: map[int]bool{}}
		if kind == "http" {
			c.answered = map[int]bool{0: true, 1: true, 2: true}
		} else {
			c.synced = 3
		}
		s.feeders = append(s.feeders, c)
		for seq := range c.sent {
			s.records = append(s.records, record{feeder: i, seq: seq, text: "a line"}.encode())
		}
	}
	return s
}

// at is the place of a record in s.records.
func (s *scene) at(feeder, seq int) int { return 1 + 4*feeder + seq }

// write writes the records to one file and returns its path.
func (s *scene) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(s.data, "0123456789abcdef0123456789abcdef")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "system.journal")
	w, err := journal.Create(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range s.records {
		if _, _, err := w.Append(t.Context(), []entry.Entry{{Fields: []entry.Field{entry.Field("MESSAGE=" + text)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// damage changes a byte of the noise in a file.
func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(noise))
	if at < 0 {
		t.Fatal("the noise is not in the file as it is")
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// faults are what may be wrong with a scene: before it is written, and in its
// file. want is the error, part of it; empty: none.
var faults = []struct {
	name   string
	before func(s *scene)
	after  func(t *testing.T, s *scene, path string)
	want   string
}{
	{"nothing", nil, nil, ""},
	{"what was in flight is not there", func(s *scene) { s.lose(2, 3) }, nil, ""},
	{"lost after a Synchronize", func(s *scene) { s.lose(0, 1) }, nil, "1 acknowledged records lost, 0 torn"},
	{"lost after an answer", func(s *scene) { s.lose(3, 2) }, nil, "1 acknowledged records lost, 0 torn"},
	{"doubled", func(s *scene) { s.records = append(s.records, s.records[s.at(1, 1)]) }, nil, "0 acknowledged records lost, 1 torn"},
	{"doubled in flight", func(s *scene) { s.records = append(s.records, s.records[s.at(1, 3)]) }, nil, "0 acknowledged records lost, 1 torn"},
	{"torn", func(s *scene) { s.tear(5, 0) }, nil, "1 acknowledged records lost, 1 torn"},
	{"torn in flight", func(s *scene) { s.tear(5, 3) }, nil, "0 acknowledged records lost, 1 torn"},
	{"of a ninth feeder", func(s *scene) { s.records = append(s.records, record{feeder: 8, text: "x"}.encode()) }, nil, "0 acknowledged records lost, 1 torn"},
	{"a file is damaged", nil, func(t *testing.T, _ *scene, path string) { damage(t, path) }, "system.journal"},
	{"a file set aside is damaged", nil, func(t *testing.T, s *scene, path string) {
		s.data = filepath.Join(s.dir, "second")
		s.records = s.records[:1]
		other := s.write(t)
		damage(t, other)
		s.data = filepath.Join(s.dir, "journal")
		if err := os.Rename(other, filepath.Join(filepath.Dir(path), "system@0006000000000000-0000000000000000.journal~")); err != nil {
			t.Fatal(err)
		}
	}, "system@0006000000000000-0000000000000000.journal~"},
	{"nothing was acknowledged", func(s *scene) {
		for _, c := range s.feeders {
			c.synced, c.answered = 0, nil
		}
	}, nil, "nothing was acknowledged"},
	{"nothing was answered", func(s *scene) {
		for _, c := range s.feeders {
			c.answered = nil
		}
	}, nil, "nothing was acknowledged"},
}

// lose leaves a record out.
func (s *scene) lose(feeder, seq int) { s.records[s.at(feeder, seq)] = noise }

// tear cuts a record's end off.
func (s *scene) tear(feeder, seq int) {
	r := &s.records[s.at(feeder, seq)]
	*r = (*r)[:len(*r)-1]
}

// TestTheProofFails on each fault, with both ways of checking a file, and says
// so; without one it does not.
func TestTheProofFails(t *testing.T) {
	for _, tool := range []string{"journalctl", "tidemark"} {
		t.Run(tool, func(t *testing.T) {
			if tool == "tidemark" {
				t.Setenv("PATH", "")
			} else if _, err := exec.LookPath(tool); err != nil {
				t.Skip("no journalctl here")
			}
			for _, tt := range faults {
				if tool == "journalctl" && tt.after == nil && tt.want != "" {
					continue // whose records are missing is seen without it
				}
				t.Run(tt.name, func(t *testing.T) {
					s := newScene(t)
					if tt.before != nil {
						tt.before(s)
					}
					path := s.write(t)
					if tt.after != nil {
						tt.after(t, s, path)
					}
					checkProof(t, s, tool, tt.want)
				})
			}
		})
	}
}

// TestNextFileIsSaid: what is prepared, and has no entries yet, is checked and said.
func TestNextFileIsSaid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	var want []string
	for name, what := range map[string]string{"system.journal": "", "upcoming@1.journal": " (the next file, empty)"} {
		path := filepath.Join(dir, name)
		w, err := journal.Create(path, journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want = append(want, "PASS  tidemark verify (no journalctl here): "+path+what)
	}
	slices.Sort(want)
	got, err := verifyAll(t.Context(), filepath.Dir(dir))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v; lines (-want +got):\n%s", err, diff)
	}
}

// checkProof plays the last act of the demo and wants its outcome.
func checkProof(t *testing.T, s *scene, tool, want string) {
	t.Helper()
	err := s.prove(t.Context(), outcome{}, outcome{})
	said := s.out.String()
	if !strings.Contains(said, "  "+tool+" --verify") && !strings.Contains(said, "  "+tool+" verify") {
		t.Errorf("not checked by %s:\n%s", tool, said)
	}
	if want == "" {
		if err != nil || !strings.HasSuffix(said, "\nlost 0, torn 0: every acknowledged record is in its file, whole and once\n") || strings.Contains(said, "FAIL") {
			t.Errorf("error %v; said:\n%s", err, said)
		}
		return
	}
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want that the proof failed: %s", err, want)
	}
	if strings.Contains(said, "every acknowledged record is in its file") {
		t.Errorf("said all the same:\n%s", said)
	}
}

// TestTheProofNeedsFiles: without any nothing is proved, and what a file that was
// cut off has held is lost.
func TestTheProofNeedsFiles(t *testing.T) {
	if err := newScene(t).prove(t.Context(), outcome{}, outcome{}); err == nil || !strings.HasPrefix(err.Error(), "read back: ") {
		t.Errorf("without a data directory: %v", err)
	}
	s := newScene(t)
	if err := os.Truncate(s.write(t), 100); err != nil {
		t.Fatal(err)
	}
	if err := s.prove(t.Context(), outcome{}, outcome{}); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "24 acknowledged records lost") {
		t.Errorf("with a file that was cut off: %v\n%s", err, s.out)
	}
}

// TestVerdicts: what the demo prints of each fault.
func TestVerdicts(t *testing.T) {
	t.Setenv("PATH", "")
	s := newScene(t)
	s.lose(0, 1)
	s.tear(5, 3)
	damage(t, s.write(t))
	if err := s.prove(t.Context(), outcome{}, outcome{}); !errors.Is(err, ErrLost) {
		t.Errorf("error %v, want that the proof failed", err)
	}
	for _, line := range []string{
		"  sent            32\n",
		"  acked           24   (6 by answers, 18 by Synchronize)\n",
		"  in flight        8   at the kill: sent, promised nothing (7 of them are stored all the same)\n",
		"  stored          30\n",
		"  lost             1   acknowledged and not there\n",
		"  torn             1   there, but not whole or twice\n",
		"  FAIL  tidemark verify (no journalctl here): ",
		"\nFAILED: 1 lost, 1 torn\n",
	} {
		if !strings.Contains(s.out.String(), line) {
			t.Errorf("no %q in:\n%s", line, s.out)
		}
	}
}
