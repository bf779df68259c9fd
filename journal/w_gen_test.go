package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// wGen makes the same entries for the same seed: many that repeat the fields of
// others, some of them odd.
type wGen struct {
	r        *rand.Rand
	n        int
	rt, mono uint64
	boot     entry.ID
}

func newWGen(seed uint64) *wGen {
	g := &wGen{r: rand.New(rand.NewPCG(seed, 1)), rt: 1_700_000_000_000_000, mono: 1_000_000}
	g.newBoot()
	return g
}

func (g *wGen) newBoot() {
	for i := range g.boot {
		g.boot[i] = byte(g.r.Uint32())
	}
	g.mono = 1_000_000
}

func (g *wGen) text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "etaoin shrdlu.cmfwyp-vbgkqjxz0123456789"[g.r.IntN(39)]
	}
	return b
}

// next makes an entry with a time of its own.
func (g *wGen) next() entry.Entry {
	g.n++
	g.rt += uint64(g.r.IntN(100_000))
	g.mono += uint64(g.r.IntN(100_000))
	pid := g.r.IntN(30)
	f := []string{
		"_BOOT_ID=" + g.boot.String(),
		fmt.Sprintf("MESSAGE=message %d %s", g.n, g.text(g.r.IntN(60))),
		fmt.Sprintf("PRIORITY=%d", g.r.IntN(8)),
		"_HOSTNAME=host",
		"_MACHINE_ID=3d1219c7c4c5404aaa1f6d2a48adfda4",
		fmt.Sprintf("_PID=%d", 1000+pid),
		fmt.Sprintf("_UID=%d", pid%3),
		fmt.Sprintf("_SYSTEMD_UNIT=unit-%d.service", pid%7),
		"_TRANSPORT=journal",
		fmt.Sprintf("SYSLOG_IDENTIFIER=prog%d", pid%5),
		fmt.Sprintf("_SOURCE_REALTIME_TIMESTAMP=%d", g.rt-7),
	}
	e := entry.Entry{Realtime: g.rt, Monotonic: g.mono, BootID: g.boot}
	switch g.r.IntN(40) {
	case 0:
		f = append(f, "STACK="+string(bytes.Repeat(g.text(40), 1+g.r.IntN(50)))) // compresses
	case 1:
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(g.r.Uint32())
		}
		f = append(f, "BLOB="+string(b)) // does not
	case 2:
		f = append(f, "TAG=x", "TAG=x", "TAG=y", "EMPTY=")
	case 3:
		f = append(f, "MULTI=one\ntwo\n", "BIN=\x00\x01\xff")
	case 4:
		f = f[:2]
	case 5:
		f = append(f, fmt.Sprintf("FIELD_%d=1", g.r.IntN(60)))
	}
	for _, s := range f {
		e.Fields = append(e.Fields, entry.Field(s))
	}
	return e
}

func (g *wGen) batch(n int) []entry.Entry {
	b := make([]entry.Entry, n)
	for i := range b {
		b[i] = g.next()
	}
	return b
}

// newWMem is the memory of a new file, without a file.
func newWMem(tb testing.TB) *wMem {
	o := Options{}.withDefaults()
	h, err := newHeader(&o)
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
	m := newMem(h, h.DataHashTableOffset+h.DataHashTableSize, o.MaxSize, o.CompressThreshold)
	m.tail = make([]byte, 0, 2<<20)
	return m
}

// wNeedTool skips a test on a machine without a program of systemd.
func wNeedTool(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return p
}

// wVerify has the real journalctl verify a file.
func wVerify(t testing.TB, path string) {
	t.Helper()
	out, err := exec.Command(wNeedTool(t, "journalctl"), "--verify", "--file="+path).CombinedOutput()
	if err != nil {
		t.Fatalf("journalctl --verify: %v\n%s", err, out)
	}
}

// wExport has the real journalctl export a file.
func wExport(t testing.TB, path string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(wNeedTool(t, "journalctl"), append([]string{"-o", "export", "--file=" + path}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("journalctl -o export: %v\n%s", err, stderr.Bytes())
	}
	if stderr.Len() > 0 {
		t.Errorf("journalctl -o export %q: %s", args, stderr.Bytes())
	}
	return out
}

func wCopyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wEntriesOf reads all entries of a file in memory.
func wEntriesOf(t testing.TB, b []byte) []entry.Entry {
	t.Helper()
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	j := ReadOptions{}.New()
	defer j.Close()
	j.AddFile(f)
	var out []entry.Entry
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		c := *e
		c.Fields = make([]entry.Field, len(e.Fields))
		for i := range e.Fields {
			c.Fields[i] = bytes.Clone(e.Fields[i])
		}
		out = append(out, c)
	}
	return out
}

// wVerifyBytes checks a file in memory by this package's own Verify.
func wVerifyBytes(t testing.TB, b []byte) {
	t.Helper()
	rep, err := Verify(t.Context(), bytes.NewReader(b), int64(len(b)), "a.journal", VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p, bad := rep.First(); bad {
		t.Fatalf("does not verify: %v", p)
	}
}

// wSteady makes entries of 20 fields of which 3 are new each time, in place.
type wSteady struct {
	n      int
	fields [20]entry.Field
	e      [1]entry.Entry
}

func newWSteady() *wSteady {
	s := &wSteady{}
	for i := range s.fields {
		s.fields[i] = fmt.Appendf(nil, "_FIELD_NUMBER_%d=some value of usual length %d", i, i)
	}
	s.e[0] = entry.Entry{Fields: s.fields[:], BootID: entry.ID{1}}
	return s
}

func (s *wSteady) next() []entry.Entry {
	s.n++
	for i, name := range []string{"MESSAGE=a message of usual length, number ", "_SOURCE_REALTIME_TIMESTAMP=", "OBJECT_ID="} {
		s.fields[i] = strconv.AppendInt(append(s.fields[i][:0], name...), int64(s.n), 10)
	}
	s.fields[4] = append(s.fields[4][:0], "PRIORITY=6"...)
	s.fields[5] = strconv.AppendInt(append(s.fields[5][:0], "_PID="...), int64(s.n%40), 10)
	return s.e[:]
}
