package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordsComeBackWhole(t *testing.T) {
	for i, line := range sampleLines() {
		want := record{feeder: i % len(kinds), seq: i * 31, text: line}
		got, ours, whole := decodeRecord(want.encode())
		if !ours || !whole || got != want {
			t.Errorf("decodeRecord(%q) = %+v, %t, %t", want.encode(), got, ours, whole)
		}
	}
}

func TestDamageIsSeen(t *testing.T) {
	enc := record{feeder: 2, seq: 17, text: "a line that is long enough"}.encode()
	for n := len(recordMark); n < len(enc); n++ {
		if _, ours, whole := decodeRecord(enc[:n]); !ours || whole {
			t.Errorf("cut to %d bytes: ours %t, whole %t", n, ours, whole)
		}
	}
	if _, ours, _ := decodeRecord("Accepted publickey"); ours {
		t.Error("a foreign message was taken for a record")
	}
}

// What compare must say of each of a record's fates.
func TestCompareTellsTheFates(t *testing.T) {
	// Records 0–3 before the kill, 2 of them covered by a Synchronize; 4–6
	// after it, all covered.
	c := &child{kind: "native", sent: 7, synced: 7, killed: 4, promised: 2, answered: map[int]bool{3: true}}
	got := found{times: []map[int]int{{0: 1, 2: 1, 3: 1, 4: 2, 5: 1}}, torn: 1}
	want := proof{
		sent: 7, acked: 6, byAnswer: 1,
		inFlight: 1, inFlightStored: 1, // record 2
		stored: 5,
		lost:   2, // records 1 and 6
		torn:   2, // record 4 twice, one damaged
	}
	if diff := cmp.Diff(want, compare([]*child{c}, got), cmp.AllowUnexported(proof{})); diff != "" {
		t.Error(diff)
	}
}
