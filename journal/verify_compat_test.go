package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// verifyMutations is how many damaged files the comparison with journalctl
// makes of each sample; TIDEMARK_VERIFY_MUTATIONS overrides it.
const verifyMutations = 5

// vDamage changes some bytes of a good file and says what it did.
func vDamage(r *rand.Rand, b []byte) string {
	end := object.U64(b, object.HdrTailObjectOffset) + 400
	table := object.U64(b, object.HdrDataHashTableOffset)
	objects := table + object.U64(b, object.HdrDataHashTableSize)
	var off uint64
	switch r.IntN(10) {
	case 0: // the header
		off = r.Uint64N(object.HeaderSize252)
	case 1: // a used bucket
		for off = table + 8*r.Uint64N((objects-table)/8); object.U64(b, int(off)) == 0; {
			off += 8
		}
		off += r.Uint64N(8)
	default:
		off = objects + r.Uint64N(end-objects)
	}
	off = min(off, uint64(len(b))-9)
	switch r.IntN(5) {
	case 0:
		b[off] ^= 1 << r.IntN(8)
		return fmt.Sprintf("bit at %06x", off)
	case 1:
		b[off]++
		return fmt.Sprintf("plus one at %06x", off)
	case 2:
		off &^= 7
		object.PutU64(b, int(off), 0)
		return fmt.Sprintf("zero word at %06x", off)
	case 3: // another aligned word, which may well be a valid offset
		off &^= 7
		from := int(objects+r.Uint64N(end-objects)) &^ 7
		object.PutU64(b, int(off), object.U64(b, min(from, len(b)-8)))
		return fmt.Sprintf("word at %06x from %06x", off, from)
	default:
		b[off] = byte(r.Uint32())
		return fmt.Sprintf("byte at %06x", off)
	}
}

// TestVerifyAgreesWithJournalctl damages real files. Whenever journalctl fails
// one, so must Verify. Where journalctl names the spot and Verify checks the
// same thing, the line must be among ours.
func TestVerifyAgreesWithJournalctl(t *testing.T) {
	oneGoroutine(t)
	journalctl, err := exec.LookPath("journalctl")
	if err != nil {
		t.Skip("journalctl is not installed")
	}
	n := verifyMutations
	if s := os.Getenv("TIDEMARK_VERIFY_MUTATIONS"); s != "" {
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.journal")
	for _, name := range []string{"r-00.journal.gz", "r-01.journal.gz", "r-10.journal.gz", "r-11.journal.gz", "esc.journal.gz"} {
		good := verifySample(t, name)
		for seed := range n {
			b := bytes.Clone(good)
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			what := fmt.Sprintf("%s seed %d: %s", name, seed, vDamage(r, b))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(journalctl, "--verify", "--file="+path).CombinedOutput()
			verifyCompare(t, what, path, b, string(out), err == nil)
		}
	}
}

// verifyElsewhere are journalctl's lines that Verify has not, or words and
// places otherwise: the results, problems without a place of their own (offset
// 0), types without a name, and the assertion of
// libsystemd's zstd code, or its other errors there.
var verifyElsewhere = regexp.MustCompile(`^(PASS|FAIL|File corruption detected|000000: |Failed to|Journal file|Assertion)|Cannot allocate memory$|type \(null\)`)

// verifyNotReferenced is what journalctl says of an entry when the list of the
// DATA object is damaged. Verify says it of the list.
var verifyNotReferenced = regexp.MustCompile(`Entry object not referenced by linked data object at ([0-9a-f]+)`)

func verifyCompare(t *testing.T, what, path string, b []byte, out string, passed bool) {
	t.Helper()
	report, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), path, VerifyOptions{})
	var fe *FormatError
	if err != nil && !errors.As(err, &fe) {
		t.Errorf("%s: %v", what, err)
		return
	}
	ok := err == nil && report.OK()
	if !passed && ok {
		t.Errorf("%s: journalctl fails and Verify does not:\n%s", what, out)
	}
	if passed && !ok {
		t.Logf("%s: only Verify fails: %v %v", what, err, report.Problems)
	}
	var ours strings.Builder
	for _, p := range report.Problems {
		fmt.Fprintln(&ours, p)
		switch p.Kind {
		case ProblemObject:
			fmt.Fprintf(&ours, "%06x: Invalid object: Bad message\n", p.Offset)
		case ProblemContents:
			fmt.Fprintf(&ours, "%06x: Invalid object contents: Bad message\n", p.Offset)
		default:
		}
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if m := verifyNotReferenced.FindStringSubmatch(line); m != nil && strings.Contains(ours.String(), m[1]+": ") {
			continue
		}
		if err == nil && !verifyElsewhere.MatchString(line) && !strings.Contains(ours.String(), line) {
			t.Errorf("%s: journalctl says %q, not among:\n%s", what, line, ours.String())
		}
	}
}
