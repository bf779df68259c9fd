package journal

import (
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Why OpenWriter cannot continue a file, found with errors.Is; beside those
// about its contents. journald moves such a file aside and begins a new one.
var (
	// ErrUnclean says that the last writer did not close the file, or still has
	// it open. If no one has, Repair brings it into order.
	ErrUnclean = errors.New("journal file was not closed cleanly")
	// ErrArchived says that the file was finished for good.
	ErrArchived = errors.New("journal file is archived")
	// ErrOtherMachine says that the file has another machine id.
	ErrOtherMachine = errors.New("journal file of another machine")
	// ErrFlags says that the file has features that this package reads, if at
	// all, but does not write: sealing, or a header of another size.
	ErrFlags = errors.New("journal file has features that cannot be written")
	// ErrFuture says that the last entry is later than the clock.
	ErrFuture = errors.New("journal file is from the future")
)

// OpenWriter continues a file that was closed cleanly: by Close, by Repair, or
// by journald. It reads the whole file to learn what it has, checks all links
// on the way, and marks the file ONLINE and syncs that before it returns. The
// flavour is the file's; BootID, limits and policies are those of o. With SyncLater
// the mark is synced with what is synced first: until then a power cut may leave a
// file that is OFFLINE and yet has links to what is not there. It is refused as
// corrupt then, and readers find in it what it had.
//
// With an error the file is as it was, but that it may be ONLINE if the disk
// failed to sync that; a crash leaves it ONLINE too: then Repair takes it back.
// The error wraps one of the sentinels above or that of a system call, or is a
// *FormatError.
func OpenWriter(path string, o Options) (*Writer, error) {
	o = o.withDefaults()
	f, err := o.FS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	m, err := load(f, path, &o)
	if err == nil {
		err = setOnline(f, m)
	}
	if err == nil && !o.SyncLater {
		err = f.Datasync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open journal: %w", err), f.Close())
	}
	w := newWriter(path, o, f, m)
	w.secured = !o.SyncLater
	return w, nil
}

// load makes the memory of a clean file.
func load(f vfs.File, path string, o *Options) (*wMem, error) {
	s := &wSurvey{f: f, path: path}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	s.size = uint64(size)
	if err := s.header(); err != nil {
		return nil, err
	}
	h := &s.disk
	now, _ := o.Clock()
	switch {
	case h.State == StateArchived:
		return nil, fmt.Errorf("%s: %w", path, ErrArchived)
	case h.State != StateOffline:
		return nil, fmt.Errorf("%s: %w", path, ErrUnclean)
	case h.MachineID != o.MachineID:
		return nil, fmt.Errorf("%s: %w: %s", path, ErrOtherMachine, h.MachineID)
	case h.TailEntryRealtime > now:
		return nil, fmt.Errorf("%s: %w: %d µs after %d", path, ErrFuture, h.TailEntryRealtime, now)
	}
	r, err := surveyAndRelink(f, path, o.MaxSize, o.CompressThreshold)
	if err != nil {
		return nil, err
	}
	if err := r.fault(); err != nil {
		return nil, err
	}
	r.m.hdr.State = StateOnline
	return r.m, nil
}

func surveyAndRelink(f vfs.File, path string, maxSize uint64, threshold int) (*wRelink, error) {
	s, err := survey(f, path, maxSize, threshold)
	if err != nil {
		return nil, err
	}
	return s.relink()
}

// setOnline writes the state byte, before any change.
func setOnline(f vfs.File, m *wMem) error {
	_, err := f.WriteAt([]byte{byte(m.hdr.State)}, object.HdrState)
	return err
}
