package ingest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAllowances(t *testing.T) {
	const file = 100 << 20
	var a allowances
	steps := []struct {
		uid  uint32
		size int
		now  time.Duration
		want bool
	}{
		{1, 2 * passedBurst, 0, true}, // one of any size, when nothing was spent
		{1, file, 0, false},
		{1, passedFree, 0, true},
		{2, file, 0, true},
		{2, file, 0, true},
		{2, file, 0, false},
		{2, file, time.Second, true},
		{2, file, time.Second, false},
		{2, file, 10 * time.Second, true},
		{1, file, 5 * time.Second, false},
		{1, file, 8 * time.Second, true},
	}
	for i, s := range steps {
		if got := a.admit(s.uid, s.size, s.now); got != s.want {
			t.Errorf("step %d: %v, want %v", i, got, s.want)
		}
	}
	for uid := range uint32(3 * maxAllowances) {
		a.admit(uid, file, 0)
	}
	if len(a.of) > maxAllowances {
		t.Errorf("%d users are remembered, want %d at most", len(a.of), maxAllowances)
	}
}

// Files that could never be stored, and holes, are refused before they are read.
func TestLargePassedFiles(t *testing.T) {
	sparse := func(size int64) int {
		fd := memfd(t, nil, 0)
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, allSeals); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	m := &message{known: true}
	for _, tt := range []struct {
		name string
		fd   int
		want reason
	}{
		{"small and sparse", sparse(maxSparse), noReason},
		{"sparse", sparse(maxSparse + 1), nativeFDSize},
		{"full", memfd(t, make([]byte, 2*maxSparse), allSeals), noReason},
		{"too large", sparse(DefaultMaxPassed + 1), nativeTooLarge},
	} {
		data, why := fileContents(tt.fd, m, DefaultMaxPassed, anySize)
		if why != tt.want {
			t.Errorf("%s: reason %d, want %d", tt.name, why, tt.want)
		}
		if data != nil {
			_ = unix.Munmap(data)
		}
	}
}

// A user other than root who passes too much is refused, and it is counted; so is
// one whom the kernel does not name.
func TestTooMuchIsPassed(t *testing.T) {
	in, err := Open(testConfig(t), &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	n := &native{datagrams: in.native}
	fd := memfd(t, make([]byte, 1<<20), allSeals)
	for _, uid := range []uint32{1000, 0, noID} {
		n.passed.admit(uid, 2*passedBurst, 0)
	}
	for _, tt := range []struct {
		uid   uint32
		known bool
		want  uint64
	}{{1000, true, 1}, {1001, true, 0}, {0, true, 0}, {0, false, 1}} {
		before := in.counts.n[nativeFDRate].Load()
		n.file(t.Context(), &message{known: tt.known, credentials: credentials{uid: tt.uid}, pidfd: -1, fds: []int{fd}})
		if got := in.counts.n[nativeFDRate].Load() - before; got != tt.want {
			t.Errorf("user %d, known %v: %d refused, want %d", tt.uid, tt.known, got, tt.want)
		}
	}
}
