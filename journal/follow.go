package journal

import (
	"errors"
	"os"
	"slices"

	"github.com/tidemark-log/tidemark/entry"
)

// Add opens one more file. A file that is being read already, also under
// another name, is not opened again but takes the new name: a follower that is
// told of a renamed file by Remove and Add goes on where it was in it.
//
// Entries of a file that is added while reading goes on are delivered from the
// present place on; when the end has been met before, from that place on.
func (j *Journal) Add(path string) error {
	j.OpenAll()
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	id := identityOf(st)
	if i := slices.IndexFunc(j.files, func(c *cursor) bool { return c.f.sameFile(id) }); i >= 0 {
		j.files[i].f.name = path
		return nil
	}
	if i := slices.IndexFunc(j.limbo, func(c *cursor) bool { return c.f.sameFile(id) }); i >= 0 {
		c := j.limbo[i]
		j.limbo = slices.Delete(j.limbo, i, i+1)
		c.f.name = path
		j.takeBack(c)
		return nil
	}
	j.Remove(path) // another file now has the name
	f, err := j.opts.OpenFile(path)
	if err != nil {
		return err
	}
	j.AddFile(f)
	return nil
}

func (f *File) sameFile(id fileIdentity) bool { return id != fileIdentity{} && f.id == id }

// takeBack puts a removed file in again, at the place where it was.
func (j *Journal) takeBack(c *cursor) {
	j.files = append(j.files, c)
	j.renumber()
	if c.state == stateCandidate {
		j.heap.push(c)
	}
	j.pending = true
}

// Remove stops reading the file with this name and reports whether there was
// one. It is closed at the next Refresh, unless Add brings it back before.
func (j *Journal) Remove(path string) bool {
	j.OpenAll()
	i := slices.IndexFunc(j.files, func(c *cursor) bool { return c.f.name == path })
	if i < 0 {
		return false
	}
	c := j.files[i]
	j.unchain()
	j.files = slices.Delete(j.files, i, i+1)
	j.renumber()
	if c == j.current {
		// The entry delivered last was its; go on from it if it comes back.
		j.current = nil
		err := catchFault(func() error { return c.advance(j.dir) })
		switch {
		case err == errFault: //nolint:errorlint // never wrapped
			c.f.afterFault()
			c.state, c.late = stateFresh, true
		case err != nil:
			j.kill(c, err)
		}
	}
	if k := slices.Index(j.heap.list, c); k >= 0 {
		j.heap.list = slices.Delete(j.heap.list, k, k+1)
		j.heap.init()
	}
	j.limbo = append(j.limbo, c)
	return true
}

// Refresh reads the headers of the files again, so that Next sees what their
// writers have appended. Files of which a reader has seen that they are
// archived do not change and are left out.
func (j *Journal) Refresh() error {
	j.OpenAll()
	var errs []error
	for _, c := range j.limbo {
		if id := c.f.hdr.SeqnumID; c.seq > j.delivered[id] {
			if j.delivered == nil {
				j.delivered = make(map[entry.ID]uint64)
			}
			j.delivered[id] = c.seq
		}
		errs = append(errs, c.f.Close())
	}
	j.limbo = nil
	for _, c := range j.newestFirst() {
		if _, err := c.f.Refresh(); err != nil {
			c.f.warn(err)
			errs = append(errs, err)
		}
	}
	j.pending = true
	return errors.Join(errs...)
}

// newestFirst lists the files that may change, those without an entry first. A
// writer finishes a file before it writes to the next: so what there is in the one
// before, when an entry of the next has been seen, is seen too.
func (j *Journal) newestFirst() []*cursor {
	var live []*cursor
	for _, c := range j.files {
		if c.f.hdr.State != StateArchived {
			live = append(live, c)
		}
	}
	slices.SortStableFunc(live, func(a, b *cursor) int {
		if empty := cmpBool(a.f.hdr.NEntries == 0, b.f.hdr.NEntries == 0); empty != 0 {
			return empty
		}
		return cmpU64(b.f.hdr.HeadEntryRealtime, a.f.hdr.HeadEntryRealtime)
	})
	return live
}

// cmpBool orders what is true before what is not.
func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
