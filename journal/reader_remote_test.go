package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const readerRemotePath = "/lib/systemd/systemd-journal-remote"

// stream makes entries in the export format: several boots, units, priorities,
// long, binary, empty and repeated fields.
type stream struct {
	rnd       *rand.Rand
	boots     []string
	realtime  uint64
	monotonic uint64
}

func newStream(seed uint64) *stream {
	s := &stream{rnd: rand.New(rand.NewPCG(seed, 7)), realtime: 1_700_000_000_000_000}
	for range 3 {
		var id [16]byte
		binary.LittleEndian.PutUint64(id[:], s.rnd.Uint64())
		binary.LittleEndian.PutUint64(id[8:], s.rnd.Uint64())
		s.boots = append(s.boots, hex.EncodeToString(id[:]))
	}
	return s
}

// append appends n entries of boot number b.
func (s *stream) append(out []byte, n, b int) []byte {
	for i := range n {
		s.realtime += 1 + uint64(s.rnd.IntN(5000))
		s.monotonic += 1 + uint64(s.rnd.IntN(5000))
		out = fmt.Appendf(out, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n", s.realtime, s.monotonic, s.boots[b])
		unit := s.rnd.IntN(9)
		out = fmt.Appendf(out, "_SYSTEMD_UNIT=u%d.service\nPRIORITY=%d\n_PID=%d\n", unit, s.rnd.IntN(8), 100+unit)
		switch s.rnd.IntN(12) {
		case 0:
			out = append(out, "MESSAGE="+strings.Repeat("long "+strconv.Itoa(i)+" ", 200)+"\n"...)
		case 1:
			v := fmt.Sprintf("two\nlines %d\x00", i)
			out = append(out, "MESSAGE\n"...)
			out = binary.LittleEndian.AppendUint64(out, uint64(len(v)))
			out = append(out, v+"\n"...)
		case 2:
			out = append(out, "MESSAGE=same\nEMPTY=\nTAG=a\nTAG=b\n"...)
		default:
			out = fmt.Appendf(out, "MESSAGE=message %d of %d\n", s.rnd.IntN(100), unit)
		}
		out = append(out, '\n')
	}
	s.monotonic += uint64(n)
	return out
}

// remote has the real systemd-journal-remote make a file of a stream.
func remote(t testing.TB, path string, export []byte, env ...string) {
	t.Helper()
	if _, err := os.Stat(readerRemotePath); err != nil {
		t.Skip("no systemd-journal-remote here to make files with")
	}
	cmd := exec.Command(readerRemotePath, "-o", path, "-")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(export)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("systemd-journal-remote: %v\n%s", err, out)
	}
}

// remoteFiles makes three files of one machine: two that follow each other and
// one beside them, over three boots.
func remoteFiles(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	s := newStream(1)
	var a, b, c []byte
	for i := range 12 {
		boot := i / 4
		if i < 6 {
			a = s.append(a, 40, boot)
		} else {
			b = s.append(b, 40, boot)
		}
		c = s.append(c, 15, boot)
	}
	paths := []string{filepath.Join(dir, "a.journal"), filepath.Join(dir, "b.journal"), filepath.Join(dir, "c.journal")}
	remote(t, paths[0], a)
	remote(t, paths[1], b, "SYSTEMD_JOURNAL_COMPACT=0")
	remote(t, paths[2], c, "SYSTEMD_JOURNAL_KEYED_HASH=0")
	return paths
}

func fileArgs(paths []string, more ...string) []string {
	var args []string
	for _, p := range paths {
		args = append(args, "--file", p)
	}
	return append(args, more...)
}
