// Package daemon builds the log daemon: store, ingest and the two doors, runs
// them under one context, and stops them in the order that loses nothing:
// first what receives, then the store, then the doors.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/funnel"
	"github.com/tidemark-log/tidemark/internal/histogram"
	"github.com/tidemark-log/tidemark/internal/ingest"
	"github.com/tidemark-log/tidemark/internal/remote"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/web"
	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// drainLimit is how long what has been received may take to be stored when the
// daemon ends. It is journald's.
const drainLimit = 10 * time.Second

// Options of Run.
type Options struct {
	// Config is read again when asked to: it returns the configuration, and
	// warnings for the operator.
	Config func() (config.Config, []config.Warning, error)
	// Env tells the default paths.
	Env config.Env
	// Version names this build.
	Version string
	// Out gets a line per endpoint and `ready`, Err everything else.
	Out, Err io.Writer
}

// daemon is everything that runs.
type daemon struct {
	o        Options
	fs       vfs.FS        // of the journal files; nil: the machine's
	drainFor time.Duration // how long drain waits
	cfg      atomic.Pointer[config.Config]
	data     string
	run      string
	runLock  *store.Lock
	started  time.Time
	unheard  atomic.Bool // by the service manager
	machine  entry.ID
	boot     entry.ID

	accessLog *linelog.Writer // nil: there is none
	funnel    *funnel.Funnel
	store     *store.Store
	remote    *remote.Files
	ingest    *ingest.Ingest
	control   *control.Server
	web       *web.Server
	varlink   *net.UnixListener
	http      []net.Listener
	endpoints []control.Endpoint
	signals   chan os.Signal
	unsaid    []string // warnings that wait for the store, to become entries too
	decoded   jsonCounts
	called    struct{ entries, level atomic.Uint64 } // of varlink's Append: taken, above MaxLevelStore

	teller   atomic.Pointer[settle.Settler] // tells the service manager; nil: there is none
	changes  atomic.Uint64                  // in the state of which it is to be told
	stopping atomic.Bool

	effects     histogram.Effects // of all journal files
	logEffects  histogram.Effects // of the access log
	lineEffects histogram.Effects // of the files of clients
	looks       sync.Pool         // of *snapshot: those not in use

	errMu sync.Mutex // one line at a time on o.Err

	stampMu sync.Mutex
	reserve control.Reserve // for stamps when there is no other descriptor
}

// Run runs the daemon until ctx is done, and returns nil when everything that
// was received is synced. Another error than nil means that it could not begin,
// that a part has failed, or that not everything could be stored.
func Run(ctx context.Context, o Options) error { return newDaemon(o).live(ctx) }

func newDaemon(o Options) *daemon {
	return &daemon{o: o, drainFor: drainLimit, started: time.Now(), signals: make(chan os.Signal, 8)}
}

// live is Run.
func (d *daemon) live(ctx context.Context) error {
	defer syscall.Umask(syscall.Umask(ownUmask))
	// From the start to the very end: a hang-up must not end a daemon that repairs
	// a file, or closes one. Nor must a line to a terminal that has gone.
	signal.Notify(d.signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, signalSync, syscall.SIGPIPE)
	defer signal.Stop(d.signals)
	if err := d.open(); err != nil {
		d.sayUnsaid()
		if d.remote != nil {
			d.remote.Close() //nolint:errcheck // the error at hand says more
		}
		if d.store != nil {
			d.store.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the error at hand says more
		}
		d.closeAccessLog() //nolint:errcheck // the error at hand says more
		d.release()
		return err
	}
	return d.serve(ctx)
}

// open brings all parts up in order: what can be wrong with the settings, the
// addresses and the sockets shows before a file is opened, repaired or archived.
// After an error the parts that are up are set, for Run to undo.
func (d *daemon) open() error {
	cfg, warnings, err := d.o.Config()
	for _, w := range warnings {
		d.unsaid = append(d.unsaid, w.String())
	}
	if err != nil {
		return err
	}
	for _, addr := range cfg.HTTP {
		if err := CheckHTTP(addr); err != nil {
			return err
		}
	}
	d.cfg.Store(&cfg)
	d.applyNice(cfg)
	d.reserve.Fill()
	if err := d.takePlaces(); err != nil {
		return err
	}
	if err := d.listen(); err != nil {
		return err
	}
	if err := ingest.Check(d.run); err != nil {
		return err
	}
	if err := d.findMachineID(config.MachineIDFile); err != nil {
		return err
	}
	if err := d.openAccessLog(); err != nil {
		return err
	}
	total, err := d.space()
	if err != nil {
		return err
	}
	set := settings(cfg, total)
	if d.store, err = store.Open(d.storeConfig(set)); err != nil {
		return err
	}
	for _, text := range d.unsaid {
		d.warn(text)
	}
	d.unsaid = nil
	if err = d.openRemote(); err != nil {
		return err
	}
	if d.ingest, err = ingest.Open(d.ingestConfig(set), d.store); err != nil {
		return err
	}
	d.openFunnel()
	d.web = web.New(d.webConfig())
	info := control.Info{Vendor: "tidemark", Product: "tidemark", Version: d.o.Version, URL: "https://github.com/tidemark-log/tidemark"}
	d.control = control.New(d, info, control.Limits{})
	return nil
}

// config is what holds now.
func (d *daemon) config() config.Config { return *d.cfg.Load() }

// serve runs everything until ctx is done or a part fails, then stops it.
func (d *daemon) serve(ctx context.Context) error {
	d.store.Event(levelInfo, messageStarted, "started, version "+d.o.Version)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	doors, closeDoors := context.WithCancel(context.WithoutCancel(ctx))
	defer closeDoors()
	var received, answered sync.WaitGroup
	part := func(wg *sync.WaitGroup, name string, run func() error) {
		wg.Go(func() {
			if err := run(); err != nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	part(&received, "receive", func() error { return d.ingest.Run(ctx) })
	part(&answered, "varlink", func() error { return d.control.Serve(doors, d.varlink) })
	for _, l := range d.http {
		part(&answered, "http "+l.Addr().String(), func() error { return d.web.Serve(doors, l) })
	}
	stopSignals := d.watchSignals(ctx)
	stopWatchdog := d.feedWatchdog(ctx)
	d.announce()
	stopStatus := d.tellStatus()

	<-ctx.Done()
	d.stopping.Store(true)
	d.notify(sd.SdNotifyStopping)
	d.changed()
	cause, err := context.Cause(ctx), error(nil)
	if !errors.Is(cause, context.Canceled) {
		err = cause
	}
	stopSignals()
	drainErr := errors.Join(d.drain(&received), d.closeRemote())
	d.tellStop(cause, drainErr)
	err = errors.Join(err, drainErr, d.store.Close(context.WithoutCancel(ctx)))
	closeDoors()
	err = errors.Join(err, d.closeFunnel(&answered), d.closeAccessLog())
	stopWatchdog()
	stopStatus()
	d.release()
	if err == nil {
		d.say("stopped: everything is synced")
	}
	return err
}

// drain waits until what the sockets hold is handed to the store, but not for
// ever: a full disk must not keep the daemon from ending.
func (d *daemon) drain(received *sync.WaitGroup) error {
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { received.Wait(); close(done) })
	defer waiting.Wait()
	limit := time.NewTimer(d.drainFor)
	defer limit.Stop()
	select {
	case <-done:
		return nil
	case <-limit.C:
		d.ingest.Close() //nolint:errcheck // gives up what is blocked
		return fmt.Errorf("what was received could not be stored within %s", d.drainFor)
	}
}

// tellStop leaves an entry of why the daemon ends, and of what it could not
// store: the last one, like journald's.
func (d *daemon) tellStop(cause, drainErr error) {
	text := "stopping: " + cause.Error()
	if drainErr != nil {
		d.store.Event(levelErr, messageStopped, text+": "+drainErr.Error())
		return
	}
	priority := levelInfo
	if !errors.Is(cause, context.Canceled) {
		priority = levelErr
	}
	d.store.Event(priority, messageStopped, text)
}

// release gives back sockets and directories, whatever of them open has taken.
func (d *daemon) release() {
	for _, l := range d.http {
		l.Close() //nolint:errcheck // it may be closed already
	}
	if d.varlink != nil {
		d.varlink.Close() //nolint:errcheck // it may be closed already
	}
	if d.ingest != nil {
		d.ingest.Close() //nolint:errcheck // it may be closed already
	}
	d.runLock.Release()
	d.reserve.Empty()
}

// announce says where the daemon can be reached, and that it is ready.
func (d *daemon) announce() {
	for _, e := range append(d.endpoints, control.Endpoint{Protocol: "data", Address: filepath.Join(d.data, d.machine.String())}) {
		fmt.Fprintf(d.o.Out, "%-8s %s\n", e.Protocol, e.Address) //nolint:errcheck // a closed terminal stops nothing
	}
	fmt.Fprintln(d.o.Out, "ready") //nolint:errcheck // a closed terminal stops nothing
	d.notify(sd.SdNotifyReady)
}

// say prints a line for the operator.
func (d *daemon) say(line string) {
	d.errMu.Lock()
	defer d.errMu.Unlock()
	fmt.Fprintln(d.o.Err, "tidemark serve: "+line) //nolint:errcheck // a closed terminal stops nothing
}

// Levels of the daemon's own entries.
const (
	levelErr     = 3
	levelWarning = 4
	levelInfo    = 6
)

// Message ids of the daemon's own entries. The first two are journald's.
const (
	messageStarted = "f77379a8490b408bbe5f6940505a777b"
	messageStopped = "d93fb3c9c24d451a97cea615ce59c00b"
	messageConfig  = "4e1c7a90d2b84f36a5c8e07f1b92d643" // what was found in the configuration
)

// warn says that something in the configuration is left out, and keeps it as an
// entry.
func (d *daemon) warn(text string) { d.store.Event(levelWarning, messageConfig, "warning: "+text) }

// sayUnsaid says the warnings that did not become entries.
func (d *daemon) sayUnsaid() {
	for _, text := range d.unsaid {
		d.say("warning: " + text)
	}
}
