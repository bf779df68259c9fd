package journal

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
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
