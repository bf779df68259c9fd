package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/slowfs"
	"github.com/tidemark-log/tidemark/settle"
)

// TestCrashKill kills the daemon with -9 at random moments, under each policy, while
// it is written to on all ways; some of the next ones at their start. All that was
// acknowledged is there afterwards, whole and once, and every file verifies.
func TestCrashKill(t *testing.T) {
	first, n := seeds(t, len(policies()))
	promised := 0
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		policy := policies()[seed%uint64(len(policies()))]
		t.Run(fmt.Sprintf("seed %d %s", seed, policy), func(t *testing.T) {
			defer repeat(t, "TestCrashKill", seed, 1)
			promised += crashOnce(t, rand.New(rand.NewPCG(seed, 1)), policy)
		})
	}
	if promised == 0 {
		t.Error(errNothing)
	}
	t.Logf("%d kills or more, %d records promised", n, promised)
}

// repeat tells how to see a failure again.
func repeat(t *testing.T, test string, seed, n uint64) {
	if t.Failed() {
		t.Logf("again: TIDEMARK_SEED=%d TIDEMARK_SEEDS=%d go test -run %s -count=20 ./internal/faults", seed, n, test)
	}
}

// crashOnce is a round of TestCrashKill. It returns how many records were promised.
func crashOnce(t *testing.T, r *rand.Rand, policy string) int {
	p := newPlace(t, t.TempDir(), settings(r, policy)...)
	l := newLedger()
	for range 1 + r.IntN(2) {
		d, err := p.start()
		noError(t, err)
		ctx, cancel := context.WithCancel(guarded(t))
		ended := make(chan struct{})
		s := newStream(l, d, seeded(r.Uint64()))
		go func() { s.run(ctx); close(ended) }()
		if r.IntN(4) > 0 { // else it may not have answered anybody yet
			within(t, "an answer", l.began)
		}
		after(r, 80*time.Millisecond)
		d.kill()
		cancel()
		<-ended
	}
	if r.IntN(4) == 0 { // the repair is killed too
		d, out, err := p.launch()
		noError(t, err)
		after(r, 30*time.Millisecond)
		d.kill()
		noError(t, out.Close())
	}
	d, err := p.start()
	noError(t, err)
	noError(t, d.stop())
	l.check(t, messages(t, p.data), l.surely(settle.Appended))
	verify(t, p.data)
	if aside := setAside(t, p.data); len(aside) > 0 {
		t.Errorf("set aside after a kill: %q", aside)
	}
	return l.answered()
}

// setAside lists the files that were set aside.
func setAside(t *testing.T, data string) (names []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, "*", "*.journal~"))
	noError(t, err)
	return names
}

// cutsPerLife is how many images are made of a daemon's disk while it runs.
const cutsPerLife = 5

// TestCrashPowerCut lets a daemon be written to on all ways while its disk could lose
// its power at random moments, under each policy, and starts another one on each of
// what that could leave. All that was acknowledged as synced is there, whole and
// once, and every file verifies or was set aside.
func TestCrashPowerCut(t *testing.T) {
	first, n := seeds(t, 4)
	lives, promised := 0, 0
	for seed := first; seed < first+n && !t.Failed(); seed += cutsPerLife {
		policy := policies()[seed/cutsPerLife%uint64(len(policies()))]
		t.Run(fmt.Sprintf("seed %d %s", seed, policy), func(t *testing.T) {
			images := min(cutsPerLife, first+n-seed)
			defer repeat(t, "TestCrashPowerCut", seed, images)
			promised += cutLife(t, seed, images, policy)
			lives++ // not where there is no disk to cut: that skips
		})
	}
	if lives > 0 && promised == 0 {
		t.Error(errNothing)
	}
	t.Logf("%d images, %d promises looked up in them", n, promised)
}

// image is what a power cut could leave, and what must be in it.
type image struct {
	dir  string
	must map[string]bool
}

// cutLife is the life of a daemon in TestCrashPowerCut.
func cutLife(t *testing.T, seed, n uint64, policy string) (promised int) {
	r := rand.New(rand.NewPCG(seed, 3))
	disk := slowfs.Mount(t, t.TempDir(), slowfs.Options{PowerCut: true})
	lines := settings(r, policy)
	p := newPlace(t, filepath.Join(disk.Path(), "data"), lines...)
	d := start(t, p)
	l := newLedger()
	ctx, cancel := context.WithCancel(guarded(t))
	defer cancel()
	ended := make(chan struct{})
	go func() { newStream(l, d, seeded(seed)).run(ctx); close(ended) }()
	within(t, "an answer", l.began)
	var images []image
	for i := range n {
		after(r, 150*time.Millisecond)
		im := image{filepath.Join(t.TempDir(), "image"), l.surely(settle.Synced)}
		if i == n-1 {
			disk.Cut(seed+i, im.dir)
		} else {
			disk.Image(seed+i, im.dir)
		}
		images = append(images, im)
	}
	cancel()
	d.kill()
	<-ended
	for _, im := range images {
		checkImage(t, l, im, lines)
		promised += len(im.must)
	}
	return promised
}

// checkImage starts a daemon on an image, and looks everything up.
func checkImage(t *testing.T, l *ledger, im image, lines []string) {
	t.Helper()
	data := filepath.Join(im.dir, "data")
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) && len(im.must) == 0 {
		return // it was just being made
	}
	p := newPlace(t, data, lines...)
	d, err := p.start()
	if err != nil {
		t.Error(err)
		return
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	l.check(t, messages(t, data), im.must)
	verify(t, data)
	if t.Failed() {
		t.Logf("image %s, set aside: %q", filepath.Base(filepath.Dir(im.dir)), strings.Join(setAside(t, data), " "))
	}
}

// TestCrashFailingSyncs lets syncs fail now and then, done or not, while a daemon is
// written to on all ways; some are killed. What was acknowledged is there
// afterwards, whole and once, though files were set aside and what they had was
// stored again.
func TestCrashFailingSyncs(t *testing.T) {
	first, n := seeds(t, 2)
	lives, aside := 0, 0
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		policy := policies()[seed%uint64(len(policies()))]
		t.Run(fmt.Sprintf("seed %d %s", seed, policy), func(t *testing.T) {
			defer repeat(t, "TestCrashFailingSyncs", seed, 1)
			aside += failingLife(t, rand.New(rand.NewPCG(seed, 5)), policy)
			lives++ // not where there is no such disk: that skips
		})
	}
	if lives > 0 && aside == 0 {
		t.Error("no file was set aside: the test shows nothing")
	}
}

// failingLife is a round of TestCrashFailingSyncs. It returns how many files were set
// aside.
func failingLife(t *testing.T, r *rand.Rand, policy string) int {
	disk := slowfs.Mount(t, t.TempDir(), slowfs.Options{})
	lines := settings(r, policy)
	p := newPlace(t, filepath.Join(disk.Path(), "data"), lines...)
	l := newLedger()
	d := start(t, p)
	disk.Set(slowfs.Rule{Calls: []slowfs.Call{slowfs.Fsync}, Err: syscall.EIO, Done: r.IntN(2) == 0, Every: 2 + r.IntN(4)})
	ctx, cancel := context.WithCancel(guarded(t))
	s := newStream(l, d, seeded(r.Uint64()))
	ended := make(chan struct{})
	go func() { s.run(ctx); close(ended) }()
	until(t, "a file that is set aside", func() bool { return len(setAside(t, p.data)) > 0 })
	after(r, 100*time.Millisecond)
	if r.IntN(2) == 0 {
		d.kill()
	}
	cancel()
	<-ended
	disk.Set()
	if err := d.stop(); err != nil {
		t.Logf("stopped: %v", err) // it may say that something could not be synced
	}
	d, err := p.start()
	noError(t, err)
	noError(t, d.stop())
	l.check(t, messages(t, p.data), l.surely(settle.Appended))
	verify(t, p.data)
	return len(setAside(t, p.data))
}
