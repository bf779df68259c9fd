package linelog

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Names sort as they were written: in a second of many rotations, when the clock goes
// back, and when a second has no number left.
func TestStampsSort(t *testing.T) {
	now := time.Date(2026, 11, 30, 10, 15, 0, 0, time.UTC)
	var s stamp
	var names []string
	for i := range 25_000 {
		at := now
		if i > 20_000 {
			at = now.Add(-time.Hour)
		}
		s = s.next(at)
		name := "." + s.String()
		if i%3 == 0 {
			name += suffix
		}
		names = append(names, name)
		if got, ok := parseStamp(s.String()); !ok || got != s {
			t.Fatalf("%s: %v, %t", s, got, ok)
		}
	}
	if !slices.IsSorted(names) {
		t.Error("not sorted")
	}
	if s = s.next(now.Add(time.Minute)); s.String() != "20261130T101600" {
		t.Errorf("a minute later: %s", s)
	}
	if s = (stamp{"99991231T235959", maxSeq}).next(now); s.seq != maxSeq+1 {
		t.Errorf("at the end of time: %s", s)
	}
}

// Numbers without zeros are those of before; what is neither is somebody else's.
func TestParseStamp(t *testing.T) {
	const at = "20261130T101500"
	for text, want := range map[string]stamp{
		at: {at, 0}, at + "_2": {at, 2}, at + "_10": {at, 10}, at + "_0002": {at, 2}, at + "_9999": {at, 9999}, at + "_12345": {at, 12345},
		at + "_1": {}, at + "_0001": {}, at + "_0000": {}, at + "_02": {}, at + "_00002": {}, at + "_": {}, at + "_+002": {}, at + "_x": {}, at + ".5": {}, "": {},
	} {
		got, ok := parseStamp(text)
		if ok != (want != stamp{}) || ok && got != want {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
	list := []archive{}
	for _, name := range strings.Fields("log." + at + " log." + at + "_10.zst log." + at + "_2 log." + at + "_0011") {
		a, ok := parseArchive("log", name)
		if !ok {
			t.Fatal(name)
		}
		list = append(list, a)
	}
	for i, seq := range []int{0, 10, 2, 11} {
		if list[i].stamp.seq != seq {
			t.Errorf("%+v, want %d", list[i], seq)
		}
	}
}
