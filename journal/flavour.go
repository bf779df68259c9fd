package journal

import "github.com/tidemark-log/tidemark/journal/internal/object"

// Flavour chooses among the layouts of a new file. The zero Flavour is what
// journald 252 writes: compact, keyed, zstd, a header of 264 bytes.
type Flavour struct {
	// Regular writes 64-bit offsets and repeats hashes in entries, as before
	// 252. Such a file is larger.
	Regular bool
	// Unkeyed hashes with Jenkins' lookup3 instead of SipHash under the file's
	// id, as before 246. Whoever chooses payloads can make it slow.
	Unkeyed bool
	// NoCompression stores every payload as it is.
	NoCompression bool
	// Header254 writes the header of systemd 254, 272 bytes. journald 254 and
	// later append only to such files; journalctl 252 reads but does not verify
	// them.
	Header254 bool
}

func (f Flavour) headerSize() uint64 {
	if f.Header254 {
		return object.HeaderSize254
	}
	return object.HeaderSize252
}

func (f Flavour) compatible() uint32 {
	if f.Header254 {
		return object.CompatibleTailEntryBootID
	}
	return 0
}

func (f Flavour) incompatible() uint32 {
	var flags uint32
	if !f.Regular {
		flags |= object.IncompatibleCompact
	}
	if !f.Unkeyed {
		flags |= object.IncompatibleKeyed
	}
	if !f.NoCompression {
		flags |= object.IncompatibleZSTD
	}
	return flags
}
