package journal

import (
	"errors"
	"io"

	"github.com/tidemark-log/tidemark/entry"
)

// Boot is one boot of the machine as its journal has it.
type Boot struct {
	ID entry.ID
	// First and Last are the realtime of its first and last entry, in µs.
	First, Last uint64
}

// Boots lists the boots in the order of the journal, oldest first, as
// `journalctl --list-boots` finds them: by jumping from the last entry of each
// boot to the one behind it. It does not move the Journal and ignores its
// match. When entries of a boot turn up again behind those of another the list
// ends, as there.
func (j *Journal) Boots() ([]Boot, error) {
	b := j.sibling()
	var list []Boot
	known := make(map[entry.ID]bool)
	var previous entry.ID
	for {
		boot, err := b.nextBoot(previous)
		if errors.Is(err, io.EOF) || err == nil && known[boot.ID] {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, boot)
		known[boot.ID] = true
		previous = boot.ID
	}
}

// sibling returns a Journal with a place of its own in the same files. It must
// not be closed.
func (j *Journal) sibling() *Journal {
	b := &Journal{opts: j.opts, pool: j.pool, cache: j.cache, dec: j.dec, dir: down}
	for _, c := range j.files {
		b.files = append(b.files, &cursor{f: c.f})
	}
	b.renumber()
	b.SeekHead()
	return b
}

// nextBoot goes to the last entry of the boot that follows the present place.
func (j *Journal) nextBoot(previous entry.ID) (Boot, error) {
	j.SetMatch(Match{})
	for {
		if err := j.guarded((*Journal).pick, down); err != nil {
			return Boot{}, err
		}
		if j.loc.boot != previous {
			break
		}
	}
	boot := Boot{ID: j.loc.boot, First: j.loc.realtime, Last: j.loc.realtime}
	at := j.loc
	j.SetMatch(Term(append([]byte("_BOOT_ID="), boot.ID.String()...)))
	j.SeekTail()
	err := j.guarded((*Journal).pick, up)
	switch {
	case err == nil:
		boot.Last = j.loc.realtime
	case errors.Is(err, io.EOF):
		// No index of it, or not yet: go through its entries one by one.
		j.loc = at
		j.detach()
	default:
		return Boot{}, err
	}
	return boot, nil
}
