package journal

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// bootFiles are two files with boots that lie between one another in time, as on a
// machine without a clock that runs while it is off.
func bootFiles(t testing.TB) (paths []string, ids []entry.ID) {
	t.Helper()
	dir := t.TempDir()
	for id := range byte(6) {
		ids = append(ids, entry.ID{id + 1, 0xb0})
	}
	for i, boots := range [][][3]uint64{ // number, from, to
		{{0, 0, 10}, {1, 20, 30}, {2, 20, 40}, {5, 90, 95}},
		{{3, 5, 25}, {4, 22, 60}},
	} {
		path := filepath.Join(dir, fmt.Sprintf("%d.journal", i))
		w := create(t, path, Options{MaxSize: MinMaxSize})
		for _, b := range boots {
			for at := b[1]; at < b[2]; at++ {
				e := entry.Entry{Realtime: 1e15 + at*1e6, Monotonic: 1e6 * (at - b[1] + 1), BootID: ids[b[0]], Fields: []entry.Field{
					entry.Field("_BOOT_ID=" + ids[b[0]].String()), entry.Field(fmt.Sprintf("MESSAGE=%d", at)),
				}}
				_, _, err := w.Append(t.Context(), []entry.Entry{e})
				readerMust(t, err)
			}
		}
		readerMust(t, w.Close())
		paths = append(paths, path)
	}
	return paths, ids
}

// The boot that an offset means is journalctl's, from either end and from any boot,
// also where boots lie between one another.
func TestBootAtEqualsJournalctl(t *testing.T) {
	journalctl(t, "--version")
	paths, ids := bootFiles(t)
	j := openSample(t, ReadOptions{}, paths...)
	for k, ref := range append([]entry.ID{{}, {9}}, ids...) {
		for n := -7 + k%2; n <= 7; n += 2 - k/2%2 {
			arg := fmt.Sprintf("%d", n)
			if !ref.IsZero() {
				arg = fmt.Sprintf("%s%+d", ref, n)
			}
			out, err := exec.Command("journalctl", fileArgs(paths, "-q", "-b", arg, "-o", "cat", "--output-fields=_BOOT_ID")...).Output()
			want := slices.Compact(strings.Fields(string(out)))
			id, ok, bootErr := j.BootAt(ref, n)
			if bootErr != nil || ok != (err == nil) || ok && (len(want) != 1 || want[0] != id.String()) {
				t.Errorf("-b %s: %s, %v, %v; journalctl has %v, %v", arg, id, ok, bootErr, want, err)
			}
		}
	}
}

// Where an index leads from one boot back to the one before, there is no boot as far
// away as one likes: the search ends.
func TestBootAtEndsInACircle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.journal")
	w := create(t, path, Options{MaxSize: MinMaxSize})
	ids := []entry.ID{{1}, {2}}
	for n := range uint64(8) {
		id := ids[n/4]
		e := wAt(wFields("_BOOT_ID="+id.String()), 1e15+n, 1e6+n)
		e.BootID = id
		_, _, err := w.Append(t.Context(), []entry.Entry{e})
		readerMust(t, err)
	}
	readerMust(t, w.Close())
	j := openSample(t, ReadOptions{}, path)
	f := j.Files()[0]
	behind, err := f.entryAt(6)
	readerMust(t, err)
	b := fileBytes(t, path)
	at := bytes.Index(b, []byte("_BOOT_ID="+ids[0].String())) - int(object.MinSize(object.Data, f.hdr.Compact()))
	object.PutU64(b, at+object.DataEntry, behind) // the first of the older boot
	readerMust(t, os.WriteFile(path, b, 0o600))
	for _, mode := range []ReadOptions{{}, {Map: true}} {
		j := openSample(t, mode, path)
		for _, n := range []int{-1 << 31, 1<<31 - 1} {
			for _, ref := range []entry.ID{{}, ids[0], ids[1]} {
				if id, ok, err := j.BootAt(ref, n); ok {
					t.Errorf("%s%+d: boot %s, %v", ref, n, id, err)
				}
			}
		}
	}
}
