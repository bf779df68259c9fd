package journal

// dataCache keeps the payloads of DATA objects that occur again and again, for
// files read by pread: the objects an entry names lie all over the file. A
// payload never changes once it is written. One cache serves all files of a
// Journal.
type dataCache struct {
	sets  []dataCacheSet // dataCacheSets, made at the first put
	slab  []byte         // the payloads, dataCacheMax bytes each
	files uint64         // tags handed out
}

const (
	dataCacheBits = 12
	dataCacheSets = 1 << dataCacheBits
	// dataCacheMax bounds a payload that is kept, and so all of them to 2 MiB.
	dataCacheMax = 256
	// dataCacheTag is where the number of the file begins in a key. Files are
	// smaller than 2^48 bytes, else they get no cache.
	dataCacheTag = 48
)

// dataCacheSet describes two payloads; key 0 is an unused place. The one in
// place has been asked for more often, the other is replaced next.
type dataCacheSet struct {
	key   [2]uint64
	n     [2]uint16
	place uint8
}

// newTag returns what a file adds to its offsets to make keys.
func (c *dataCache) newTag() uint64 {
	c.files++
	return c.files << dataCacheTag
}

func dataCacheIndex(key uint64) uint64 {
	return (key >> 3) * 0x9e3779b97f4a7c15 >> (64 - dataCacheBits)
}

func (c *dataCache) payload(set uint64, place uint8, n uint16) []byte {
	at := (2*set + uint64(place)) * dataCacheMax
	return c.slab[at : at+uint64(n) : at+uint64(n)]
}

// get returns the payload, or nil. It is valid until the next put.
func (c *dataCache) get(key uint64) []byte {
	if c.sets == nil {
		return nil
	}
	i := dataCacheIndex(key)
	s := &c.sets[i]
	if s.key[s.place] != key {
		if s.key[s.place^1] != key {
			return nil
		}
		s.place ^= 1
	}
	return c.payload(i, s.place, s.n[s.place])
}

func (c *dataCache) put(key uint64, p []byte) {
	if len(p) > dataCacheMax {
		return
	}
	if c.sets == nil {
		c.sets = make([]dataCacheSet, dataCacheSets)
		c.slab = make([]byte, 2*dataCacheSets*dataCacheMax)
	}
	i := dataCacheIndex(key)
	s := &c.sets[i]
	k := s.place ^ 1
	s.key[k], s.n[k] = key, uint16(len(p))
	copy(c.payload(i, k, s.n[k]), p)
}
