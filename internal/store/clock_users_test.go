package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// TestClockStepsOfUsers sets the clock back and forth while three users' files
// are written in turns: each entry is there once, in its user's order, and every
// file verifies, with times that never go back in it.
func TestClockStepsOfUsers(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testClockStepsOfUsers(t, seed) })
	}
}

func testClockStepsOfUsers(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable
	dir := t.TempDir()
	clock := &setClock{realtime: 1_000_000 * second, uptime: 100 * second}
	cfg := testConfig(dir, nil)
	cfg.Clock, cfg.Split = clock.now, true
	s := open(t, cfg)
	users := []uint32{0, 1000, 1001}
	want := make(map[uint32][]string)
	steps := []int64{0, 0, -1, -5, -20, -3600, 1, 3600}
	for range 80 {
		clock.pass(r.Uint64N(40*second), steps[r.IntN(len(steps))]*int64(second))
		for range 1 + r.IntN(5) {
			user := users[r.IntN(len(users))]
			var batch []entry.Entry
			for range 1 + r.IntN(9) {
				text := fmt.Sprintf("message %d", len(want[user]))
				want[user] = append(want[user], text)
				batch = append(batch, line(user, text))
			}
			if _, err := s.Append(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			clock.pass(r.Uint64N(3000), 0)
		}
		if r.IntN(4) == 0 {
			if err := s.Synchronize(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.counts.rotations.Load() == 0 || s.Status().ClockSteps == 0 {
		t.Error("no step began a file, or none was bridged: the test shows nothing")
	}
	for _, name := range verifyAll(t, dir) {
		checkTimes(t, filepath.Join(dir, testMachine.String(), name))
	}
	for user, prefix := range map[uint32]string{0: "system", 1000: "user-1000", 1001: "user-1001"} {
		if diff := cmp.Diff(want[user], storedIn(t, dir, false, prefix)); diff != "" {
			t.Errorf("user %d (-want +got):\n%s", user, diff)
		}
	}
}

// checkTimes wants the times of a file never to go back, which no verification
// asks for as regards the realtime clock.
func checkTimes(t *testing.T, path string) {
	t.Helper()
	j, err := journal.Open([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var realtime, monotonic uint64
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Realtime < realtime || e.Monotonic < monotonic {
			t.Errorf("%s: entry %d is at %d, %d after one at %d, %d", path, e.Seqnum, e.Realtime, e.Monotonic, realtime, monotonic)
		}
		realtime, monotonic = e.Realtime, e.Monotonic
	}
}
