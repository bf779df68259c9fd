package daemon

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/ingest"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// parts are what the keys of a configuration become.
type parts struct {
	Store  store.Settings
	Ingest ingest.Config
	Least  string // level of every acknowledgement
}

var partsOptions = cmp.Options{
	cmp.Comparer(func(a, b settle.Policy) bool { return a == b }),
	cmpopts.IgnoreUnexported(store.Limits{}, ingest.Config{}),
	cmpopts.IgnoreFields(ingest.Config{}, "Free", "Event"),
}

// partsTotal is the size of the file system that shares are taken of.
const partsTotal = 1000 << 30

// partsOf reads a file of a configuration as far as the parts' own settings, as
// root.
func partsOf(t *testing.T, text string) parts {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemark.conf")
	if err := os.WriteFile(path, []byte("[Journal]\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := config.Load(path, true)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v", err, warnings)
	}
	d := newDaemon(Options{Env: config.Env{UID: 0}})
	d.cfg.Store(&c)
	d.data, d.run, d.machine, d.boot = "/data", "/run", entry.ID{1}, entry.ID{2}
	set := settings(c, partsTotal)
	return parts{set, d.ingestConfig(set), d.least().String()}
}

// TestKeysReachTheParts follows each key of a file to the part that acts on it:
// what the part gets differs from the default there and nowhere else.
func TestKeysReachTheParts(t *testing.T) {
	limits := func(change func(*store.Limits)) func(*parts) {
		return func(p *parts) { change(&p.Store.Limits) }
	}
	tests := []struct {
		text string
		want func(*parts)
	}{
		{"", func(*parts) {}},
		{"Sync=all", func(p *parts) { p.Store.Sync, p.Least = settle.All(), "synced" }},
		{"Sync=auto", func(p *parts) { p.Store.Sync = settle.Auto() }},
		{"SyncIntervalSec=7min", func(p *parts) { p.Store.Sync = settle.Every(7 * time.Minute) }},
		{"Notify=123ms", func(p *parts) { p.Store.Index = 123 * time.Millisecond }},
		{"Notify=0", func(p *parts) { p.Store.Index = -1 }},
		{"Buffer=3M", func(p *parts) { p.Store.Buffer = 3 << 20 }},
		{"SystemMaxUse=5G", limits(func(l *store.Limits) { l.MaxUse = 5 << 30 })},
		{"SystemMaxUse=20%", limits(func(l *store.Limits) { l.MaxUse = 200 << 30 })},
		{"SystemKeepFree=6G", limits(func(l *store.Limits) { l.KeepFree = 6 << 30 })},
		{"SystemKeepFree=1%", limits(func(l *store.Limits) { l.KeepFree = 10 << 30 })},
		{"SystemKeepFree=0", limits(func(l *store.Limits) { l.KeepFree = 1 })},
		{"SystemMaxFileSize=7M", func(p *parts) { p.Store.Limits.MaxFileSize, p.Ingest.MaxPassed = 7<<20, 7<<20 }},
		{"SystemMaxFileSize=2%", func(p *parts) { p.Store.Limits.MaxFileSize, p.Ingest.MaxPassed = 20<<30, 20<<30 }},
		{"SystemMaxFiles=8", limits(func(l *store.Limits) { l.MaxFiles = 8 })},
		{"SystemMaxFiles=0", limits(func(l *store.Limits) { l.MaxFiles = -1 })},
		{"SystemMaxFiles=99999999999", limits(func(l *store.Limits) { l.MaxFiles = -1 })},
		{"MaxFileSec=9min", limits(func(l *store.Limits) { l.MaxFileAge = 9 * time.Minute })},
		{"MaxFileSec=0", limits(func(l *store.Limits) { l.MaxFileAge = -1 })},
		{"MaxFileSec=infinity", limits(func(l *store.Limits) { l.MaxFileAge = -1 })},
		{"MaxRetentionSec=10day", limits(func(l *store.Limits) { l.MaxRetention = 240 * time.Hour })},
		{"MaxRetentionSec=infinity", func(*parts) {}},
		{"Compress=no", func(p *parts) { p.Store.Flavour.NoCompression = true }},
		{"Flavour=regular,254", func(p *parts) { p.Store.Flavour = journal.Flavour{Regular: true, Header254: true} }},
		{"Flavour=unkeyed,zstd\nCompress=no", func(p *parts) { p.Store.Flavour = journal.Flavour{Unkeyed: true, NoCompression: true} }},
		{"Flavour=plain\nCompress=yes", func(p *parts) { p.Store.Flavour.NoCompression = true }},
		{"Compress=4K", func(p *parts) { p.Store.CompressThreshold = 4096 }},
		{"Compress=7E", func(p *parts) { p.Store.CompressThreshold = math.MaxInt32 }},
		{"LineMax=11K", func(p *parts) { p.Ingest.LineMax = 11 << 10 }},
		{"LineMax=7E", func(p *parts) { p.Ingest.LineMax = math.MaxInt32 }},
		{"RateLimitIntervalSec=12s\nRateLimitBurst=13", func(p *parts) { p.Ingest.RateLimitInterval, p.Ingest.RateLimitBurst = 12*time.Second, 13 }},
		{"RateLimitIntervalSec=12s\nRateLimitBurst=99999999999", func(p *parts) { p.Ingest.RateLimitInterval, p.Ingest.RateLimitBurst = 12*time.Second, math.MaxUint32 }},
		{"MaxLevelStore=err", func(p *parts) { p.Ingest.MaxLevel = new(3) }},
		{"ReadKMsg=no", func(p *parts) { p.Ingest.Kmsg, p.Ingest.KmsgState = "", "" }},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			want := parts{
				store.Settings{
					Sync: settle.Every(time.Second), Index: 250 * time.Millisecond, Buffer: 64 << 20, CompressThreshold: 512,
					Limits: store.Limits{MaxFiles: 100, MaxFileAge: 2629800 * time.Second},
				},
				ingest.Config{
					Dir: "/run", MachineID: entry.ID{1}, BootID: entry.ID{2}, LineMax: 48 << 10, MaxLevel: new(7),
					Kmsg: "/dev/kmsg", KmsgState: "/data/01000000000000000000000000000000/kernel-seqnum",
				},
				"appended",
			}
			tt.want(&want)
			if diff := cmp.Diff(want, partsOf(t, tt.text+"\n"), partsOptions); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUsersHaveOneFileAndNoKernelLog: what needs root is not asked for without.
func TestUsersHaveOneFileAndNoKernelLog(t *testing.T) {
	for uid, want := range map[int]struct {
		split bool
		kmsg  string
	}{0: {true, "/dev/kmsg"}, 1000: {false, ""}} {
		d := newDaemon(Options{Env: config.Env{UID: uid}})
		d.cfg.Store(new(config.Defaults()))
		if got := d.storeConfig(store.Settings{}).Split; got != want.split {
			t.Errorf("uid %d: files of users %t, want %t", uid, got, want.split)
		}
		if got := d.ingestConfig(store.Settings{}); got.Kmsg != want.kmsg || (got.KmsgState != "") != (want.kmsg != "") {
			t.Errorf("uid %d: reads %q, keeps its place in %q, want %q", uid, got.Kmsg, got.KmsgState, want.kmsg)
		}
	}
}

// TestPartsReachTheStore: what ingest has to say becomes an entry with its
// fields and the daemon's own, and the space that it asks for is the store's.
func TestPartsReachTheStore(t *testing.T) {
	r := start(t, newPlace(t))
	d := r.daemon
	c := d.ingestConfig(store.Settings{})
	waitUntil(t, r, "a look for space", func() bool { return d.store.Free() > 0 })
	if c.Free() == 0 {
		t.Error("no space, but the store has some")
	}
	c.Event(4, "0123456789abcdef0123456789abcdef", "it happened", entry.Field("N_DROPPED=7"))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"MESSAGE": "it happened", "PRIORITY": "4", "MESSAGE_ID": "0123456789abcdef0123456789abcdef", "N_DROPPED": "7",
		"SYSLOG_FACILITY": "3", "SYSLOG_IDENTIFIER": "tidemark", "_TRANSPORT": "driver", "_RUNTIME_SCOPE": "system",
		"_PID": strconv.Itoa(os.Getpid()), "_UID": strconv.Itoa(os.Geteuid()), "_GID": strconv.Itoa(os.Getegid()),
		"_COMM": strings.TrimSpace(string(comm)), "_EXE": exe, "_HOSTNAME": host,
		"_BOOT_ID": d.boot.String(), "_MACHINE_ID": d.machine.String(),
	}
	for _, e := range stored(t, r.place, true) {
		if e["MESSAGE"] == want["MESSAGE"] {
			if diff := cmp.Diff(want, e); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Errorf("no such entry: %q", ownEntries(t, r.place))
}

// unmeasured is a file system that does not tell its size.
type unmeasured struct{ vfs.OS }

func (unmeasured) Free(name string) (avail, total uint64, err error) {
	return 0, 0, &fs.PathError{Op: "statfs", Path: name, Err: syscall.EIO}
}

// TestLimitsAreNotGuessed: without the size of the file system a share of it is
// nothing, which would stand for the default. Nothing begins then, and a reload
// keeps what holds.
func TestLimitsAreNotGuessed(t *testing.T) {
	p := newPlace(t)
	d := newDaemon(p.options(io.Discard, io.Discard))
	d.fs = unmeasured{}
	want := "ask for the size of the file system of " + p.Data + ": statfs " + p.Data + ": input/output error"
	if err := d.live(t.Context()); !errors.Is(err, syscall.EIO) || err.Error() != want {
		t.Errorf("began: %v, want %s", err, want)
	}
	if left, err := os.ReadDir(p.Data); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	r := start(t, p)
	d = r.daemon
	p.configure(t, "Sync=all\n")
	d.fs = unmeasured{}
	if err := d.reload(t.Context()); err == nil || err.Error() != want {
		t.Errorf("reload: %v, want %s", err, want)
	}
	if got := d.Status().Sync; got != "1s" {
		t.Errorf("sync policy %s after a reload that failed, want 1s", got)
	}
}
