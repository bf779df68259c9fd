package daemon

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/journal"
)

// TestFlavourOfARestart: a daemon that is started with another Flavour= goes on with the
// file that is there as it is, and begins the next one in the new flavour, and back.
func TestFlavourOfARestart(t *testing.T) {
	p := newPlace(t)
	var want []uint64
	for i, c := range []struct {
		conf      string
		now, next uint64 // sizes of the headers
	}{
		{"", 264, 264},
		{"Flavour=254\n", 264, 272},
		{"Flavour=252\n", 272, 264},
	} {
		p.configure(t, c.conf)
		r := start(t, p)
		native(t, p, string(rune('a'+2*i)))
		command(t, p, control.MethodRotate)
		native(t, p, string(rune('b'+2*i)))
		command(t, p, control.MethodSynchronize)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		want = append(want, c.now)
		if i == 2 {
			want = append(want, c.next)
		}
	}
	var got []uint64
	paths, err := filepath.Glob(filepath.Join(p.Data, "*", "system*.journal"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths) // system.journal, then the archives by the number of their first entry
	paths = append(paths[1:], paths[0])
	for _, path := range paths {
		f, err := journal.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Header().HeaderSize)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("headers of %v (-want +got):\n%s", paths, d)
	}
	for _, m := range []string{"a", "b", "c", "d", "e", "f"} {
		if n := len(slices.DeleteFunc(messages(t, p), func(s string) bool { return s != m })); n != 1 {
			t.Errorf("message %s is stored %d times", m, n)
		}
	}
}
