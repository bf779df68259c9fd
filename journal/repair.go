package journal

import (
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// RepairReport says what Repair found and did.
type RepairReport struct {
	// Clean: the file was closed cleanly and nothing was wrong with it. Nothing
	// was written.
	Clean bool
	// Entries in the file, now.
	Entries uint64
	// Hidden entries were in the file but not counted in its header: the last
	// ones, appended shortly before the crash.
	Hidden uint64
	// Lost entries were counted in the header but are not in the file.
	Lost uint64
	// Cut is the number of bytes behind the last whole object, up to where the
	// header said that the contents end. 0 after the death of a process.
	Cut uint64
	// Relinked objects had links, counters or an xor_hash that were missing or
	// wrong.
	Relinked int
	// Cause is what was wrong, the first thing; nil if Clean.
	Cause error
	// Header is that of the file as it is now.
	Header Header
}

// Seqnum returns the sequence of the file and its last number, for a successor.
func (r *RepairReport) Seqnum() (id entry.ID, tail uint64) {
	return r.Header.SeqnumID, r.Header.TailEntrySeqnum
}

// RepairOptions say how a file is repaired. The zero value is useful.
type RepairOptions struct {
	// FS holds the file, as Options.FS does; nil means the machine's.
	FS vfs.FS
}

// Repair brings a file into order that its writer did not close: after the death
// of the process it has every entry that was appended, after a power cut every
// one that was synced. Nobody may have the file open for writing.
//
// It keeps the objects from the beginning of the file up to the first that is
// not whole, cuts off what follows, and works out all links, counters and hash
// chains anew from them, and the xor_hash of an entry where it cannot be that of
// its fields. Then it checks the file as OpenWriter does, and leaves
// it OFFLINE. An archived or cleanly closed file that is right is not touched.
//
// It may be killed at any moment, or the power cut, and called again: it changes
// nothing but these, cuts off nothing that a second call would
// keep, and sets OFFLINE last, between two syncs.
//
// Errors that leave nothing to repair are *FormatErrors: no journal, flags of
// another writer (ErrFlags), no hash tables. Others are those of the file
// system; the file is then as unclean as it was.
func Repair(path string, o RepairOptions) (RepairReport, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	f, err := o.FS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return RepairReport{}, fmt.Errorf("repair journal: %w", err)
	}
	rep, err := repair(f, path)
	if err = errors.Join(err, f.Close()); err != nil {
		return rep, fmt.Errorf("repair journal: %w", err)
	}
	return rep, nil
}

func repair(f vfs.File, path string) (RepairReport, error) {
	r, err := surveyAndRelink(f, path, maxFileSize, 0)
	if err != nil {
		return RepairReport{}, err
	}
	rep := RepairReport{Entries: r.m.hdr.NEntries, Header: r.disk, Cause: r.fault()}
	if rep.Cause == nil {
		if r.disk.State != StateOnline {
			rep.Clean = true
			return rep, nil
		}
		rep.Cause = ErrUnclean // complete, and only not closed
	}
	rep.Relinked = len(r.badData) + len(r.badFields) + len(r.badXor)
	if n := r.disk.NEntries; n > rep.Entries {
		rep.Lost = n - rep.Entries
	} else {
		rep.Hidden = rep.Entries - n
	}
	if r.why != nil {
		rep.Cut = r.cutBytes()
	}
	if err := r.cutTail(); err != nil {
		return rep, err
	}
	if err := r.rewrite(); err != nil {
		return rep, err
	}
	check, err := surveyAndRelink(f, path, maxFileSize, 0)
	if err != nil {
		return rep, err
	}
	if err := check.fault(); err != nil {
		return rep, fmt.Errorf("after repair: %w", err)
	}
	final := StateOffline
	if r.disk.State == StateArchived {
		final = StateArchived
	}
	if err := r.setState(final); err != nil {
		return rep, err
	}
	rep.Header = check.m.hdr
	rep.Header.State = final
	return rep, nil
}

// cutBytes is how much of what the header counts lies behind the last whole
// object.
func (r *wRelink) cutBytes() uint64 {
	if t := r.disk.TailObjectOffset; t >= r.cut && t < r.size {
		return min(t+object.ObjHdrSize, r.size) - r.cut
	}
	return 0
}

// cutTail removes everything behind the last whole object, first from the
// header, then from the file, and syncs that. What is written there later, or
// what a power cut leaves of it, can then not be mixed with what was there
// before.
//
// The counters that it writes fit the objects; the links may not, as before.
func (r *wRelink) cutTail() error {
	h, end := r.kept, r.m.base
	h.State = StateOnline
	h.ArenaSize = end - h.HeaderSize
	h.NEntries = min(r.m.hdr.NEntries, r.disk.NEntries)
	if err := r.putHeader(&h); err != nil {
		return err
	}
	if err := r.f.Truncate(int64(end)); err != nil {
		return err
	}
	return r.f.Datasync()
}

func (r *wRelink) putHeader(h *Header) error {
	var b [object.HeaderSize254]byte
	encodeHeader(b[:], h)
	_, err := r.f.WriteAt(b[:h.HeaderSize], 0)
	return err
}

// rewrite writes all that the file lacks, as a Writer does, and syncs it.
func (r *wRelink) rewrite() error {
	for _, z := range r.zero {
		if _, err := r.f.WriteAt(make([]byte, z.n), int64(z.off)); err != nil {
			return err
		}
	}
	for _, x := range r.badXor {
		var b [8]byte
		object.PutU64(b[:], 0, x.hash)
		if _, err := r.f.WriteAt(b[:], int64(x.off.offset()+object.EntryXorHash)); err != nil {
			return err
		}
	}
	m := r.m
	m.hdr.State = StateOnline
	m.hdr.ArenaSize = m.end() - m.hdr.HeaderSize
	if n := int64(m.end() - m.base); n > 0 {
		if err := r.f.Allocate(int64(m.base), n); err != nil {
			return err
		}
	}
	var s wStage
	m.take(&s, true)
	if err := s.write(r.f, func(error) {}); err != nil {
		return err
	}
	return r.f.Datasync()
}

// setState says, at last, that the file is right.
func (r *wRelink) setState(to State) error {
	if _, err := r.f.WriteAt([]byte{byte(to)}, object.HdrState); err != nil {
		return err
	}
	return r.f.Datasync()
}
