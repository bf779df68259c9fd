package store

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

func TestLimits(t *testing.T) {
	const gib = uint64(1 << 30)
	tests := []struct {
		name  string
		total uint64
		given Limits
		want  Limits
	}{
		{"a large disk", 1000 * gib, Limits{}, Limits{MaxUse: 4 * gib, KeepFree: 4 * gib, MaxFileSize: 128 << 20, MaxFiles: 100, MaxFileAge: defaultFileAge, minUse: 16 << 20}},
		{"a small disk", gib, Limits{}, Limits{MaxUse: gib / 10, KeepFree: gib / 20, MaxFileSize: gib / 10 / 8, MaxFiles: 100, MaxFileAge: defaultFileAge, minUse: 16 << 20}},
		{"a tiny disk", 4 << 20, Limits{}, Limits{MaxUse: 1 << 20, KeepFree: 4 << 20 / 20, MaxFileSize: 512 << 10, MaxFiles: 100, MaxFileAge: defaultFileAge, minUse: 1 << 20}},
		{
			"given", 1000 * gib,
			Limits{MaxUse: gib, KeepFree: 2 * gib, MaxFileSize: gib, MaxFiles: -1, MaxFileAge: -1, MaxRetention: time.Hour},
			Limits{MaxUse: 2 * gib, KeepFree: 2 * gib, MaxFileSize: gib, MaxFiles: -1, MaxFileAge: -1, MaxRetention: time.Hour, minUse: 16 << 20},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.given.resolve(tt.total), cmp.AllowUnexported(Limits{})); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	l := Limits{MaxUse: 1000, KeepFree: 100, minUse: 50}
	tests := []struct {
		name              string
		used, avail, want uint64
	}{
		{"plenty of space", 500, 5000, 1000},
		{"the rest but what is kept free", 300, 200, 400},
		{"others have taken what is kept free", 500, 20, 420},
		{"never below the minimum", 60, 0, 50},
	}
	for _, tt := range tests {
		if got := l.allowed(tt.used, tt.avail); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	const id = "000102030405060708090a0b0c0d0e0f"
	tests := []struct {
		name    string
		want    stored
		ok      bool
		current bool
	}{
		{name: "system@" + id + "-0000000000000010-00000000000000ff.journal", ok: true, want: stored{seqnum: 16, realtime: 255, seqnumID: entry.ID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
		{name: "user-1000@00000000000000ff-0123456789abcdef.journal~", ok: true, want: stored{realtime: 255}},
		{name: "system.journal", current: true},
		{name: "user-1000.journal", current: true},
		{name: "user-.journal"},
		{name: "user-01000.journal"},
		{name: "user-4294967296.journal"},
		{name: "remote-x.journal", current: true},
		{name: "remote-x@0123.journal"},
		{name: "system@" + id + "-10-00000000000000ff.journal"},
		{name: "system@" + id + "-000000000000001g-00000000000000ff.journal"},
		{name: "@" + id + "-0000000000000010-00000000000000ff.journal"},
		{name: "system@ff-0123456789abcdef.journal~"},
		{name: "kernel-seqnum"},
	}
	for _, tt := range tests {
		got, ok := parseStored(tt.name)
		if ok != tt.ok {
			t.Errorf("parseStored(%s) = %v, want %v", tt.name, ok, tt.ok)
		}
		tt.want.name = tt.name
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(stored{})); ok && diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if isCurrent(tt.name) != tt.current {
			t.Errorf("isCurrent(%s) = %v", tt.name, !tt.current)
		}
	}
}

// TestVacuum rotates more often than files may be kept: the oldest go, and it is
// said.
func TestVacuum(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir, nil)
	cfg.Limits.MaxFiles = 5
	var operator said
	cfg.Say = operator.say
	s := open(t, cfg)
	for i := range 10 {
		appendNumbered(t, s, i, i+1)
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.await(t.Context(), func() error {
			s.queueMu.Lock()
			defer s.queueMu.Unlock()
			if len(s.leaving) > 0 {
				return errNoFile
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.vacuum(0); err != nil {
		t.Fatal(err)
	}
	var archived []string
	for _, name := range verifyAll(t, dir) {
		if strings.Contains(name, "@") {
			archived = append(archived, name)
		}
	}
	if len(archived) != 4 {
		t.Errorf("%d archived files, want 4 and the current one: %v", len(archived), archived)
	}
	if diff := cmp.Diff(numbered(6, 10), storedIn(t, dir, false, "system@")); diff != "" {
		t.Errorf("entries kept (-want +got):\n%s", diff)
	}
	if !operator.has("removed ") {
		t.Errorf("the operator was told %q", operator.lines)
	}
	u := s.Status().Usage
	if u.Archived != 4 || u.Bytes == 0 || u.Available == 0 || u.Limit == 0 {
		t.Errorf("usage %+v", u)
	}
}

func TestVacuumBySize(t *testing.T) {
	files := []stored{{name: "1", size: 100, realtime: 1}, {name: "2", size: 100, realtime: 2}, {name: "3", size: 100, realtime: 3}}
	l := Limits{MaxRetention: time.Hour, MaxFiles: 10}
	hour := uint64(time.Hour / time.Microsecond)
	tests := []struct {
		name       string
		now        uint64
		sum, limit uint64
		count      int
		want       bool
	}{
		{"within all limits", 10, 300, 300, 3, false},
		{"over the space", 10, 301, 300, 3, true},
		{"over the number", 10, 300, 300, 11, true},
		{"over the age", hour + 1, 300, 300, 3, true},
		{"of the age but for a moment", hour, 300, 300, 3, false},
	}
	for _, tt := range tests {
		if got := l.excess(files[0], tt.now, tt.sum, tt.limit, tt.count); (got != "") != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// TestRepairedFileIsSpared starts after a crash on a disk that others have
// filled: what was repaired stays until the first rotation.
func TestRepairedFileIsSpared(t *testing.T) {
	s := open(t, testConfig(t.TempDir(), nil))
	appendNumbered(t, s, 0, 10)
	cfg := testConfig(crashed(t, s), &hookfs.FS{})
	s = open(t, cfg)
	set := *s.settings.Load()
	set.Limits.KeepFree, set.Limits.minUse = 1<<62, 1
	s.settings.Store(&set)
	for changed := s.progress.C(); len(s.open()) > 1; changed = s.progress.C() { // the archiver is at it
		<-changed
	}
	if _, err := s.vacuum(0); err != nil {
		t.Fatal(err)
	}
	if got := storedIn(t, cfg.Dir, false, "system@"); len(got) != 10 {
		t.Errorf("%d entries of the repaired file are left, want 10", len(got))
	}
	s.counts.rotations.Add(1)
	if _, err := s.vacuum(0); err != nil {
		t.Fatal(err)
	}
	if got := s.usage.Load().Archived; got != 0 {
		t.Errorf("%d archives after a rotation, want none", got)
	}
}

// freeFS is a disk with so many bytes free.
type freeFS struct {
	hookfs.FS
	free atomic.Uint64
}

func (f *freeFS) Free(string) (avail, total uint64, err error) { return f.free.Load(), 1 << 40, nil }

// TestMakesRoomForGrowth has a disk where the next step of growth would take from
// what is to be kept free: old files are removed before.
func TestMakesRoomForGrowth(t *testing.T) {
	disk := &freeFS{}
	disk.free.Store(1 << 39)
	cfg := testConfig(t.TempDir(), disk)
	cfg.Limits.KeepFree = 100 << 20
	s := open(t, cfg)
	appendNumbered(t, s, 0, 10)
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for s.Status().Usage.Archived != 1 {
		s.archiver.Ring()
		runtime.Gosched()
	}
	set := *s.settings.Load()
	set.Limits.minUse = 1
	s.settings.Store(&set)
	disk.free.Store(100<<20 + growStep - 1)
	s.makeRoom()
	if got := s.Status().Usage.Archived; got != 0 {
		t.Errorf("%d archived files are left", got)
	}
}

// TestUsageIsOfNow tells what the files take as they grow, and has the archiver
// find out what others have taken.
func TestUsageIsOfNow(t *testing.T) {
	disk := &freeFS{}
	disk.free.Store(1 << 39)
	s := open(t, testConfig(t.TempDir(), disk))
	before := s.Status().Usage.Bytes
	if err := s.system.f.w.GrowAhead(); err != nil {
		t.Fatal(err)
	}
	grown := s.system.f.w.Stats().Allocated
	appendNumbered(t, s, 0, 1)
	if got := s.Status().Usage.Bytes; got < before || got < grown {
		t.Errorf("usage %d, before %d, the file has %d", got, before, grown)
	}
	disk.free.Store(1 << 38)
	u := s.usage.Load()
	old := *u
	old.at -= usageAge // as if a second had passed
	s.usage.Store(&old)
	for s.Status().Usage.Available != 1<<38 {
		runtime.Gosched()
	}
	disk.free.Store(1 << 37)
	s.LookAgain() // however young the last look is
	for s.usage.Load().Available != 1<<37 {
		runtime.Gosched()
	}
}
