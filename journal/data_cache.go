package journal

// dataCache keeps the payloads of DATA objects that occur again and again, for
// files read by pread: the objects an entry names lie all over the file. A
// payload never changes once it is written. One cache serves all files of a
// Journal.
type dataCache struct {
	sets  []dataCacheSet // dataCacheSets, made at the first put
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

// dataCacheSet holds two payloads; key 0 is an unused place. The first has been
// asked for more often.
type dataCacheSet struct {
	key [2]uint64
	p   [2][]byte
}

// newTag returns what a file adds to its offsets to make keys.
func (c *dataCache) newTag() uint64 {
	c.files++
	return c.files << dataCacheTag
}

func dataCacheIndex(key uint64) uint64 {
	return (key >> 3) * 0x9e3779b97f4a7c15 >> (64 - dataCacheBits)
}

// get returns the payload, or nil. It is valid until the next put.
func (c *dataCache) get(key uint64) []byte {
	if c.sets == nil {
		return nil
	}
	s := &c.sets[dataCacheIndex(key)]
	if s.key[0] == key {
		return s.p[0]
	}
	if s.key[1] == key {
		s.key[0], s.key[1] = s.key[1], s.key[0]
		s.p[0], s.p[1] = s.p[1], s.p[0]
		return s.p[0]
	}
	return nil
}

func (c *dataCache) put(key uint64, p []byte) {
	if len(p) > dataCacheMax {
		return
	}
	if c.sets == nil {
		c.sets = make([]dataCacheSet, dataCacheSets)
	}
	s := &c.sets[dataCacheIndex(key)]
	s.key[1] = key
	s.p[1] = append(s.p[1][:0], p...)
}
