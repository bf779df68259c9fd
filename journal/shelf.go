package journal

import (
	"errors"
	"io/fs"
	"slices"
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
	seqnum uint64 // of its first entry
}

// shelf is what is closed of one sequence, the newest last.
type shelf struct {
	base   string // what the paths begin with: the directory, the name and the sequence
	id     entry.ID
	closed []shelved
	front  *cursor // the file that was opened last, going back
	passed int     // how many of closed end before where reading forward has begun
	low    *cursor // the file that was opened last, going forward
}

// What an archive is called ends in "@", the sequence, the first sequence number and
// the first time.
const (
	shelvedID     = 32 // digits
	shelvedNumber = 16
	shelvedTail   = 1 + shelvedID + 1 + shelvedNumber + 1 + shelvedNumber + len(".journal")
)

// shelvedOf takes the path of an archive apart, as ArchiveName names it: base is what
// comes before the first sequence number, with that of the sequence last.
func shelvedOf(path string) (base string, s shelved, ok bool) {
	at := len(path) - shelvedTail
	if at < 0 || path[at] != '@' || !strings.HasSuffix(path, ".journal") {
		return "", shelved{}, false
	}
	base, rest := path[:at+1+shelvedID], path[at+1+shelvedID:]
	seqnum, ok := hexNumber(rest)
	if !ok || seqnum == 0 {
		return "", shelved{}, false
	}
	if _, ok = hexNumber(rest[1+shelvedNumber:]); !ok {
		return "", shelved{}, false
	}
	return base, shelved{path: path, seqnum: seqnum}, true
}

// hexNumber reads a dash and shelvedNumber hexadecimal digits.
func hexNumber(s string) (n uint64, ok bool) {
	for i := 1; i <= shelvedNumber; i++ {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		n = n<<4 | uint64(c)
	}
	return n, s[0] == '-'
}

// shelve takes those out of paths that can wait, and returns the others.
func (j *Journal) shelve(paths []string) (open []string) {
	at := -1
	for _, p := range paths {
		base, s, ok := shelvedOf(p)
		if ok && (at < 0 || j.shelves[at].base != base) {
			at, ok = j.shelfOf(base)
		}
		if !ok {
			open = append(open, p)
			continue
		}
		j.shelves[at].closed = append(j.shelves[at].closed, s)
	}
	for _, s := range j.shelves {
		slices.SortFunc(s.closed, func(a, b shelved) int { return cmpU64(a.seqnum, b.seqnum) })
	}
	return open
}

// shelfOf returns which shelf is for archives whose paths begin with base, a new one
// if there is none; ok is false if it ends in no id.
func (j *Journal) shelfOf(base string) (at int, ok bool) {
	at = slices.IndexFunc(j.shelves, func(s shelf) bool { return s.base == base })
	if at >= 0 {
		return at, true
	}
	id, err := entry.ParseID(base[len(base)-shelvedID:])
	if err != nil || id.IsZero() {
		return -1, false
	}
	j.shelves = append(j.shelves, shelf{base: base, id: id})
	return len(j.shelves) - 1, true
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
		if !s.confirms(&next, c, s.front) {
			j.OpenAll()
			return true
		}
		s.front = c
	}
	j.shelvesBehind = !opened
	return opened
}

// confirms reports whether the file is what its name says, and before the next.
func (s *shelf) confirms(a *shelved, c, newer *cursor) bool {
	h := &c.f.hdr
	return c.orderly() && h.SeqnumID == s.id && h.HeadEntrySeqnum == a.seqnum &&
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
