package journal

import (
	"iter"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Whole iterates over the entries with sequence numbers in (after, last] that are
// proven to be what their writer appended: each field has the hash that the file
// has for it, and all of them together can have the entry's xor_hash. They come in
// the order of their numbers, and those that are damaged, or not there, are
// missing. It is for files of which the disk may have lost a part, as after a
// sync that failed: what was lost reads as anything.
//
// Where the lists of the file do not lead to last, the file is scanned. An entry
// is valid until the next one. It reads the file from its beginning to its end at
// most a few times, and keeps 16 bytes for each different field.
func (f *File) Whole(after, last uint64) iter.Seq[*entry.Entry] {
	return func(yield func(*entry.Entry) bool) {
		f.dropMap() // what shrinks meanwhile must be an error
		f.lazy = false
		p := prover{f: f, last: after, proven: make(map[uint64]uint64)}
		if f.salvaged == nil && (!p.run(last, yield) || p.last >= last) {
			return
		}
		if f.salvaged == nil {
			// The header may be the one of long ago, too: scan beyond its last object.
			f.torn = f.errorf(0, ErrTruncated, "no entry %d", last)
			f.startSalvage()
		}
		p.run(last, yield)
	}
}

// prover reads entries that are whole.
type prover struct {
	f      *File
	last   uint64            // number of the last entry that was delivered
	proven map[uint64]uint64 // Jenkins hashes of DATA objects whose hash is right, by offset
	fs     fields
	e      entry.Entry
}

// run delivers entries up to number last, as far as the file lists them. It
// returns false when no more are wanted.
func (p *prover) run(last uint64, yield func(*entry.Entry) bool) bool {
	f := p.f
	i, err := f.bisect(down, func(h *entryHead) int { return cmpU64(h.seqnum, p.last+1) })
	if err != nil {
		i = 0 // all of them are looked at
	}
	for ; i < f.Entries(); i++ {
		var h entryHead
		off, err := f.entryAt(i)
		if err == nil {
			err = f.readHead(off, &h)
		}
		switch {
		case err != nil && f.salvaged == nil:
			f.warn(err)
			return true // a scan finds what is behind it
		case err != nil || h.seqnum <= p.last || !p.entry(&h):
			continue
		case h.seqnum > last:
			return true
		}
		p.last = h.seqnum
		if !yield(&p.e) {
			return false
		}
	}
	return true
}

// entry reads the entry of h, and reports whether it is whole.
func (p *prover) entry(h *entryHead) bool {
	f := p.f
	if err := f.readFields(h, &p.fs, nil); err != nil {
		f.warn(err)
		return false
	}
	if p.fs.bad > 0 || len(p.fs.list) == 0 {
		return false
	}
	var xor uint64
	var basis xorBasis
	for i, field := range p.fs.list {
		jenkins, ok := p.field(p.fs.items[i], field)
		if !ok {
			return false
		}
		xor ^= jenkins
		basis.add(jenkins)
	}
	if basis.reduce(xor^h.xorHash) != 0 {
		f.warn(f.errorf(h.off, ErrCorrupt, "xor_hash %016x is not that of the fields", h.xorHash))
		return false
	}
	p.e = entry.Entry{
		Fields: p.fs.list, Realtime: h.realtime, Monotonic: h.monotonic, BootID: h.boot,
		Seqnum: h.seqnum, SeqnumID: f.hdr.SeqnumID, XorHash: h.xorHash,
	}
	return true
}

// field reports whether the DATA object at off, which has this payload, has its
// hash too, and the payload's Jenkins hash.
func (p *prover) field(off uint64, payload []byte) (jenkins uint64, ok bool) {
	if jenkins, ok = p.proven[off]; ok {
		return jenkins, true
	}
	f := p.f
	b, _, err := f.objectAt(off, object.Data, object.DataPayload)
	if err != nil {
		f.warn(err)
		return 0, false
	}
	if hash := object.U64(b, object.DataHash); hash != f.hash(payload) {
		f.warn(f.errorf(off, ErrCorrupt, "hash %016x of a payload with another", hash))
		return 0, false
	}
	jenkins = object.Jenkins(payload)
	p.proven[off] = jenkins
	return jenkins, true
}
