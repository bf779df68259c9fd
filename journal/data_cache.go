package journal

// dataCache keeps the payloads of DATA objects that occur again and again: the
// objects an entry names lie all over the file, and most of them were named by
// entries before. A payload never changes once it is written. One cache serves
// all files of a Journal.
//
// An object that is met for the first time is only noted; its payload is kept
// from the second time on. So what occurs once, which is most objects, does not
// drive the others out.
type dataCache struct {
	sets []dataCacheSet // dataCacheSets, made at the first put
	// slabs hold the payloads in two generations. When the young one is full it
	// becomes the old one, and what is asked for of the old one moves on.
	slabs [2][]byte // dataCacheSlab bytes each; the first ones are made as large as is needed
	young uint64    // generation that is being filled, from 2 on; it is in slabs[young%2]
	fill  uint64    // bytes used of it
	files uint64    // tags handed out
}

const (
	dataCacheBits = 12
	dataCacheSets = 1 << dataCacheBits
	// dataCacheSlab is the size of a generation in bytes.
	dataCacheSlab = 1 << dataCacheSlabBits
	// dataCacheFirst is the size of the first slab to begin with: a few entries need
	// no more. It has room for any payload.
	dataCacheFirst = 64 << 10
	// dataCacheMax bounds a payload that is kept, in bytes.
	dataCacheMax = 1 << dataCacheLenBits

	dataCacheSlabBits = 20
	dataCacheLenBits  = 12
	// dataCacheTag is where the number of the file begins in a key. Files are
	// smaller than 2^48 bytes, else they get no cache.
	dataCacheTag   = 48
	dataCacheFiles = 1 << (64 - dataCacheTag)
)

// dataCacheSet holds two objects, by the key of each; 0 is an unused place. The
// one in place 0 has been asked for more often, the other is replaced next.
type dataCacheSet struct {
	key [2]uint64
	at  [2]dataCacheAt
}

// dataCacheAt says where a payload is: generation, offset in it and length.
// Values below 1<<dataCacheSlabBits<<dataCacheLenBits are no places.
type dataCacheAt uint64

const (
	dataCacheNoted    dataCacheAt = 0 // met once
	dataCacheUnwanted dataCacheAt = 1 // a field that is not asked for
)

func (a dataCacheAt) generation() uint64 { return uint64(a) >> (dataCacheSlabBits + dataCacheLenBits) }

func (a dataCacheAt) offset() uint64 { return uint64(a) >> dataCacheLenBits & (dataCacheSlab - 1) }
func (a dataCacheAt) len() uint64    { return uint64(a) & (dataCacheMax - 1) }

// newTag returns what a file adds to its offsets to make keys; 0 when there were
// too many files.
func (c *dataCache) newTag() uint64 {
	if c.files < dataCacheFiles-1 {
		c.files++
		return c.files << dataCacheTag
	}
	return 0
}

// set returns where key belongs.
func (c *dataCache) set(key uint64) *dataCacheSet {
	return &c.sets[(key>>3)*0x9e3779b97f4a7c15>>(64-dataCacheBits)]
}

// find returns where the payload of key is, and puts it into place 0 of its set
// s; ok is false when key was not met before, or long ago.
func (c *dataCache) find(key uint64) (s *dataCacheSet, ok bool) {
	if c.sets == nil {
		c.sets = make([]dataCacheSet, dataCacheSets)
		c.young = 2
	}
	s = c.set(key)
	if s.key[0] == key {
		return s, true
	}
	if s.key[1] != key {
		return s, false
	}
	s.key[0], s.key[1] = s.key[1], s.key[0]
	s.at[0], s.at[1] = s.at[1], s.at[0]
	return s, true
}

// payload returns what is at a, and whether it is there still. It stays as it is
// until renew has been called twice.
func (c *dataCache) payload(a dataCacheAt) (p []byte, ok bool) {
	if a.generation()+1 < c.young {
		return nil, false
	}
	i := a.offset()
	k := i + a.len()
	return c.slabs[a.generation()%2][i:k:k], true
}

// keep copies p into the young generation and returns the copy; nil when there
// is no room in it.
func (c *dataCache) keep(p []byte) ([]byte, dataCacheAt) {
	n := uint64(len(p))
	if n >= dataCacheMax || n > dataCacheSlab-c.fill {
		return nil, 0
	}
	slab := &c.slabs[c.young%2]
	if c.fill+n > uint64(len(*slab)) { // what was returned of a smaller one stays where it is
		larger := make([]byte, min(dataCacheSlab, max(2*uint64(len(*slab)), dataCacheFirst)))
		copy(larger, (*slab)[:c.fill])
		*slab = larger
	}
	i := c.fill
	c.fill += n
	q := (*slab)[i:c.fill:c.fill]
	copy(q, p)
	return q, dataCacheAt(c.young<<(dataCacheSlabBits+dataCacheLenBits) | i<<dataCacheLenBits | n)
}

// renew begins a new generation if there is little room in the young one. The
// payloads of the old one are lost then: it must not be called while they are in
// use.
func (c *dataCache) renew() {
	if c.fill > dataCacheSlab-dataCacheSlab/4 {
		c.young++
		c.fill = 0
	}
}

// forget drops what is kept of all files.
func (c *dataCache) forget() {
	clear(c.sets)
	c.young += 2
	c.fill = 0
}
