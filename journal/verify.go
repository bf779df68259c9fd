package journal

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// ProblemKind says which part of a file a Problem is about.
type ProblemKind uint8

// The kinds of problems.
const (
	// ProblemHeader: a field of the header.
	ProblemHeader ProblemKind = iota
	// ProblemObject: an object that readers refuse for its size, type, flags or
	// fixed fields.
	ProblemObject
	// ProblemContents: an object's payload, hash, compression, items or slots.
	ProblemContents
	// ProblemOrder: sequence numbers and times of neighbouring entries.
	ProblemOrder
	// ProblemCount: a counter or tail value of the header is not what was found.
	ProblemCount
	// ProblemEntryArray: the main entry array.
	ProblemEntryArray
	// ProblemEntry: the items of an entry, or its xor_hash.
	ProblemEntry
	// ProblemData: hash chains of DATA objects, and their lists of entries.
	ProblemData
	// ProblemField: hash chains of FIELD objects, and their lists of data.
	ProblemField
	// ProblemSeal: TAG objects.
	ProblemSeal
)

var problemKindNames = [...]string{"header", "object", "contents", "order", "count", "entry array", "entry", "data", "field", "seal"}

// String returns the kind in plain words.
func (k ProblemKind) String() string {
	if int(k) < len(problemKindNames) {
		return problemKindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Offset of the object or header field in question, from the file's start.
	Offset uint64
	// Kind says what part of the file it is about.
	Kind ProblemKind
	// Text says it in plain words, in journalctl's where journalctl checks it.
	Text string
	// Harmless problems are what a killed writer leaves behind, or hints that
	// nothing relies on. A file with no others passes.
	Harmless bool
}

// String returns the problem as journalctl prints it: the offset in
// hexadecimal, and the text.
func (p Problem) String() string { return fmt.Sprintf("%06x: %s", p.Offset, p.Text) }

// MaxProblems is how many problems a report lists; the rest is counted.
const MaxProblems = 1000

// VerifyReport is what Verify found.
type VerifyReport struct {
	// Problems in the order in which they were found, MaxProblems at most.
	Problems []Problem
	// Omitted counts the problems beyond MaxProblems.
	Omitted int
	// Failed counts the problems that are not harmless, listed or not.
	Failed int
	// Sealed tells that the file has seals (Forward Secure Sealing), which are
	// not checked: all else is.
	Sealed bool
	// Size of the file in bytes, as given.
	Size int64
	// Stopped is where the walk over the objects had to end because it could not
	// tell where the next one begins: nothing behind was checked, nor any links.
	// 0 when the walk came to its end.
	Stopped uint64
	// What was counted.
	Objects, Entries, Data, Fields, EntryArrays, Tags uint64
}

// OK reports whether the file passes: no problem but harmless ones.
func (r *VerifyReport) OK() bool { return r.Failed == 0 }

// First returns the first problem that is not harmless.
func (r *VerifyReport) First() (p Problem, ok bool) {
	for _, p := range r.Problems {
		if !p.Harmless {
			return p, true
		}
	}
	return Problem{}, false
}

// VerifyOptions are the options of Verify. The zero value is ready.
type VerifyOptions struct {
	// Progress is called now and then from the verifying goroutine. total does
	// not change. nil: not called.
	Progress func(done, total int64)
}

// vMaxSize bounds the files that Verify takes: offsets and ordinals of objects
// stay within 32 bits. journald's own default is 128 MiB.
const vMaxSize = 128 << 30

// Verify checks the journal file of size bytes behind r: everything that
// `journalctl --verify` of systemd 252 checks, in its words, and more: the hash
// chains of FIELD objects and their lists of data, xor_hash, item hashes, the
// tail hints and chain depths. name is for error messages. Seals are not
// checked.
//
// What is wrong is in the report. The error is not nil when the file could not
// be checked: ctx.Err(), an error of r, or a *FormatError about a header with
// which no reader would open the file.
//
// Verify only reads, never panics on any bytes, and needs memory of at most
// about twice the file's size (a fifth is usual), plus the largest payload (768
// MiB at most). It starts no goroutine. A file that is being written may be
// reported as damaged: its counters and links are between two states.
func Verify(ctx context.Context, r io.ReaderAt, size int64, name string, o VerifyOptions) (VerifyReport, error) {
	v := &verifier{
		ctx:    ctx,
		win:    vWindow{r: r, size: uint64(max(size, 0)), name: name, min: vPiece},
		seed:   rand.Uint64(),
		report: VerifyReport{Size: size},
	}
	v.win.tick = func(off uint64) error {
		if o.Progress != nil {
			v.progress(off, o.Progress)
		}
		return ctx.Err()
	}
	if err := v.run(); err != nil {
		return v.report, err
	}
	if o.Progress != nil {
		total := 2 * int64(v.tail)
		o.Progress(total, total)
	}
	return v.report, nil
}

// verifier is one run of Verify. Its methods with an error result return only
// errors that end the run; problems go to the report.
type verifier struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call of Verify
	win    vWindow
	look   vWindow // for explain
	dec    blob.Decoder
	plain  []byte // the payload decompressed last
	seed   uint64 // of vMix
	report VerifyReport
	second bool // in the second pass
	shown  int64

	hdr      []byte // the header's bytes, zero beyond the file's header_size
	hdrSize  uint64
	tail     uint64 // offset of the last object
	fileID   [16]byte
	incompat uint32
	compat   uint32

	// Set by the first pass. Ordinals count the objects of a type by offset.
	dataIdx, fieldIdx, entryIdx, arrayIdx vIndex
	data                                  []vData
	hot                                   []vHot
	fields                                []vField
	tables                                [2]int // found tables: data, field
	order                                 vOrder

	// Set by the main array walk.
	inMain     vBits  // by ordinal of entry
	lastEntry  uint64 // offset of the last entry of the main array
	mainBroken bool   // the walk ended early: inMain says nothing
	owner      []uint32
	said       map[uint64]bool // offsets that need not be reported once more
}

// vData is what the first pass keeps of a DATA object.
type vData struct {
	off       uint64
	name      uint64 // hash of the field name, for comparison
	nextHash  uint64
	nextField uint64
	entry     uint64
	array     uint64
	n         uint64
	tailArray uint32 // hints as stored, compact files only
	tailN     uint32

	// Progress of the second pass through the list of entries.
	seen      uint64
	last      uint64 // entry seen last
	lastArray uint64 // array seen last
	lastUsed  uint64 // slots used in it
}

// vHot is the part of a DATA object that is touched for every item of every
// entry, apart from vData to stay in the processor's caches.
type vHot struct {
	hash    uint64
	jenkins uint64
	// acc is the sum of vMix of the entries in the object's list less those of
	// the entries that have it as an item: zero when the two are the same set.
	acc   uint64
	flags uint64
}

const (
	vReached  = 1 << iota // from its hash bucket
	vListed               // in its field's list
	vDamaged              // the payload: neither jenkins nor the name says anything
	vBrokenUp             // its list of entries is known to be wrong
	vSaid                 // that it is missing from its chain
)

// vField is what the first pass keeps of a FIELD object.
type vField struct {
	off      uint64
	hash     uint64
	name     uint64
	nextHash uint64
	headData uint64
	reached  bool // from its hash bucket
	damaged  bool // the name
}

// vOrder is what the first pass remembers of the entry before.
type vOrder struct {
	set                         bool
	seqnum, realtime, monotonic uint64
	boot                        entry.ID
	epoch                       uint64
}

func (v *verifier) run() error {
	if err := v.loadHeader(); err != nil {
		return err
	}
	if unknown := v.compat &^ object.CompatibleAll; unknown != 0 {
		v.fail(object.HdrCompatible, ProblemHeader, "Cannot verify file with unknown extensions.")
		return nil
	}
	v.report.Sealed = v.compat&object.CompatibleSealed != 0
	for i := object.HdrReserved; i < object.HdrFileID; i++ {
		if v.hdr[i] != 0 {
			v.fail(uint64(i), ProblemHeader, "Reserved field is non-zero")
			break
		}
	}
	if v.tail == 0 && v.hdr[object.HdrState] != object.StateOnline && v.win.size > v.hdrSize+object.ObjHdrSize {
		v.fail(object.HdrTailObjectOffset, ProblemHeader, "No tail object in a file of %d bytes", v.win.size)
		v.report.Stopped = v.hdrSize
		return nil
	}
	complete, err := v.walkObjects()
	if err != nil || !complete {
		return err
	}
	v.checkCounts()
	return v.checkLinks()
}

// progress reports the work at off in the present pass, never less than before.
func (v *verifier) progress(off uint64, report func(done, total int64)) {
	done := int64(min(off, v.tail))
	if v.second {
		done += int64(v.tail)
	}
	v.shown = max(v.shown, done)
	report(v.shown, 2*int64(v.tail))
}

func (v *verifier) compact() bool { return v.incompat&object.IncompatibleCompact != 0 }

func (v *verifier) hash(payload []byte) uint64 {
	if v.incompat&object.IncompatibleKeyed != 0 {
		return object.KeyedHash(&v.fileID, payload)
	}
	return object.Jenkins(payload)
}

// h reads a 64-bit field of the header; zero when the header has no such field.
func (v *verifier) h(off int) uint64 {
	if !v.has(off) {
		return 0
	}
	return object.U64(v.hdr, off)
}

// has reports whether the header has the field, or the two, of 8 bytes at off.
func (v *verifier) has(off int) bool { return v.hdrSize >= uint64(off)+8 }

func (v *verifier) fail(off uint64, kind ProblemKind, format string, args ...any) {
	v.report.Failed++
	v.add(off, kind, false, format, args)
}

// note reports a harmless problem.
func (v *verifier) note(off uint64, kind ProblemKind, format string, args ...any) {
	v.add(off, kind, true, format, args)
}

func (v *verifier) add(off uint64, kind ProblemKind, harmless bool, format string, args []any) {
	if len(v.report.Problems) == MaxProblems {
		v.report.Omitted++
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{Offset: off, Kind: kind, Harmless: harmless, Text: fmt.Sprintf(format, args...)})
}

// once reports whether it is asked about off for the first time, so that one
// damaged object that many refer to does not fill the report.
func (v *verifier) once(off uint64) bool {
	if v.said[off] {
		return false
	}
	if v.said == nil {
		v.said = map[uint64]bool{}
	}
	if len(v.said) < MaxProblems {
		v.said[off] = true
	}
	return true
}

// full reports whether more problems would only be counted.
func (v *verifier) full() bool { return len(v.report.Problems) == MaxProblems }

// loadHeader reads the header and checks what journald checks before it opens
// a file, in the same order.
func (v *verifier) loadHeader() error {
	size := v.win.size
	bad := func(off uint64, err error, format string, args ...any) error {
		return formatErrorf(v.win.name, off, err, format, args...)
	}
	if size < object.HeaderSizeMin {
		return bad(0, ErrTruncated, "%d bytes are too short for a header", size)
	}
	if size > vMaxSize {
		return bad(0, ErrUnsupported, "%d bytes, %d at most can be verified", size, int64(vMaxSize))
	}
	b, err := v.win.get(0, int(min(size, object.HeaderSize254)))
	if err != nil {
		return err
	}
	v.hdr = make([]byte, object.HeaderSize254)
	copy(v.hdr, b)
	if string(v.hdr[:8]) != object.Signature {
		return bad(0, ErrNotJournal, "no signature")
	}
	v.compat = object.U32(v.hdr, object.HdrCompatible)
	v.incompat = object.U32(v.hdr, object.HdrIncompatible)
	if unknown := v.incompat &^ object.IncompatibleAll; unknown != 0 {
		return bad(object.HdrIncompatible, ErrUnsupported, "unknown incompatible flags %#x", unknown)
	}
	if s := v.hdr[object.HdrState]; s > object.StateArchived {
		return bad(object.HdrState, ErrCorrupt, "unknown state %d", s)
	}
	v.hdrSize = object.U64(v.hdr, object.HdrHeaderSize)
	if v.hdrSize < object.HeaderSizeMin {
		return bad(object.HdrHeaderSize, ErrCorrupt, "header size %d", v.hdrSize)
	}
	if v.compat&object.CompatibleSealed != 0 && !v.has(object.HdrNEntryArrays) {
		return bad(object.HdrCompatible, ErrCorrupt, "sealed file with a header of %d bytes", v.hdrSize)
	}
	arena := object.U64(v.hdr, object.HdrArenaSize)
	if v.hdrSize > size || arena > size-v.hdrSize {
		return bad(object.HdrArenaSize, ErrTruncated, "%d bytes, but header and arena say %d + %d", size, v.hdrSize, arena)
	}
	v.tail = object.U64(v.hdr, object.HdrTailObjectOffset)
	if v.tail > v.hdrSize+arena {
		return bad(object.HdrTailObjectOffset, ErrTruncated, "tail object at %d is beyond the arena", v.tail)
	}
	for _, off := range []int{object.HdrDataHashTableOffset, object.HdrFieldHashTableOffset, object.HdrTailObjectOffset, object.HdrEntryArrayOffset} {
		if p := object.U64(v.hdr, off); p%8 != 0 {
			return bad(uint64(off), ErrCorrupt, "offset %#x is not a multiple of 8", p)
		}
	}
	copy(v.fileID[:], v.hdr[object.HdrFileID:])
	return nil
}
