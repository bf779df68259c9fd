package journal

import (
	"github.com/tidemark-log/tidemark/internal/flavour"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

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

// ParseFlavour reads the text form of a flavour: names separated by commas, of
// these pairs at most one each, in any order.
//
//	compact or regular
//	keyed or unkeyed
//	zstd or plain (NoCompression)
//	252 or 254 (Header254)
//
// What is not named is as in the zero Flavour, which is the first of each. Errors
// are of one line and list the names.
func ParseFlavour(text string) (Flavour, error) {
	f, err := flavour.Parse(text)
	return Flavour(f), err
}

// String returns the text form of f, with all four names: ParseFlavour reads it.
func (f Flavour) String() string { return flavour.Flavour(f).String() }

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
