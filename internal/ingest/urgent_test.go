package ingest

import (
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// The levels up to crit ask for a sync, on every way in.
func TestUrgent(t *testing.T) {
	r := start(t)
	nat, sys, out := r.dial(nativeSocket), r.dial(syslogSocket), r.dial(stdoutSocket)
	r.write(out, header)
	kernel := &kmsg{in: r.Ingest}
	var http []entry.Entry
	for level := range 8 {
		n := itoa(level)
		r.write(nat, "MESSAGE="+n+"\nPRIORITY="+n+"\n")
		r.write(sys, "<"+itoa(8+level)+">"+n)
		r.write(out, "<"+n+">"+n+"\n")
		kernel.record([]byte(n + "," + itoa(2*level) + ",1,-;" + n + "\n"))
		kernel.record([]byte(itoa(16<<3+level) + "," + itoa(2*level+1) + ",1,-;of a process: " + n + "\n"))
		e, err := r.NewJSONDecoder("").Decode([]byte(`{"message":"` + n + `","level":` + n + `}`))
		if err != nil {
			t.Fatal(err)
		}
		http = append(http, e)
	}
	all := append(append(r.barrier(), kernel.batch.entries...), http...)
	if len(all) != 6*8 {
		t.Fatalf("%d entries, want 48", len(all))
	}
	for _, e := range all {
		p, way := get(t, e, "PRIORITY"), get(t, e, "_TRANSPORT")
		if want := p <= "2"; e.Urgent != want {
			t.Errorf("%s, priority %s: urgent %v, want %v", way, p, e.Urgent, want)
		}
	}
}
