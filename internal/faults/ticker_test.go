package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/config"
	serve "github.com/tidemark-log/tidemark/internal/daemon"
	"github.com/tidemark-log/tidemark/internal/slowfs"
)

// tickerEnv makes the test binary a daemon with a ticker in it: a ticking, in JSON.
const tickerEnv = "TIDEMARK_TEST_TICKER"

// ticking is what a process with a daemon and a ticker is to do.
type ticking struct {
	Result string // a file for the gaps
	Mapped string // if set, a file that is mapped and stored into, for comparison
	Alone  bool   // no daemon: what the machine does to a ticker meanwhile
}

// gaps are the times between ticks.
type gaps struct {
	Ticks   int
	Largest time.Duration
}

func (g *gaps) add(d time.Duration) {
	g.Ticks++
	g.Largest = max(g.Largest, d)
}

// tickerChild does nothing but in the process that BenchmarkTicker has started.
func tickerChild() {
	text := os.Getenv(tickerEnv)
	if text == "" {
		return
	}
	var what ticking
	err := json.Unmarshal([]byte(text), &what)
	if err == nil {
		err = what.run(os.Args[len(os.Args)-1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is a daemon, a loop of garbage collections and a ticker of 1 ms, until
// SIGTERM.
func (w ticking) run(conf string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() {
		for ctx.Err() == nil {
			runtime.GC()
		}
	})
	if w.Mapped != "" {
		if err := w.store(ctx, &beside); err != nil {
			return err
		}
	}
	var seen gaps
	beside.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ctx.Err() == nil; {
			<-tick.C
			now := time.Now()
			seen.add(now.Sub(last))
			last = now
		}
	})
	var err error
	if w.Alone {
		fmt.Println("ready")
		<-ctx.Done()
	} else {
		err = serve.Run(ctx, serve.Options{
			Config:  func() (config.Config, []config.Warning, error) { return config.Load(conf, true) },
			Env:     config.Env{UID: os.Geteuid(), Getenv: os.Getenv, Temp: os.TempDir()},
			Version: "test", Out: os.Stdout, Err: io.Discard,
		})
	}
	stop()
	beside.Wait()
	b, jsonErr := json.Marshal(seen)
	return errors.Join(err, jsonErr, os.WriteFile(w.Result, b, 0o600))
}

// store has a goroutine store into a mapped file, as a writer that maps would, while
// another syncs it.
func (w ticking) store(ctx context.Context, beside *sync.WaitGroup) error {
	f, err := os.Create(w.Mapped)
	if err != nil {
		return err
	}
	const size = 1 << 20
	if err := f.Truncate(size); err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	every := func(d time.Duration, do func(n int)) {
		beside.Go(func() {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-tick.C
				do(n)
			}
		})
	}
	every(time.Millisecond, func(n int) { m[n*4096%size]++ })
	every(50*time.Millisecond, func(int) { _ = unix.Fdatasync(int(f.Fd())) })
	return nil
}

// BenchmarkTicker measures the largest gap of a 1 ms ticker beside a loop of garbage
// collections inside a daemon that is written to and syncs all the time: on tmpfs, on
// file systems in a loop image, and on those whose disk takes 5 ms for each write
// and 100 ms for each sync; "mapped" is that disk with a mapped file beside, to
// show what the measure can see. "alone" is the largest gap of the same at the same
// time in a process without a daemon: what the machine did to both. An operation is
// 1 ms: -benchtime=5000x.
func BenchmarkTicker(b *testing.B) {
	slow := func(b *testing.B, fstype string) string {
		mnt, disk := slowDisk(b, fstype)
		disk.Set(slowfs.Rule{Calls: []slowfs.Call{slowfs.Write}, Delay: 5 * time.Millisecond},
			slowfs.Rule{Calls: []slowfs.Call{slowfs.Fsync}, Delay: 100 * time.Millisecond})
		return mnt
	}
	b.Run("tmpfs", func(b *testing.B) { benchTicker(b, tmpfs(b), false) })
	for _, fstype := range []string{"ext4", "xfs", "btrfs"} {
		b.Run(fstype, func(b *testing.B) { benchTicker(b, loop(b, fstype, b.TempDir()), false) })
		b.Run("slow/"+fstype, func(b *testing.B) { benchTicker(b, slow(b, fstype), false) })
	}
	b.Run("slow/btrfs/mapped", func(b *testing.B) { benchTicker(b, slow(b, "btrfs"), true) })
}

// tmpfs mounts one until the test ends.
func tmpfs(tb testing.TB) (mnt string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root to mount a tmpfs")
	}
	mnt = tb.TempDir()
	if err := unix.Mount("tmpfs", mnt, "tmpfs", 0, ""); err != nil {
		tb.Skipf("tmpfs cannot be mounted here: %v", err)
	}
	tb.Cleanup(func() { noError(tb, unix.Unmount(mnt, 0)) })
	return mnt
}

func benchTicker(b *testing.B, mnt string, mapped bool) {
	p := newPlace(b, filepath.Join(mnt, "data"))
	p.configure(b, "Sync=50ms", "HTTP=127.0.0.1:0", "Data="+p.data, "Run="+p.run)
	what := ticking{Result: filepath.Join(b.TempDir(), "gaps")}
	if mapped {
		what.Mapped = filepath.Join(mnt, "mapped")
	}
	beside := ticking{Result: filepath.Join(b.TempDir(), "gaps"), Alone: true}
	d, alone := what.start(b, p), beside.start(b, p)
	s := newStream(newLedger(), d, seeded(1))
	s.lane = 1 << 30
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.run(ctx); close(ended) }()
	timer := time.NewTimer(time.Duration(b.N) * time.Millisecond)
	<-timer.C
	cancel()
	<-ended
	syncs := d.state(b).Syncs
	noError(b, alone.stop())
	noError(b, d.stop())
	seen := what.gaps(b)
	b.ReportMetric(float64(seen.Largest.Microseconds())/1000, "ms-largest")
	b.ReportMetric(float64(beside.gaps(b).Largest.Microseconds())/1000, "ms-largest-alone")
	b.ReportMetric(float64(seen.Ticks), "ticks")
	b.ReportMetric(float64(syncs), "syncs")
	b.ReportMetric(float64(s.answered()), "acks")
}

// start starts the process.
func (w ticking) start(b *testing.B, p place) *daemon {
	b.Helper()
	text, err := json.Marshal(w)
	noError(b, err)
	p.bin, err = os.Executable()
	noError(b, err)
	b.Setenv(tickerEnv, string(text))
	return start(b, p)
}

// gaps reads what the process has seen.
func (w ticking) gaps(b *testing.B) (seen gaps) {
	b.Helper()
	raw, err := os.ReadFile(w.Result)
	noError(b, err)
	noError(b, json.Unmarshal(raw, &seen))
	return seen
}
