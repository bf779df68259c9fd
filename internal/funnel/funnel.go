package funnel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/linelog"
)

// Defaults of Config, for members that are zero.
const (
	// DefaultFiles bounds the files that are open.
	DefaultFiles = 256
	// DefaultIdle is how long a file stays open that nobody uses: the processes of a
	// build come one after the other.
	DefaultIdle = 5 * time.Second
	// DefaultLimit bounds what waits to be written to one file, in bytes.
	DefaultLimit = 1 << 20
)

// maxLine is more than a message may hold: a line is cut by the client, or not at all.
const maxLine = 32 << 20

// Errors of Open, found with errors.Is.
var (
	// ErrClosed says that the daemon is ending.
	ErrClosed = errors.New("the daemon is ending")
	// ErrFull says that too many files are in use, of one user or of all.
	ErrFull = fmt.Errorf("too many files in use by clients of the daemon: %w", syscall.EMFILE)
)

// Config is what a Funnel needs to know. The zero value is useful.
type Config struct {
	// Files bounds the files that are open, FilesPerUser those of one user. 0:
	// DefaultFiles, and half of Files.
	Files, FilesPerUser int
	// Idle is how long a file stays open that nobody uses. 0: DefaultIdle.
	Idle time.Duration
	// Limit bounds what waits to be written to one file, in bytes; one call may have
	// more. 0: DefaultLimit.
	Limit int64
	// Say, if not nil, is told in words what goes wrong with a file. It must be quick.
	Say func(text string)
	// Observe, if not nil, returns the Observe of a new writer: see linelog.Options.
	Observe func() func(effect string, d time.Duration, covered uint64, err error)
}

// Funnel has the writers. Its methods may be called concurrently.
type Funnel struct {
	cfg    Config
	ending context.Context //nolint:containedctx // done when Close gives up waiting for the disk
	giveUp context.CancelFunc

	mu      sync.Mutex
	files   map[inode]*file
	perUser map[uint32]int // files, by who has opened them first; no zero values
	clients int
	closed  bool
	past    Stats // of files that are closed
	refused uint64
}

// inode is what a file is known by.
type inode struct{ device, number uint64 }

// file is one writer. What is not said otherwise is guarded by Funnel.mu.
type file struct {
	inode
	user    uint32
	name    string          // for people; set before opened is closed
	writer  *linelog.Writer // set before opened is closed
	opened  chan struct{}   // closed when writer is set, or the file is gone
	gone    chan struct{}   // closed when the file is not in Funnel.files any more
	clients int
	closing bool        // nobody joins any more
	taken   bool        // somebody closes it
	idle    *time.Timer // armed while open and without clients
	since   time.Time   // since when it is
}

// New returns a funnel without files.
func New(cfg Config) *Funnel {
	if cfg.Files <= 0 {
		cfg.Files = DefaultFiles
	}
	if cfg.FilesPerUser <= 0 {
		cfg.FilesPerUser = max(1, cfg.Files/2)
	}
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Limit <= 0 {
		cfg.Limit = DefaultLimit
	}
	if cfg.Say == nil {
		cfg.Say = func(string) {}
	}
	f := &Funnel{cfg: cfg, files: make(map[inode]*file), perUser: make(map[uint32]int)}
	f.ending, f.giveUp = context.WithCancel(context.Background())
	return f
}

// Open returns the client's end of the file that appending and repairing are
// descriptors of: the first with O_APPEND, the second without. It takes both over,
// also with an error: those of a file that is open already are closed with the client. It
// waits while the file is being opened or closed. Without the second (-1) the file must be
// open already, by what another client has passed.
//
// Errors: a *RefusedError for other descriptors, ErrFull, ErrClosed, that of ctx, and
// those of reading the end of the file.
func (fu *Funnel) Open(ctx context.Context, user uint32, appending, repairing int) (*Client, error) {
	name := nameOf(appending)
	app, fix := os.NewFile(uintptr(appending), name), os.NewFile(uintptr(repairing), name)
	defer func() {
		for _, f := range []*os.File{app, fix} {
			if f != nil {
				f.Close() //nolint:errcheck // nothing was written to it
			}
		}
	}()
	id, err := look(appending, repairing)
	if err != nil {
		fu.mu.Lock()
		fu.refused++
		fu.mu.Unlock()
		return nil, err
	}
	for {
		f, wait, err := fu.join(id, user, repairing < 0)
		switch {
		case err != nil:
			return nil, err
		case f != nil && f.writer != nil:
			c := &Client{funnel: fu, file: f, spare: [2]*os.File{app, fix}}
			app, fix = nil, nil // Client.Close closes them
			return c, nil
		case f != nil:
			f.name = name
			a, b := app, fix
			app, fix = nil, nil // open closes them
			return fu.open(f, a, b)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join counts a client of the file, which the caller opens if it has no writer yet;
// or says what to wait for before the next try. alone: the caller cannot open it.
func (fu *Funnel) join(id inode, user uint32, alone bool) (f *file, wait <-chan struct{}, err error) {
	fu.mu.Lock()
	defer fu.mu.Unlock()
	if fu.closed {
		return nil, nil, ErrClosed
	}
	if f = fu.files[id]; f != nil {
		switch {
		case f.closing:
			return nil, f.gone, nil
		case f.writer == nil:
			return nil, f.opened, nil
		}
		if f.clients == 0 {
			f.idle.Stop()
		}
		f.clients++
		fu.clients++
		return f, nil, nil
	}
	if alone {
		return nil, nil, errAlone
	}
	if own := fu.perUser[user] >= fu.cfg.FilesPerUser; own || len(fu.files) >= fu.cfg.Files {
		old := fu.oldest(user, own)
		if old == nil {
			return nil, nil, ErrFull
		}
		old.closing = true
		old.idle.Reset(0)
		return nil, old.gone, nil
	}
	f = &file{inode: id, user: user, opened: make(chan struct{}), gone: make(chan struct{}), clients: 1}
	fu.files[id] = f
	fu.perUser[user]++
	fu.clients++
	return f, nil, nil
}

// oldest returns the file that has been idle for longest, of the user if own is set;
// nil if there is none. Called with mu held.
func (fu *Funnel) oldest(user uint32, own bool) (old *file) {
	for _, f := range fu.files {
		if f.writer == nil || f.clients > 0 || f.closing || own && f.user != user {
			continue
		}
		if old == nil || f.since.Before(old.since) {
			old = f
		}
	}
	return old
}

// open makes the writer of a file that join has put into the map.
func (fu *Funnel) open(f *file, app, fix *os.File) (*Client, error) {
	o := linelog.Options{
		Shared:  true,
		Limit:   fu.cfg.Limit,
		MaxLine: maxLine,
		Say:     fu.cfg.Say,
	}
	if fu.cfg.Observe != nil {
		o.Observe = fu.cfg.Observe()
	}
	w, err := linelog.OpenFiles(app, fix, o)
	fu.mu.Lock()
	defer fu.mu.Unlock()
	defer close(f.opened)
	if err == nil && fu.closed {
		fu.mu.Unlock()
		err = errors.Join(ErrClosed, w.Close())
		fu.mu.Lock()
	}
	if err != nil {
		fu.clients--
		fu.forget(f)
		return nil, err
	}
	f.writer = w
	f.idle = time.AfterFunc(time.Hour, func() { fu.expire(f) })
	f.idle.Stop()
	return &Client{funnel: fu, file: f}, nil
}

// forget removes a file. Called with mu held.
func (fu *Funnel) forget(f *file) {
	delete(fu.files, f.inode)
	if fu.perUser[f.user]--; fu.perUser[f.user] == 0 {
		delete(fu.perUser, f.user)
	}
	close(f.gone)
}

// leave takes note that a client has gone.
func (fu *Funnel) leave(f *file) {
	fu.mu.Lock()
	defer fu.mu.Unlock()
	fu.clients--
	f.clients--
	if f.clients == 0 && !f.closing {
		f.since = time.Now()
		f.idle.Reset(fu.cfg.Idle)
	}
}

// expire closes a file that nobody has used for a while. A file that has lines which
// could not be written stays, unless its place is needed.
func (fu *Funnel) expire(f *file) {
	fu.mu.Lock()
	if f.clients > 0 || f.taken {
		fu.mu.Unlock()
		return
	}
	if !f.closing && f.writer.Stats().Buffered > 0 {
		f.idle.Reset(fu.cfg.Idle)
		fu.mu.Unlock()
		return
	}
	f.closing, f.taken = true, true
	fu.mu.Unlock()
	fu.close(f) //nolint:errcheck // it has been said
}

// close closes the writer of a file that is marked as closing, and forgets it.
func (fu *Funnel) close(f *file) error {
	err := f.writer.Close()
	if err != nil {
		err = fmt.Errorf("%s: %w", f.name, err)
		fu.cfg.Say("lines of clients: " + err.Error())
	}
	fu.mu.Lock()
	defer fu.mu.Unlock()
	fu.past.add(f.writer.Stats())
	fu.past.Buffered, fu.past.Unsynced = 0, 0
	fu.forget(f)
	return err
}

// Close takes no more lines, writes and syncs what is there, and closes all files, at
// the same time. It waits for that, and for files that are being opened or closed,
// until ctx ends; then it gives them up, and the error says how many. Clients are to
// have gone before, or get ErrClosed.
func (fu *Funnel) Close(ctx context.Context) error {
	fu.mu.Lock()
	var mine, others []*file
	for _, f := range fu.files {
		if f.taken || f.writer == nil {
			others = append(others, f)
			continue
		}
		f.closing, f.taken = true, true
		f.idle.Stop()
		mine = append(mine, f)
	}
	fu.closed = true
	fu.mu.Unlock()
	errs := make(chan error, len(mine))
	for _, f := range mine {
		go func() { errs <- fu.close(f) }()
	}
	var err error
	left := len(mine)
	for left > 0 && ctx.Err() == nil {
		select {
		case e := <-errs:
			err = errors.Join(err, e)
			left--
		case <-ctx.Done():
		}
	}
	for _, f := range others {
		select {
		case <-f.gone:
		case <-ctx.Done():
			left++
		}
	}
	fu.giveUp()
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("files of clients that could not be written and closed in time: %d", left))
	}
	return err
}

// GiveUp has clients wait for nothing more: who waits gets ErrClosed.
func (fu *Funnel) GiveUp() { fu.giveUp() }
