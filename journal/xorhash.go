package journal

import "math/bits"

// xorBasis tells which values the hashes added to it can make by XOR. An entry's
// xor_hash covers its fields as submitted, where a field that came twice cancels
// out although it is stored once: the hash is in order if its difference to
// that of the items is that of some of them.
type xorBasis [64]uint64 // by highest bit

// reduce returns what is left of x; 0 if the hashes can make it.
func (b *xorBasis) reduce(x uint64) uint64 {
	for x != 0 {
		v := b[bits.Len64(x)-1]
		if v == 0 {
			return x
		}
		x ^= v
	}
	return 0
}

func (b *xorBasis) add(hash uint64) {
	if x := b.reduce(hash); x != 0 {
		b[bits.Len64(x)-1] = x
	}
}
