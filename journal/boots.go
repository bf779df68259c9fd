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
		boot, err := b.nextBoot(previous, down)
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
	j.OpenAll()
	b := &Journal{opts: j.opts, pool: j.pool, cache: j.cache, dec: j.dec, dir: down}
	for _, c := range j.files {
		b.files = append(b.files, &cursor{f: c.f})
	}
	b.renumber()
	b.SeekHead()
	return b
}

// BootAt returns the boot that `journalctl -b` means by an offset: from the boot ref,
// or without one (zero) from behind the last entry, or for an offset above 0 from
// before the first. It jumps from boot to boot as Boots does, going back to the first
// entry of each for an offset of 0 and below: where boots lie between one another, as
// without a clock that runs while the machine is off, these may be others than Boots
// lists. ok is false when there is no such boot, and when boots turn up again on the
// way, which an index that is whole does not have: they would do so for ever. The
// Journal does not move.
//
// Source: systemd 252, get_boots of journalctl.c.
func (j *Journal) BootAt(ref entry.ID, offset int) (id entry.ID, ok bool, err error) {
	b := j.sibling()
	dir := down
	if offset <= 0 {
		dir = up
		b.SeekTail()
	}
	if !ref.IsZero() {
		// Beyond its last entry in that direction.
		b.matchBoot(ref, dir)
		if err := b.guarded((*Journal).pick, -dir); err != nil {
			return ref, false, unlessEnd(err)
		}
	}
	left := offset * int(dir)
	if ref.IsZero() && dir == up {
		left++ // 0 is the last boot
	}
	id = ref
	var previous entry.ID
	known := map[entry.ID]bool{ref: !ref.IsZero()}
	for ; left > 0; left-- {
		boot, err := b.nextBoot(previous, dir)
		if err != nil {
			return entry.ID{}, false, unlessEnd(err)
		}
		if known[boot.ID] {
			return entry.ID{}, false, nil
		}
		known[boot.ID] = true
		id, previous = boot.ID, boot.ID
	}
	return id, true, nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// matchBoot goes to the end of a boot that lies in direction dir.
func (j *Journal) matchBoot(id entry.ID, dir direction) {
	j.SetMatch(Term(append([]byte("_BOOT_ID="), id.String()...)))
	if dir == down {
		j.SeekTail()
	} else {
		j.SeekHead()
	}
}

// nextBoot goes to the last entry, in direction dir, of the boot that follows the
// present place.
func (j *Journal) nextBoot(previous entry.ID, dir direction) (Boot, error) {
	j.SetMatch(Match{})
	for {
		if err := j.guarded((*Journal).pick, dir); err != nil {
			return Boot{}, err
		}
		if j.loc.boot != previous {
			break
		}
	}
	boot := Boot{ID: j.loc.boot, First: j.loc.realtime, Last: j.loc.realtime}
	at := j.loc
	j.matchBoot(boot.ID, dir)
	err := j.guarded((*Journal).pick, -dir)
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
