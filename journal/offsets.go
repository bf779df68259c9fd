package journal

// wOffsets maps offsets to numbers. The zero value is empty; get of what was
// not put is 0.
type wOffsets struct {
	slots []uint64 // ref<<32 | number; len is a power of two
	n     int
}

func (t *wOffsets) home(r wRef) int { return int(uint32(r) * 0x9e3779b1 >> 4) }

func (t *wOffsets) put(r wRef, v uint32) {
	if t.n*2 >= len(t.slots) {
		old := t.slots
		t.slots = make([]uint64, max(2*len(old), 1024))
		for _, s := range old {
			if s != 0 {
				t.insert(s)
			}
		}
	}
	t.n++
	t.insert(uint64(r)<<32 | uint64(v))
}

func (t *wOffsets) insert(s uint64) {
	mask := len(t.slots) - 1
	i := t.home(wRef(s >> 32))
	for t.slots[i&mask] != 0 {
		i++
	}
	t.slots[i&mask] = s
}

// find tells whether r was put, and with which number.
func (t *wOffsets) find(r wRef) (uint32, bool) {
	if len(t.slots) == 0 || r == 0 {
		return 0, false
	}
	mask := len(t.slots) - 1
	for i := t.home(r); ; i++ {
		s := t.slots[i&mask]
		if s == 0 {
			return 0, false
		}
		if wRef(s>>32) == r {
			return uint32(s), true
		}
	}
}

func (t *wOffsets) get(r wRef) uint32 {
	v, _ := t.find(r)
	return v
}
