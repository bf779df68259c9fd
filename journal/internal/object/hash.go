package object

import (
	"encoding/binary"
	"math/bits"

	"github.com/dchest/siphash"
)

// KeyedHash is the hash of a payload in a file with IncompatibleKeyed:
// SipHash-2-4 under the file's id.
func KeyedHash(fileID *[16]byte, payload []byte) uint64 {
	k0 := binary.LittleEndian.Uint64(fileID[:8])
	k1 := binary.LittleEndian.Uint64(fileID[8:])
	return siphash.Hash(k0, k1, payload)
}

// Jenkins is the hash of a payload in files without IncompatibleKeyed, and the
// unit of an entry's xor_hash in every file: lookup3's hashlittle2 with both
// seeds zero, the primary result in the upper half.
//
// Source: Bob Jenkins, lookup3.c (public domain).
func Jenkins(p []byte) uint64 {
	a := uint32(0xdeadbeef) + uint32(len(p))
	b, c := a, a
	for len(p) > 12 {
		a += binary.LittleEndian.Uint32(p)
		b += binary.LittleEndian.Uint32(p[4:])
		c += binary.LittleEndian.Uint32(p[8:])
		a -= c
		a ^= bits.RotateLeft32(c, 4)
		c += b
		b -= a
		b ^= bits.RotateLeft32(a, 6)
		a += c
		c -= b
		c ^= bits.RotateLeft32(b, 8)
		b += a
		a -= c
		a ^= bits.RotateLeft32(c, 16)
		c += b
		b -= a
		b ^= bits.RotateLeft32(a, 19)
		a += c
		c -= b
		c ^= bits.RotateLeft32(b, 4)
		b += a
		p = p[12:]
	}
	if len(p) == 0 {
		return uint64(c)<<32 | uint64(b)
	}
	var t [12]byte
	copy(t[:], p)
	a += binary.LittleEndian.Uint32(t[0:])
	b += binary.LittleEndian.Uint32(t[4:])
	c += binary.LittleEndian.Uint32(t[8:])
	c ^= b
	c -= bits.RotateLeft32(b, 14)
	a ^= c
	a -= bits.RotateLeft32(c, 11)
	b ^= a
	b -= bits.RotateLeft32(a, 25)
	c ^= b
	c -= bits.RotateLeft32(b, 16)
	a ^= c
	a -= bits.RotateLeft32(c, 4)
	b ^= a
	b -= bits.RotateLeft32(a, 14)
	c ^= b
	c -= bits.RotateLeft32(b, 24)
	return uint64(c)<<32 | uint64(b)
}
