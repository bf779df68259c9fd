package linelog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stampForm is how an archive's name tells the time of its rotation, in UTC.
const stampForm = "20060102T150405"

// suffix of a compressed archive.
const suffix = ".zst"

// stamp is the part of an archive's name that tells it from others: the time, and a
// number from 2 on among those of one second. Zero: there is none.
type stamp struct {
	at  string
	seq int
}

// maxSeq is the last number of a second, and seqWidth what it takes: names with a number
// of one width sort by it.
const (
	maxSeq   = 9999
	seqWidth = 4
)

func (s stamp) before(t stamp) bool {
	return cmp.Or(cmp.Compare(s.at, t.at), cmp.Compare(s.seq, t.seq)) < 0
}

// String is the stamp as it stands in the name.
func (s stamp) String() string {
	if s.seq == 0 {
		return s.at
	}
	return fmt.Sprintf("%s_%0*d", s.at, seqWidth, s.seq)
}

// next is the stamp of a rotation now: later than s, also when the clock went back. When
// a second has no number left it is the next one.
func (s stamp) next(now time.Time) stamp {
	t := stamp{at: now.UTC().Format(stampForm)}
	if s.before(t) {
		return t
	}
	if at := s.time().Add(time.Second); s.seq >= maxSeq && at.Year() <= 9999 {
		return stamp{at: at.Format(stampForm)}
	}
	return stamp{s.at, max(s.seq, 1) + 1}
}

// time is that of the rotation; zero if there was none.
func (s stamp) time() time.Time {
	t, err := time.Parse(stampForm, s.at)
	if err != nil {
		return time.Time{}
	}
	return t
}

// parseStamp reads what String writes, and what it wrote before numbers had a width.
func parseStamp(text string) (s stamp, ok bool) {
	at, seq, more := strings.Cut(text, "_")
	if _, err := time.Parse(stampForm, at); err != nil || len(at) != len(stampForm) { // Parse takes fractions
		return stamp{}, false
	}
	s.at = at
	if more {
		if len(seq) == seqWidth {
			seq = strings.TrimLeft(seq, "0")
		}
		if s.seq = parseNumber(seq); s.seq < 2 {
			return stamp{}, false
		}
	}
	return s, true
}

// parseNumber reads a number above 0 as it is written in names, else it returns 0.
func parseNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || strconv.Itoa(n) != text {
		return 0
	}
	return n
}

// archive is a file that was rotated.
type archive struct {
	path   string // without suffix
	stamp  stamp  // zero: it has a number
	number int    // 1 is the newest; 0: it has a stamp
	plain  bool   // path is there
	packed bool   // path with suffix is there; with plain: the compression was not finished
}

// parseArchive tells whether a name beside base is that of an archive.
func parseArchive(base, name string) (a archive, ok bool) {
	rest, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return archive{}, false
	}
	rest, a.packed = strings.CutSuffix(rest, suffix)
	a.plain = !a.packed
	if a.stamp, ok = parseStamp(rest); !ok {
		a.number = parseNumber(rest)
	}
	return a, ok || a.number > 0
}

// archives are those of the log path, the oldest first: the numbered ones, if they
// count, and then those with a stamp.
func (w *Writer) archives(path string) ([]archive, error) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	entries, err := w.o.FS.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]archive{}
	for _, e := range entries {
		a, ok := parseArchive(base, e.Name())
		// What is no file is nobody's log: a link would have what it leads to changed.
		if !ok || !e.Type().IsRegular() || a.number > 0 && w.o.Rotate.Naming != Numbered {
			continue
		}
		a.path = filepath.Join(dir, strings.TrimSuffix(e.Name(), suffix))
		if other, ok := found[a.path]; ok {
			a.plain, a.packed = a.plain || other.plain, a.packed || other.packed
		}
		found[a.path] = a
	}
	list := make([]archive, 0, len(found))
	for _, a := range found {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b archive) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(a.stamp.at, b.stamp.at), cmp.Compare(a.stamp.seq, b.stamp.seq))
	})
	return list, nil
}

// archiveName is a name for the file at path that is not taken, and later than all
// before. Called with io held.
func (w *Writer) archiveName(path string) (string, error) {
	w.lookForArchives(path)
	for range 1000 {
		w.rot.last = w.rot.last.next(time.Now())
		name := path + "." + w.rot.last.String()
		if w.free(name) && w.free(name+suffix) {
			return name, nil
		}
	}
	return "", fmt.Errorf("no name like %s.%s is free", path, w.rot.last)
}

// free tells whether nothing is known to have that name.
func (w *Writer) free(name string) bool {
	_, err := w.o.FS.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}
