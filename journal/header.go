package journal

import (
	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// State says whether a writer has a file open, as the file tells.
type State uint8

// The states of a journal file. Others are damage.
const (
	StateOffline  State = object.StateOffline
	StateOnline   State = object.StateOnline
	StateArchived State = object.StateArchived
)

// String returns the name that `journalctl --header` prints.
func (s State) String() string {
	switch s {
	case StateOffline:
		return "OFFLINE"
	case StateOnline:
		return "ONLINE"
	case StateArchived:
		return "ARCHIVED"
	default:
		return "UNKNOWN"
	}
}

// Header is the decoded header of a journal file. Fields that the file is too
// old to have are zero; Has tells. Times are in µs, offsets and sizes in bytes,
// offsets counted from the beginning of the file.
//
// Source: journal-def.h of systemd; the sizes are those of 187 (224 bytes), 189
// (240), 246 (256), 252 (264) and 254 (272).
type Header struct {
	CompatibleFlags        uint32
	IncompatibleFlags      uint32
	State                  State
	FileID                 entry.ID
	MachineID              entry.ID
	TailEntryBootID        entry.ID
	SeqnumID               entry.ID
	HeaderSize             uint64
	ArenaSize              uint64
	DataHashTableOffset    uint64
	DataHashTableSize      uint64 // bytes, of 16 a bucket
	FieldHashTableOffset   uint64
	FieldHashTableSize     uint64 // bytes, of 16 a bucket
	TailObjectOffset       uint64
	NObjects               uint64
	NEntries               uint64
	TailEntrySeqnum        uint64
	HeadEntrySeqnum        uint64
	EntryArrayOffset       uint64
	HeadEntryRealtime      uint64
	TailEntryRealtime      uint64
	TailEntryMonotonic     uint64
	NData                  uint64
	NFields                uint64
	NTags                  uint64
	NEntryArrays           uint64
	DataHashChainDepth     uint64
	FieldHashChainDepth    uint64
	TailEntryArrayOffset   uint32
	TailEntryArrayNEntries uint32
	TailEntryOffset        uint64
}

// HeaderField names a field that not every file has.
type HeaderField uint64

// The optional fields of a header; the value is the header size that has it.
const (
	HasNData          HeaderField = object.HdrNData + 8
	HasNFields        HeaderField = object.HdrNFields + 8
	HasNTags          HeaderField = object.HdrNTags + 8
	HasNEntryArrays   HeaderField = object.HdrNEntryArrays + 8
	HasDataDepth      HeaderField = object.HdrDataHashChainDepth + 8
	HasFieldDepth     HeaderField = object.HdrFieldHashChainDepth + 8
	HasTailEntryArray HeaderField = object.HdrTailEntryArrayNEntries + 4
	HasTailEntry      HeaderField = object.HdrTailEntryOffset + 8
)

// Has reports whether the file is new enough to have the field.
func (h *Header) Has(f HeaderField) bool { return h.HeaderSize >= uint64(f) }

// Compact reports whether offsets in the file's arrays have 32 bits.
func (h *Header) Compact() bool { return h.IncompatibleFlags&object.IncompatibleCompact != 0 }

// Keyed reports whether hashes are SipHash under the file's id.
func (h *Header) Keyed() bool { return h.IncompatibleFlags&object.IncompatibleKeyed != 0 }

// Sealed reports whether the file has forward secure sealing tags.
func (h *Header) Sealed() bool { return h.CompatibleFlags&object.CompatibleSealed != 0 }

// DataBuckets is the number of buckets of the data hash table.
func (h *Header) DataBuckets() uint64 { return h.DataHashTableSize / object.HashItemSize }

// FieldBuckets is the number of buckets of the field hash table.
func (h *Header) FieldBuckets() uint64 { return h.FieldHashTableSize / object.HashItemSize }

// decodeHeader reads the header in b, which holds at least
// object.HeaderSizeMin bytes and as many more as the file has.
func decodeHeader(b []byte) Header {
	u64 := func(off int) uint64 { return object.U64(b, off) }
	h := Header{
		CompatibleFlags:      object.U32(b, object.HdrCompatible),
		IncompatibleFlags:    object.U32(b, object.HdrIncompatible),
		State:                State(b[object.HdrState]),
		FileID:               entry.ID(b[object.HdrFileID:]),
		MachineID:            entry.ID(b[object.HdrMachineID:]),
		TailEntryBootID:      entry.ID(b[object.HdrTailEntryBootID:]),
		SeqnumID:             entry.ID(b[object.HdrSeqnumID:]),
		HeaderSize:           u64(object.HdrHeaderSize),
		ArenaSize:            u64(object.HdrArenaSize),
		DataHashTableOffset:  u64(object.HdrDataHashTableOffset),
		DataHashTableSize:    u64(object.HdrDataHashTableSize),
		FieldHashTableOffset: u64(object.HdrFieldHashTableOffset),
		FieldHashTableSize:   u64(object.HdrFieldHashTableSize),
		TailObjectOffset:     u64(object.HdrTailObjectOffset),
		NObjects:             u64(object.HdrNObjects),
		NEntries:             u64(object.HdrNEntries),
		TailEntrySeqnum:      u64(object.HdrTailEntrySeqnum),
		HeadEntrySeqnum:      u64(object.HdrHeadEntrySeqnum),
		EntryArrayOffset:     u64(object.HdrEntryArrayOffset),
		HeadEntryRealtime:    u64(object.HdrHeadEntryRealtime),
		TailEntryRealtime:    u64(object.HdrTailEntryRealtime),
		TailEntryMonotonic:   u64(object.HdrTailEntryMonotonic),
	}
	opt := func(dst *uint64, off int) {
		if h.HeaderSize >= uint64(off)+8 && len(b) >= off+8 {
			*dst = u64(off)
		}
	}
	opt(&h.NData, object.HdrNData)
	opt(&h.NFields, object.HdrNFields)
	opt(&h.NTags, object.HdrNTags)
	opt(&h.NEntryArrays, object.HdrNEntryArrays)
	opt(&h.DataHashChainDepth, object.HdrDataHashChainDepth)
	opt(&h.FieldHashChainDepth, object.HdrFieldHashChainDepth)
	var pair uint64
	opt(&pair, object.HdrTailEntryArrayOffset)
	h.TailEntryArrayOffset, h.TailEntryArrayNEntries = uint32(pair), uint32(pair>>32)
	opt(&h.TailEntryOffset, object.HdrTailEntryOffset)
	return h
}
