package journal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

func terms(list ...string) []Match {
	var out []Match
	for _, s := range list {
		out = append(out, Term(entry.Field(s)))
	}
	return out
}

func TestMatchesEqualJournalctl(t *testing.T) {
	paths := remoteFiles(t)
	a, b := terms("_SYSTEMD_UNIT=u1.service", "_SYSTEMD_UNIT=u3.service"), terms("PRIORITY=2", "PRIORITY=3")
	for _, c := range []struct {
		args  string
		match Match
	}{
		{"_SYSTEMD_UNIT=u1.service", a[0]},
		{"_SYSTEMD_UNIT=u1.service _SYSTEMD_UNIT=u3.service", Or(a...)},
		{"_SYSTEMD_UNIT=u1.service PRIORITY=2", And(a[0], b[0])},
		{"_SYSTEMD_UNIT=u1.service _SYSTEMD_UNIT=u3.service PRIORITY=2 PRIORITY=3", And(Or(a...), Or(b...))},
		{"_SYSTEMD_UNIT=u1.service PRIORITY=2 + _SYSTEMD_UNIT=u3.service PRIORITY=3", Or(And(a[0], b[0]), And(a[1], b[1]))},
		{"MESSAGE=same TAG=a EMPTY=", And(terms("MESSAGE=same", "TAG=a", "EMPTY=")...)},
		{"_SYSTEMD_UNIT=nosuch.service", Term(entry.Field("_SYSTEMD_UNIT=nosuch.service"))},
		{"_SYSTEMD_UNIT=u1.service MESSAGE=nosuch", And(a[0], Term(entry.Field("MESSAGE=nosuch")))},
		{"MESSAGE=" + strings.Repeat("long 3 ", 200), Term(entry.Field("MESSAGE=" + strings.Repeat("long 3 ", 200)))},
	} {
		name := c.args[:min(len(c.args), 60)]
		args := []string{c.args}
		if !strings.Contains(c.args, "long") {
			args = strings.Fields(c.args)
		}
		for mode, o := range map[string]ReadOptions{"pread": {}, "map": {Map: true}, "scan": {Scan: true}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				j := openSample(t, o, paths...)
				j.SetMatch(c.match)
				if diff := cmp.Diff(journalctl(t, fileArgs(paths, append(args, "-o", "export")...)...), export(t, j, down)); diff != "" {
					t.Errorf("forward (-journalctl +ours):\n%s", diff)
				}
				j.SeekTail()
				if diff := cmp.Diff(journalctl(t, fileArgs(paths, append(args, "-o", "export", "-r")...)...), export(t, j, up)); diff != "" {
					t.Errorf("backward (-journalctl +ours):\n%s", diff)
				}
			})
		}
	}
}

// What has no index is equal to evaluating the match on every entry.
func TestMatchesEqualEvaluation(t *testing.T) {
	paths := remoteFiles(t)
	u, p := terms("_SYSTEMD_UNIT=u1.service", "_SYSTEMD_UNIT=u3.service"), terms("PRIORITY=2", "PRIORITY=3")
	for _, m := range []Match{
		{},
		Or(),
		Not(u[0]),
		And(u[0], Not(p[0])),
		And(Not(u[0]), Not(p[0])),
		Or(u[0], Not(p[0])),
		And(Or(u[0], Not(p[1])), p[0]),
		Not(And(u[0], p[0])),
		Not(Or(u[0], p[0], Term(entry.Field("MESSAGE=same")))),
		Not(Not(u[1])),
		And(u[1], Not(Term(entry.Field("NOSUCH=1")))),
	} {
		t.Run(m.String(), func(t *testing.T) {
			all := openSample(t, ReadOptions{}, paths...)
			var want, got, back []string
			for e, err := range all.All() {
				if err != nil {
					t.Fatal(err)
				}
				if m.Matches(e) {
					want = append(want, e.Cursor().String())
				}
			}
			all.SetMatch(m)
			all.SeekHead()
			for e, err := range all.All() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Cursor().String())
			}
			all.SeekTail()
			for e, err := range all.Backward() {
				if err != nil {
					t.Fatal(err)
				}
				back = append([]string{e.Cursor().String()}, back...)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("forward (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("backward (-want +got):\n%s", diff)
			}
		})
	}
}
