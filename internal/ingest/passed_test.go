package ingest

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

func anySize(int) bool { return true }

// A memfd of another user needs each of the seals.
func TestEachSealIsNeeded(t *testing.T) {
	other := &message{known: true, credentials: credentials{uid: 1000}}
	for name, without := range map[string]int{
		"seal": unix.F_SEAL_SEAL, "shrink": unix.F_SEAL_SHRINK, "grow": unix.F_SEAL_GROW, "write": unix.F_SEAL_WRITE,
	} {
		fd := memfd(t, []byte("A=1\n"), allSeals&^without)
		if _, why := fileContents(fd, other, DefaultMaxPassed, anySize); why != nativeFDPath {
			t.Errorf("without the seal %s: reason %d, want %d", name, why, nativeFDPath)
		}
		if data, why := fileContents(fd, &message{known: true}, DefaultMaxPassed, anySize); why != noReason {
			t.Errorf("without the seal %s, from root: reason %d", name, why)
		} else {
			_ = unix.Munmap(data)
		}
		if _, why := fileContents(fd, &message{}, DefaultMaxPassed, anySize); why != nativeFDPath {
			t.Errorf("without the seal %s, from nobody known: reason %d, want %d", name, why, nativeFDPath)
		}
	}
}

// Only regular files are read, whoever passes them.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{p[0], s, null} {
		if _, why := fileContents(fd, &message{known: true}, DefaultMaxPassed, anySize); why != nativeFDKind {
			t.Errorf("reason %d, want %d", why, nativeFDKind)
		}
		_ = unix.Close(fd)
	}
	_ = unix.Close(p[1])
}

// A file may have as many bytes as the limit says, and no more; it is looked at
// before anything is read, and so is what its user may pass.
func TestSizeOfPassedFiles(t *testing.T) {
	const limit = 8192
	for _, seals := range []int{0, allSeals} {
		for _, tt := range []struct {
			size     int
			admitted bool
			want     reason
		}{
			{0, true, nativeFDSize},
			{1, true, noReason},
			{limit, true, noReason},
			{limit, false, nativeFDRate},
			{limit + 1, true, nativeTooLarge},
		} {
			fd := memfd(t, make([]byte, tt.size), seals)
			var asked []int
			data, why := fileContents(fd, &message{known: true}, limit, func(size int) bool {
				asked = append(asked, size)
				return tt.admitted
			})
			if why != tt.want || why == noReason && len(data) != tt.size {
				t.Errorf("%d bytes: %d, reason %d, want reason %d", tt.size, len(data), why, tt.want)
			}
			if tt.want == noReason || tt.want == nativeFDRate {
				wantDiff(t, "asked for", []int{tt.size}, asked)
			}
			if data != nil {
				_ = unix.Munmap(data)
			}
		}
	}
}

// A large file is mapped, and whole.
func TestLargePassedFileIsWhole(t *testing.T) {
	for _, size := range []int{mapFrom - 1, mapFrom} {
		want := bytes.Repeat([]byte("0123456\n"), size/8+1)[:size]
		data, why := fileContents(memfd(t, want, allSeals), &message{known: true}, DefaultMaxPassed, anySize)
		if why != noReason || !bytes.Equal(want, data) {
			t.Errorf("%d bytes: reason %d, or not as sent", size, why)
		}
		_ = unix.Munmap(data)
	}
}

func TestMaxPassed(t *testing.T) {
	for set, want := range map[int64]int64{
		-1: DefaultMaxPassed, 0: DefaultMaxPassed, 1: DefaultMaxPassed, DefaultMaxPassed + 1: DefaultMaxPassed + 1,
		1 << 60: entry.DefaultMaxEntry,
	} {
		c := Config{MaxPassed: set}
		c.defaults()
		if c.MaxPassed != want {
			t.Errorf("MaxPassed %d means %d, want %d", set, c.MaxPassed, want)
		}
	}
}

// Small files are free, and a burst may be used up to its last byte.
func TestAllowanceBounds(t *testing.T) {
	var a allowances
	for range 10_000 {
		if !a.admit(1, passedFree, 0) {
			t.Fatal("a small file was refused")
		}
	}
	if len(a.of) != 0 {
		t.Error("small files count")
	}
	for i, s := range []struct {
		size int
		want bool
	}{
		{passedFree + 1, true},
		{passedBurst - passedFree - 1, true},
		{passedFree + 1, false},
	} {
		if got := a.admit(1, s.size, 0); got != s.want {
			t.Errorf("step %d: %v, want %v", i, got, s.want)
		}
	}
}
