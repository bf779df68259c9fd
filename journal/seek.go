package journal

import (
	"errors"
	"sort"

	"github.com/tidemark-log/tidemark/entry"
)

// direction of reading.
type direction int8

const (
	down direction = 1  // towards newer entries
	up   direction = -1 // towards older entries
)

// locationKind says what a location means.
type locationKind uint8

const (
	atHead  locationKind = iota // before the first entry
	atTail                      // behind the last entry
	atSeek                      // at the first entry that is not before it
	atEntry                     // at the entry that was delivered last
)

// location is a place in the order of entries, by the parts that has names.
type location struct {
	kind locationKind
	has  entry.CursorParts
	entryHead
	seqnumID entry.ID
}

// find positions a file at loc: it returns the number of the first entry that
// is not before loc (down), or one more than the last that is not behind it
// (up). Either is in [0, Entries()].
func (f *File) find(loc *location, dir direction) (uint64, error) {
	if i, ok := f.beyond(loc, dir); ok {
		return i, nil
	}
	f.ready()
	n := f.Entries()
	switch {
	case loc.kind == atHead:
		return 0, nil
	case loc.kind == atTail:
		return n, nil
	}
	switch loc.by(f) {
	case bySeqnum:
		return f.bisect(dir, func(h *entryHead) int { return cmpU64(h.seqnum, loc.seqnum) })
	case byMonotonic:
		i, ok, err := f.findMonotonic(loc.boot, loc.monotonic, dir)
		if ok || err != nil {
			return i, err
		}
	case byRealtime, byNothing:
	}
	if loc.has&entry.HasRealtime != 0 {
		return f.bisect(dir, func(h *entryHead) int { return cmpU64(h.realtime, loc.realtime) })
	}
	if dir == down {
		return 0, nil
	}
	return n, nil
}

// ordering is what a location is looked for by.
type ordering uint8

const (
	byNothing ordering = iota
	bySeqnum
	byMonotonic // if the file has that boot, else by realtime
	byRealtime
)

// by returns what a place in f is found by.
func (loc *location) by(f *File) ordering {
	const seqnum, monotonic = entry.HasSeqnumID | entry.HasSeqnum, entry.HasBootID | entry.HasMonotonic
	switch {
	case loc.has&seqnum == seqnum && loc.seqnumID == f.hdr.SeqnumID:
		return bySeqnum
	case loc.has&monotonic == monotonic:
		return byMonotonic
	case loc.has&entry.HasRealtime != 0:
		return byRealtime
	default:
		return byNothing
	}
}

// bisect returns the number of entries for which cmp is negative (down), or
// not positive (up).
func (f *File) bisect(dir direction, cmp func(*entryHead) int) (uint64, error) {
	return f.bisectIn(mainList{}, dir, cmp)
}

// entryList is a list of entries in the order of their offsets.
type entryList interface {
	length(f *File) uint64
	offset(f *File, i uint64) (uint64, error)
	// checkEnd says whether the list ends where length says.
	checkEnd(f *File) error
}

// mainList is all entries of a file.
type mainList struct{}

func (mainList) length(f *File) uint64                    { return f.Entries() }
func (mainList) offset(f *File, i uint64) (uint64, error) { return f.entryAt(i) }
func (mainList) checkEnd(*File) error                     { return nil } // File.ready does

func (f *File) bisectIn(l entryList, dir direction, cmp func(*entryHead) int) (uint64, error) {
	for {
		var failed error
		var h entryHead
		i := sort.Search(int(l.length(f)), func(i int) bool {
			off, err := l.offset(f, uint64(i))
			if err == nil {
				err = f.readHead(off, &h)
			}
			if err != nil {
				failed = err
				return true
			}
			c := cmp(&h)
			return c > 0 || c == 0 && dir == down
		})
		if failed == nil {
			return uint64(i), nil
		}
		if f.salvaged != nil {
			return 0, failed
		}
		f.warn(failed)
		f.startSalvage()
		if _, ok := l.(mainList); !ok {
			return 0, errRenumbered
		}
	}
}

// findMonotonic is find by the time since boot. It answers false when the file
// has no entry of that boot. When all entries of the boot are before the place,
// the entry behind the last of them is meant.
func (f *File) findMonotonic(boot entry.ID, usec uint64, dir direction) (uint64, bool, error) {
	var ref dataRef
	cmp := func(h *entryHead) int { return cmpU64(h.monotonic, usec) }
	if f.salvaged == nil {
		ok, err := f.lookup(append([]byte("_BOOT_ID="), boot.String()...), &ref)
		if err != nil {
			f.warn(err)
			f.startSalvage()
		} else if !ok || ref.n == 0 {
			return 0, false, nil
		}
	}
	if f.salvaged != nil {
		return f.findMonotonicByScan(boot, cmp, dir)
	}
	i, err := f.bisectIn(&ref, dir, cmp)
	if errors.Is(err, errRenumbered) {
		return f.findMonotonicByScan(boot, cmp, dir)
	}
	if err != nil {
		return 0, false, err
	}
	// The place is behind i entries of the boot.
	j, behind := i, uint64(0)
	if i > 0 && (dir == up || i == ref.length(f)) {
		j, behind = i-1, 1
	}
	off, err := ref.offset(f, j)
	if err != nil {
		return 0, false, err
	}
	k, err := f.ordinal(off)
	return k + behind, true, err
}

// ordinal returns how many entries have an offset below off.
func (f *File) ordinal(off uint64) (uint64, error) {
	for {
		var failed error
		i := sort.Search(int(f.Entries()), func(i int) bool {
			at, err := f.entryAt(uint64(i))
			if err != nil {
				failed = err
				return true
			}
			return at >= off
		})
		if failed == nil || f.salvaged != nil {
			return uint64(i), failed
		}
		f.warn(failed)
		f.startSalvage()
	}
}

// findMonotonicByScan does it without the index of a damaged file.
func (f *File) findMonotonicByScan(boot entry.ID, cmp func(*entryHead) int, dir direction) (uint64, bool, error) {
	var h entryHead
	found, place := false, uint64(0)
	for i := range f.Entries() {
		off, err := f.entryAt(i)
		if err == nil {
			err = f.readHead(off, &h)
		}
		if err != nil {
			return 0, false, err
		}
		if h.boot != boot {
			continue
		}
		c := cmp(&h)
		if !found {
			found, place = true, i
		}
		if c < 0 || c == 0 && dir == up {
			place = i + 1
		}
	}
	return place, found, nil
}

func cmpU64(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}
