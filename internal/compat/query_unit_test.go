package compat

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/query"
)

// unitOf asks journalctl which unit it takes a name for: it says what it matches
// when it is asked to debug. ok is false where it refuses the name.
func unitOf(t *testing.T, file, name string) (unit string, ok bool) {
	t.Helper()
	cmd := exec.Command("journalctl", "--file", file, "-u", name)
	cmd.Env = append(cmd.Environ(), "SYSTEMD_LOG_LEVEL=debug")
	out, err := cmd.CombinedOutput()
	m := regexp.MustCompile(`(?s)Journal filter: .* OR _SYSTEMD_UNIT=(.*?)(?: OR _SYSTEMD_SLICE=.*?)?\)\)?(?: AND .*)?\n`).FindSubmatch(out)
	if err != nil || m == nil {
		return "", false
	}
	return strings.ReplaceAll(string(bytes.TrimRight(m[1], ")")), `\\`, `\`), true
}

// TestQueryUnits compares the units that names stand for.
func TestQueryUnits(t *testing.T) {
	needJournalctl(t)
	file := filepath.Join(corpusDir(t), "units.journal")
	writeCorpus(t, file, ordinary(corpusStart, bootA, 1))
	names := []string{
		"ssh", "ssh.service", "/a/../b", ".", "..", "a/../b", "@", "@x", "..service", ".service", "a b", "x.foo", "-", "/", "//", "///a//b/", "/dev", "/dev/", "/dev/sda", "/dev/../x", "/sys/", "/sys/devices/x", "é",
		"/a*", "/dev/a*", `a\b`, `/a\b`, "a@b.service", "a@b@c.timer", "x.", "x.SERVICE", "/a/./b", "/./a", "/.", "/..", "/.hidden", "/a/.b", "/-", "a:b", "/a:b", "foo.slice", "/x.service", "/dev/x.service", "a=b", "a,b",
		strings.Repeat("a", 255), strings.Repeat("a", 247), strings.Repeat("a", 300), "", " ", "\t", "a\n",
	}
	n := 3
	if full() {
		n = 400
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		b := make([]byte, 1+r.IntN(8))
		for i := range b {
			b[i] = "ab@.-_/:\\ /.x%!=devsy"[r.IntN(21)]
		}
		names = append(names, string(b), string(b)+".service", "/"+string(b), "/dev/"+string(b))
	}
	for _, name := range names {
		if strings.ContainsAny(name, ")") {
			continue
		}
		want, ok := unitOf(t, file, name)
		got, err := query.MangleUnit(name)
		if got != want || ok != (err == nil) {
			t.Errorf("-u %q means %q (%v), to journalctl %q (%v)", name, got, err, want, ok)
		}
	}
}
