// Package object knows the bytes of a systemd journal file: where each field of
// the header and of every object lies, the flags, and the two hashes. Bytes in,
// values out; it does no I/O and keeps no state.
//
// Source: systemd, docs/JOURNAL_FILE_FORMAT.md and
// src/libsystemd/sd-journal/journal-def.h, checked against files of systemd 252.
package object

import "encoding/binary"

// Signature opens every journal file.
const Signature = "LPKSHHRH"

// Offsets of the header's fields. All integers are little-endian.
const (
	HdrCompatible             = 8   // u32
	HdrIncompatible           = 12  // u32
	HdrState                  = 16  // u8
	HdrReserved               = 17  // 7 bytes, zero
	HdrFileID                 = 24  // 16 bytes; also the SipHash key
	HdrMachineID              = 40  // 16 bytes
	HdrTailEntryBootID        = 56  // 16 bytes
	HdrSeqnumID               = 72  // 16 bytes
	HdrHeaderSize             = 88  // u64
	HdrArenaSize              = 96  // u64
	HdrDataHashTableOffset    = 104 // u64, of the items: object offset + 16
	HdrDataHashTableSize      = 112 // u64, bytes of items
	HdrFieldHashTableOffset   = 120
	HdrFieldHashTableSize     = 128
	HdrTailObjectOffset       = 136
	HdrNObjects               = 144
	HdrNEntries               = 152
	HdrTailEntrySeqnum        = 160
	HdrHeadEntrySeqnum        = 168
	HdrEntryArrayOffset       = 176
	HdrHeadEntryRealtime      = 184
	HdrTailEntryRealtime      = 192
	HdrTailEntryMonotonic     = 200
	HdrNData                  = 208 // from 187 on
	HdrNFields                = 216
	HdrNTags                  = 224 // from 189 on
	HdrNEntryArrays           = 232
	HdrDataHashChainDepth     = 240 // from 246 on
	HdrFieldHashChainDepth    = 248
	HdrTailEntryArrayOffset   = 256 // u32, from 252 on
	HdrTailEntryArrayNEntries = 260 // u32
	HdrTailEntryOffset        = 264 // u64, from 254 on

	HeaderSizeMin = 208
	HeaderSize252 = 264
	HeaderSize254 = 272
)

// File states.
const (
	StateOffline  = 0
	StateOnline   = 1
	StateArchived = 2
)

// Flags of HdrIncompatible: a reader that does not know one refuses the file.
const (
	IncompatibleXZ      = 1
	IncompatibleLZ4     = 2
	IncompatibleKeyed   = 4
	IncompatibleZSTD    = 8
	IncompatibleCompact = 16
	IncompatibleAll     = 31
)

// Flags of HdrCompatible: a writer that does not know one refuses the file.
const (
	CompatibleSealed           = 1
	CompatibleTailEntryBootID  = 2
	CompatibleSealedContinuous = 4
	CompatibleAll              = 7
)

// Type is the kind of an object.
type Type uint8

// The object types.
const (
	Unused Type = iota
	Data
	FieldName
	Entry
	DataHashTable
	FieldHashTable
	EntryArray
	Tag
)

// Flags of a Data object: how its payload is compressed. At most one is set.
const (
	CompressedXZ   = 1
	CompressedLZ4  = 2
	CompressedZSTD = 4
	CompressedAny  = 7
)

// Offsets inside objects, from the start of the object.
const (
	ObjType    = 0 // u8
	ObjFlags   = 1 // u8
	ObjSize    = 8 // u64, exact, without padding
	ObjHdrSize = 16

	DataHash             = 16
	DataNextHash         = 24
	DataNextField        = 32
	DataEntry            = 40
	DataEntryArray       = 48
	DataNEntries         = 56
	DataPayload          = 64
	DataTailArray        = 64 // u32, compact only
	DataTailArrayN       = 68 // u32, compact only
	DataPayloadCompact   = 72
	FieldHash            = 16
	FieldNextHash        = 24
	FieldHeadData        = 32
	FieldPayload         = 40
	EntrySeqnum          = 16
	EntryRealtime        = 24
	EntryMonotonic       = 32
	EntryBootID          = 40
	EntryXorHash         = 56
	EntryItems           = 64
	EntryItemSize        = 16
	EntryItemSizeCompact = 4
	ArrayNext            = 16
	ArrayItems           = 24
	ArrayItemSize        = 8
	ArrayItemSizeCompact = 4
	HashTableItems       = 16
	HashItemSize         = 16
	TagSeqnum            = 16
	TagEpoch             = 24
	TagHMAC              = 32
	TagSize              = 64
)

// Limits and defaults of systemd 252.
const (
	// DefaultMaxSize is the size at which a file is full: 128 MiB.
	DefaultMaxSize = 128 << 20
	// DefaultFieldBuckets is the fixed size of the field hash table.
	DefaultFieldBuckets = 333
	// MinDataBuckets is the smallest data hash table.
	MinDataBuckets = 2047
	// AllocationStep is the unit in which files grow.
	AllocationStep = 8 << 20
	// CompactMaxSize bounds a compact file, whose offsets have 32 bits.
	CompactMaxSize = 1<<32 - 1
	// CompressThreshold is the payload size from which on data is compressed.
	CompressThreshold = 512
	// TimeLimit bounds realtime, monotonic and epochs (exclusive).
	TimeLimit = 1 << 55
)

// DataBuckets is the number of buckets journald gives the data hash table of a
// file bounded to maxSize bytes.
func DataBuckets(maxSize uint64) uint64 {
	return max(maxSize*4/768/3, MinDataBuckets)
}

// Align8 rounds up to the next multiple of 8.
func Align8(n uint64) uint64 { return (n + 7) &^ 7 }

// U64 reads the integer at b[off:].
func U64(b []byte, off int) uint64 { return binary.LittleEndian.Uint64(b[off:]) }

// U32 reads the integer at b[off:].
func U32(b []byte, off int) uint32 { return binary.LittleEndian.Uint32(b[off:]) }

// PutU64 writes v to b[off:].
func PutU64(b []byte, off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }

// PutU32 writes v to b[off:].
func PutU32(b []byte, off int, v uint32) { binary.LittleEndian.PutUint32(b[off:], v) }

// MinSize is the smallest legal size of an object of type t.
func MinSize(t Type, compact bool) uint64 {
	switch t {
	case Data:
		if compact {
			return DataPayloadCompact
		}
		return DataPayload
	case FieldName:
		return FieldPayload
	case Entry:
		return EntryItems
	case DataHashTable, FieldHashTable:
		return HashTableItems
	case EntryArray:
		return ArrayItems
	case Tag:
		return TagSize
	default:
		return ObjHdrSize
	}
}
