package journal

import (
	"hash/maphash"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wHasher is what turns payloads into hashes. It never changes, so it may be
// used without a lock.
type wHasher struct {
	seed0, seed1 maphash.Seed // known to this process only
	fileID       [16]byte
	keyed        bool
	threshold    int // payload size from which on compression is tried; 0: never
}

// key stands for a payload in wTable.
func (h *wHasher) key(p []byte) wKey {
	return wKey{maphash.Bytes(h.seed0, p), maphash.Bytes(h.seed1, p)}
}

// hash is the hash of p as the file has it.
func (h *wHasher) hash(p []byte) uint64 {
	if h.keyed {
		return object.KeyedHash(&h.fileID, p)
	}
	return object.Jenkins(p)
}

// hashes are the unit of xor_hash and the hash of p as the file has it.
func (h *wHasher) hashes(p []byte) (jenkins, hash uint64) {
	jenkins = object.Jenkins(p)
	if h.keyed {
		return jenkins, object.KeyedHash(&h.fileID, p)
	}
	return jenkins, jenkins
}

// wLargeField is the size of a payload in bytes from which on it is hashed and
// compressed before the append lock is taken: at 64 KiB that costs some 200 µs,
// for which nobody else should wait.
const wLargeField = 64 << 10

// wLarge is what is known of a large field before the lock is taken.
type wLarge struct {
	entry, field  int // its place among the entries of a call
	k             wKey
	hashed        bool // the file did not have it; what follows is set
	jenkins, hash uint64
	z             []byte // compressed, nil if that is not wanted
}

// prepare hashes the large fields among entries, and compresses those that the
// file does not have: mostly nothing to do.
func (w *Writer) prepare(entries []entry.Entry) []wLarge {
	var out []wLarge
	for i := range entries {
		for j, f := range entries[i].Fields {
			if len(f) >= wLargeField {
				out = append(out, wLarge{entry: i, field: j, k: w.hasher.key(f)})
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	w.mu.Lock()
	for i := range out {
		l := &out[i]
		l.hashed = w.m.data.find(l.k.k0, l.k.k1) == 0
	}
	w.mu.Unlock()
	for i := range out {
		l := &out[i]
		if !l.hashed {
			continue
		}
		f := entries[l.entry].Fields[l.field]
		l.jenkins, l.hash = w.hasher.hashes(f)
		if w.hasher.threshold > 0 && len(f) >= w.hasher.threshold {
			l.z = blob.CompressZSTD(nil, f)
		}
	}
	return out
}

// largeOf splits off what large says about the entry i; it is sorted by entry.
func largeOf(large []wLarge, i int) (of, rest []wLarge) {
	n := 0
	for n < len(large) && large[n].entry == i {
		n++
	}
	return large[:n], large[n:]
}

// largeField returns what is known of a field of the entry at hand, nil if it
// is not large.
func (m *wMem) largeField(i int) *wLarge {
	for j := range m.large {
		if m.large[j].field == i {
			return &m.large[j]
		}
	}
	return nil
}
