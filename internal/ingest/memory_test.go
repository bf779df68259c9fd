package ingest

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident is how many pages of a mapping take memory.
func resident(t *testing.T, b []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	pages := make([]byte, (len(b)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}

// Long datagrams leave no memory behind once they have been handled, whichever of
// a batch they were.
func TestLongDatagramsGiveMemoryBack(t *testing.T) {
	in, err := Open(testConfig(t), &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	r := &rig{Ingest: in, t: t, dir: in.cfg.Dir}
	c, d := r.dial(nativeSocket), in.native
	if err := c.SetWriteBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for _, sizes := range [][]int{
		{slotSize + 1},
		{slotSize + page},
		{slotSize + page + 1},
		{100_000},
		{200_000},
		{10, slotSize + 1, 10, 30_000, 10, 60_000, 10},
	} {
		for _, size := range sizes {
			r.write(c, "A="+strings.Repeat("x", size-3)+"\n")
		}
		if err := d.rx.receive(true); err != nil || d.rx.n != len(sizes) {
			t.Fatalf("%v: a batch of %d, %v", sizes, d.rx.n, err)
		}
		if err := d.handle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := resident(t, d.rx.over); n != 0 {
			t.Errorf("%v: %d pages are left", sizes, n)
		}
	}
}
