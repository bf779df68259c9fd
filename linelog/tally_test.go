package linelog

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What is counted and summed in parts is what it is as a whole.
func TestTally(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, tallied - 1, tallied, tallied + 1, 3*tallied + 17} {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abc\n"[random.IntN(4)]
		}
		lines, sum := tally(b)
		if want := uint64(bytes.Count(b, newline)); lines != want || sum != hash(b) {
			t.Errorf("%d bytes: %d lines, sum %x, want %d, %x", n, lines, sum, want, hash(b))
		}
	}
}

// A sum is that of the bytes that a chunk or a piece has now, or it is none: a wrong one
// has lines given up that are there.
func TestSumsOfWhatGrows(t *testing.T) {
	check := func(what string, b []byte, sum uint64) {
		t.Helper()
		if sum != 0 && sum != hash(b) {
			t.Errorf("%s: the sum is not that of %q", what, b)
		}
	}
	whole := func(text string) *chunk {
		c := &chunk{buf: append(make([]byte, 0, 64), text...)}
		c.lines, c.sum = tally(c.buf)
		return c
	}
	q := queue{size: 64, limit: 1 << 20}
	end := q.push(whole("one\n"), 0)
	q.add([]byte("two"), newline, end+1)
	check("one line more", q.parts[0].buf, q.parts[0].sum)
	q.addAll([]byte("three\nfour\n"), end+1)
	check("lines more", q.parts[0].buf, q.parts[0].sum)
	k := keep{limit: 1 << 20, size: 64, free: q.recycle}
	f := new(file)
	k.add(f, whole("one\n"), 4)
	check("a piece", k.list[0].c.buf, k.list[0].sum)
	k.add(f, whole("two\n"), 8) // joins the one before
	if len(k.list) != 1 {
		t.Fatalf("%d pieces", len(k.list))
	}
	check("a piece that grew", k.list[0].c.buf, k.list[0].sum)
	check("its chunk", k.list[0].c.buf, k.list[0].c.sum)
	k.limit = 1
	k.add(f, whole("more, so that the first leaves the memory, since there is no room\n"), 74)
	if p := k.list[0]; p.c != nil || p.sum != hash([]byte("one\ntwo\n")) {
		t.Errorf("a piece without its bytes: %x", p.sum)
	}
	w := &Writer{stage: whole("one\ntwo\n"), f: f}
	w.partly(f, 4)
	check("what is left of a chunk", w.stage.buf, w.stage.sum)
}
