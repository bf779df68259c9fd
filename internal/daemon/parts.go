package daemon

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/ingest"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/web"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

func (d *daemon) storeConfig(set store.Settings) store.Config {
	return store.Config{
		FS:        d.fs,
		Dir:       d.data,
		MachineID: d.machine,
		BootID:    d.boot,
		Settings:  set,
		Split:     d.o.Env.UID == 0,
		Self:      d.self(),
		Say:       d.say,
		Changed:   d.changed,
		Effects:   &d.effects,
	}
}

// space is the size of the file system that will hold the data, in bytes. What
// the limits are a share of must not be guessed.
func (d *daemon) space() (total uint64, err error) {
	fsys := d.fs
	if fsys == nil {
		fsys = vfs.OS{}
	}
	if _, total, err = fsys.Free(existing(d.data)); err != nil {
		return 0, fmt.Errorf("ask for the size of the file system of %s: %w", d.data, err)
	}
	return total, nil
}

// settings are what of a configuration the store can change while it runs, on a
// file system of total bytes.
func settings(c config.Config, total uint64) store.Settings {
	index := c.Notify
	if index == 0 {
		index = -1 // with every write
	}
	flavour := journal.Flavour(c.Flavour)
	flavour.NoCompression = flavour.NoCompression || !c.Compress
	return store.Settings{
		Sync:              c.Sync,
		Index:             index,
		Buffer:            int64(min(c.Buffer, math.MaxInt64)),
		Limits:            limits(c, total),
		CompressThreshold: int(min(c.CompressThreshold, math.MaxInt32)),
		Flavour:           flavour,
	}
}

// limits turns journald's keys into sizes on a file system of total bytes.
func limits(c config.Config, total uint64) store.Limits {
	l := store.Limits{
		MaxUse:      c.SystemMaxUse.Of(total),
		KeepFree:    c.SystemKeepFree.Of(total),
		MaxFileSize: c.SystemMaxFileSize.Of(total),
		MaxFiles:    -1,
		MaxFileAge:  -1,
	}
	if n := c.SystemMaxFiles; n > 0 && n < math.MaxInt32 {
		l.MaxFiles = int(n)
	}
	if c.MaxFile > 0 && c.MaxFile != config.Infinity {
		l.MaxFileAge = c.MaxFile
	}
	if c.MaxRetention != config.Infinity {
		l.MaxRetention = c.MaxRetention
	}
	return l
}

// existing is the nearest directory above path that exists.
func existing(path string) string {
	for path != "/" && path != "." {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

// self are the trusted fields of the daemon's own entries.
func (d *daemon) self() []entry.Field {
	field := func(name, value string) entry.Field { return entry.Field(name + "=" + value) }
	fields := []entry.Field{
		field("_PID", strconv.Itoa(os.Getpid())),
		field("_UID", strconv.Itoa(os.Geteuid())),
		field("_GID", strconv.Itoa(os.Getegid())),
	}
	if comm, err := os.ReadFile("/proc/self/comm"); err == nil {
		fields = append(fields, field("_COMM", strings.TrimSuffix(string(comm), "\n")))
	}
	if exe, err := os.Executable(); err == nil {
		fields = append(fields, field("_EXE", exe))
	}
	fields = append(fields, field("_BOOT_ID", d.boot.String()), field("_MACHINE_ID", d.machine.String()))
	if name, err := os.Hostname(); err == nil && name != "" {
		fields = append(fields, field("_HOSTNAME", name))
	}
	return append(fields, field("_RUNTIME_SCOPE", "system"))
}

func (d *daemon) ingestConfig(set store.Settings) ingest.Config {
	cfg := d.config()
	c := ingest.Config{
		Dir:               d.run,
		MachineID:         d.machine,
		BootID:            d.boot,
		LineMax:           int(min(cfg.LineMax, math.MaxInt32)),
		RateLimitInterval: cfg.RateLimitInterval,
		RateLimitBurst:    uint32(min(cfg.RateLimitBurst, math.MaxUint32)),
		MaxLevel:          &cfg.MaxLevelStore,
		MaxPassed:         int64(min(set.Limits.MaxFileSize, math.MaxInt64)),
		Free:              d.store.Free,
		Event:             d.store.Event,
	}
	if cfg.ReadKMsg && d.o.Env.UID == 0 {
		c.Kmsg = "/dev/kmsg"
		c.KmsgState = filepath.Join(d.data, d.machine.String(), "kernel-seqnum")
	}
	return c
}

func (d *daemon) webConfig() web.Config {
	c := web.Config{
		Sink: d.store,
		NewDecoder: func(peer string) web.Decoder {
			return &countedDecoder{JSONDecoder: d.ingest.NewJSONDecoder(peer), counts: &d.decoded}
		},
		Requests: requests{d},
		Uploads:  d.remote,
		Stats:    d.stats,
		Ready:    d.ready,
		Least:    d.least,
	}
	if d.accessLog != nil {
		c.AccessLog, c.AccessLogSynced = d.accessLog, d.config().AccessLogSync.IsAll()
	}
	return c
}

// least is the level that every acknowledgement has: under the policy all an
// append waits for its sync.
func (d *daemon) least() settle.Level {
	if d.config().Sync.IsAll() {
		return settle.Synced
	}
	return settle.Appended
}

// jsonCounts add up what the decoders of all requests have changed.
type jsonCounts struct{ underscores, cut, null, tooMany atomic.Uint64 }

// countedDecoder adds what a decoder has changed to the daemon's counts.
type countedDecoder struct {
	*ingest.JSONDecoder
	counts *jsonCounts
	seen   entry.JSONCounts
}

// Decode implements web.Decoder.
func (c *countedDecoder) Decode(line []byte) (entry.Entry, error) {
	e, err := c.JSONDecoder.Decode(line)
	if now := c.Counts; now != c.seen {
		c.counts.underscores.Add(uint64(now.Underscores - c.seen.Underscores))
		c.counts.cut.Add(uint64(now.Cut - c.seen.Cut))
		c.counts.null.Add(uint64(now.Null - c.seen.Null))
		c.counts.tooMany.Add(uint64(now.TooMany - c.seen.TooMany))
		c.seen = now
	}
	return e, err
}

// usec is t in µs since 1970.
func usec(t time.Time) uint64 { return uint64(t.UnixMicro()) }
