package journal

import "github.com/tidemark-log/tidemark/journal/internal/object"

// encodeHeader writes h, which has a HeaderSize of 264 or 272 bytes, to b.
func encodeHeader(b []byte, h *Header) {
	clear(b[:h.HeaderSize])
	copy(b, object.Signature)
	object.PutU32(b, object.HdrCompatible, h.CompatibleFlags)
	object.PutU32(b, object.HdrIncompatible, h.IncompatibleFlags)
	b[object.HdrState] = byte(h.State)
	copy(b[object.HdrFileID:], h.FileID[:])
	copy(b[object.HdrMachineID:], h.MachineID[:])
	copy(b[object.HdrTailEntryBootID:], h.TailEntryBootID[:])
	copy(b[object.HdrSeqnumID:], h.SeqnumID[:])
	object.PutU64(b, object.HdrHeaderSize, h.HeaderSize)
	object.PutU64(b, object.HdrArenaSize, h.ArenaSize)
	object.PutU64(b, object.HdrDataHashTableOffset, h.DataHashTableOffset)
	object.PutU64(b, object.HdrDataHashTableSize, h.DataHashTableSize)
	object.PutU64(b, object.HdrFieldHashTableOffset, h.FieldHashTableOffset)
	object.PutU64(b, object.HdrFieldHashTableSize, h.FieldHashTableSize)
	object.PutU64(b, object.HdrTailObjectOffset, h.TailObjectOffset)
	object.PutU64(b, object.HdrNObjects, h.NObjects)
	object.PutU64(b, object.HdrNEntries, h.NEntries)
	object.PutU64(b, object.HdrTailEntrySeqnum, h.TailEntrySeqnum)
	object.PutU64(b, object.HdrHeadEntrySeqnum, h.HeadEntrySeqnum)
	object.PutU64(b, object.HdrEntryArrayOffset, h.EntryArrayOffset)
	object.PutU64(b, object.HdrHeadEntryRealtime, h.HeadEntryRealtime)
	object.PutU64(b, object.HdrTailEntryRealtime, h.TailEntryRealtime)
	object.PutU64(b, object.HdrTailEntryMonotonic, h.TailEntryMonotonic)
	object.PutU64(b, object.HdrNData, h.NData)
	object.PutU64(b, object.HdrNFields, h.NFields)
	object.PutU64(b, object.HdrNTags, h.NTags)
	object.PutU64(b, object.HdrNEntryArrays, h.NEntryArrays)
	object.PutU64(b, object.HdrDataHashChainDepth, h.DataHashChainDepth)
	object.PutU64(b, object.HdrFieldHashChainDepth, h.FieldHashChainDepth)
	object.PutU32(b, object.HdrTailEntryArrayOffset, h.TailEntryArrayOffset)
	object.PutU32(b, object.HdrTailEntryArrayNEntries, h.TailEntryArrayNEntries)
	if h.HeaderSize >= object.HeaderSize254 {
		object.PutU64(b, object.HdrTailEntryOffset, h.TailEntryOffset)
	}
}
