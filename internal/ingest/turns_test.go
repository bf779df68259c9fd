package ingest

import (
	"testing"
	"time"
)

// TestTurnsAreCounted: each batch of a path is one turn, which ends when the sink
// has taken it.
func TestTurnsAreCounted(t *testing.T) {
	r := start(t)
	native, syslog, stdout := r.dial(nativeSocket), r.dial(syslogSocket), r.dial(stdoutSocket)
	total := func() map[string]uint64 {
		n := map[string]uint64{}
		r.EachTurn(func(turn Turn) { n[turn.Name] = turn.Total() })
		return n
	}
	for round := range uint64(3) {
		entered, release := r.sink.block()
		r.write(native, "MESSAGE=a\n")
		<-entered
		if got := total()["native"]; got != round {
			t.Errorf("round %d: %d turns have ended before the sink has taken their batch", round, got)
		}
		release()
		r.write(syslog, "<6>b")
		r.write(stdout, map[bool]string{true: header}[round == 0]+"c\n")
		r.barrier()
		got := total()
		if got["native"] != round+1 || got["syslog"] != round+1 || got["stdout"] < round+1 {
			t.Errorf("round %d: turns %v", round, got)
		}
	}
	r.EachTurn(func(turn Turn) {
		if turn.Sum > uint64(time.Hour.Microseconds()) {
			t.Errorf("those of %s took %d µs", turn.Name, turn.Sum)
		}
	})
}
