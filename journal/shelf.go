package journal

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// Archives that journald has named say what they begin with. Those of one name and
// sequence are a shelf: going back, nothing of one is wanted before all of the next
// newer one has been read, and until then it stays closed. The name is a hint, which
// the header has to confirm once the file is open; else all are opened at once.

// shelved is an archive that is not open.
type shelved struct {
	path   string
	base   string // with the directory
	id     entry.ID
	seqnum uint64 // of its first entry
}

// shelf is what is closed of one sequence, the newest last.
type shelf struct {
	closed []shelved
	front  *cursor // the file that was opened last, going back
	passed int     // how many of closed end before where reading forward has begun
	low    *cursor // the file that was opened last, going forward
}

// shelvedOf takes the name of an archive apart, as ArchiveName makes it.
func shelvedOf(path string) (s shelved, ok bool) {
	name, isFile := strings.CutSuffix(filepath.Base(path), ".journal")
	at := strings.LastIndexByte(name, '@')
	if !isFile || at < 0 {
		return shelved{}, false
	}
	const digits = 16
	parts := strings.Split(name[at+1:], "-")
	if len(parts) != 3 || len(parts[0]) != 32 || len(parts[1]) != digits || len(parts[2]) != digits {
		return shelved{}, false
	}
	id, errID := entry.ParseID(parts[0])
	seqnum, errSeqnum := strconv.ParseUint(parts[1], 16, 64)
	_, errTime := strconv.ParseUint(parts[2], 16, 64)
	if errors.Join(errID, errSeqnum, errTime) != nil || seqnum == 0 || id.IsZero() {
		return shelved{}, false
	}
	return shelved{path: path, base: strings.TrimSuffix(path, path[len(path)-len(filepath.Base(path))+at:]), id: id, seqnum: seqnum}, true
}

// shelve takes those out of paths that can wait, and returns the others.
func (j *Journal) shelve(paths []string) (open []string) {
	type key struct {
		base string
		id   entry.ID
	}
	at := make(map[key]int)
	for _, p := range paths {
		s, ok := shelvedOf(p)
		if !ok {
			open = append(open, p)
			continue
		}
		k := key{s.base, s.id}
		i, known := at[k]
		if !known {
			i = len(j.shelves)
			at[k] = i
			j.shelves = append(j.shelves, shelf{})
		}
		j.shelves[i].closed = append(j.shelves[i].closed, s)
	}
	for _, s := range j.shelves {
		slices.SortFunc(s.closed, func(a, b shelved) int { return cmpU64(a.seqnum, b.seqnum) })
	}
	return open
}

// shelvesReady opens what is wanted next in the direction, and reports whether it
// opened any. Going back that is the next file of a shelf whose front has no more;
// going on from an entry that was reached by going back, none; for going forward from
// a time see shelvesAhead.
func (j *Journal) shelvesReady(dir direction) bool {
	switch {
	case len(j.shelves) == 0 || dir == down && j.shelvesBehind:
		return false
	case dir == down && (j.ahead == aheadSoon || j.ahead == aheadNow):
		return j.shelvesAhead()
	case dir == down, j.ahead == aheadDone:
		j.OpenAll()
		return true
	}
	opened := false
	for i := 0; i < len(j.shelves); i++ {
		s := &j.shelves[i]
		if c := s.front; c != nil && c.state != stateTail && c.state != stateDead {
			continue
		}
		n := len(s.closed) - 1
		if n < 0 {
			continue
		}
		next := s.closed[n]
		s.closed = s.closed[:n]
		opened = true
		c := j.takeOff(next.path)
		if c == nil {
			continue
		}
		if !next.confirmed(c, s.front) {
			j.OpenAll()
			return true
		}
		s.front = c
	}
	j.shelvesBehind = !opened
	return opened
}

// confirmed reports whether the file is what its name says, and before the next.
func (s *shelved) confirmed(c, newer *cursor) bool {
	h := &c.f.hdr
	return c.orderly() && h.SeqnumID == s.id && h.HeadEntrySeqnum == s.seqnum &&
		(newer == nil || h.TailEntrySeqnum < newer.f.hdr.HeadEntrySeqnum)
}

// takeOff opens a file of a shelf. One that is gone, or is open under another name,
// is no loss.
func (j *Journal) takeOff(path string) *cursor {
	f, err := j.opts.OpenFile(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			j.skipped = append(j.skipped, err)
		}
		return nil
	}
	if f.id != (fileIdentity{}) && slices.ContainsFunc(j.files, func(c *cursor) bool { return c.f.id == f.id }) {
		_ = f.Close()
		return nil
	}
	j.AddFile(f)
	c := j.files[len(j.files)-1]
	c.late = false // it was there
	return c
}

// OpenAll opens the files that ReadOptions.Late has left closed. What cannot be
// opened is in Skipped then.
func (j *Journal) OpenAll() {
	shelves := j.shelves
	j.shelves, j.ahead = nil, aheadNever
	for _, s := range shelves {
		for _, a := range s.closed {
			j.takeOff(a.path)
		}
	}
}
