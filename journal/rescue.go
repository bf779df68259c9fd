package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
	"github.com/tidemark-log/tidemark/settle"
)

// RescueOptions say how a damaged file is saved. The zero value is useful.
type RescueOptions struct {
	// FS holds the files, as Options.FS does; nil means the machine's.
	FS vfs.FS
	// MaxSize of a file that is written, in bytes. 0: room for what the damaged
	// file has, but for the format's limit of 4 GiB.
	MaxSize uint64
	// Progress is called now and then from the calling goroutine, with entries.
	// nil: not called.
	Progress func(done, total uint64)
}

// RescueReport says what Rescue has saved, and what is lost.
type RescueReport struct {
	// Files that were written: out first, then those with what out had no room for.
	Files []string
	// Entries saved, in all files.
	Entries uint64
	// Counted is how many entries the damaged file says it has. Its header may be
	// what is damaged.
	Counted uint64
	// Lost entries are there in part only: without a field that can be read, or too
	// large for a file. What is not there at all is the difference of Counted.
	Lost uint64
	// LostFields of entries that were saved could not be read.
	LostFields uint64
	// ChangedFields were saved although their hash, or it, is not what it was. Each
	// is counted once, however many entries have it.
	ChangedFields uint64
	// Renumbered entries had a sequence number that breaks the order of the file, and
	// got one that does not.
	Renumbered uint64
	// Retimed entries had a monotonic time that breaks the order of their boot, and
	// got that of a neighbour.
	Retimed uint64
	// Rehashed entries had an xor_hash that cannot be that of their fields.
	Rehashed uint64
	// Skipped bytes are those between objects that were found.
	Skipped uint64
}

// ErrNothingSaved says that not one entry of a damaged file could be read.
var ErrNothingSaved = errors.New("no entry could be read")

// Rescue writes what can be read of the damaged journal file path into a new
// file, out: every entry of which a field is left, under its own sequence number,
// with its times, in the order of the damaged file. The new file has the flavour of
// the old one, but zstd for xz and lz4, a header of 264 bytes for a smaller one,
// and no seals; it is archived, and passes Verify, which is called. When one
// file cannot hold all, others are written beside it: out "a.journal" has
// "a.2.journal" and so on. path is only read.
//
// No file of these names may exist (fs.ErrExist). They get their names when all
// of them are written, synced and verified, out last: after an error, or a crash
// at any moment, there is no file called out, and what is left of the others is
// whole, or has a name that no reader opens. When it returns nil the files and
// their names survive a power cut.
//
// Errors are ErrNothingSaved, a *FormatError about a header that says too little,
// ctx.Err(), or those of the file system. It needs memory of about half the
// damaged file's size at most, and starts the goroutines of a Writer, which end
// before it returns.
func Rescue(ctx context.Context, path, out string, o RescueOptions) (RescueReport, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	r := rescue{ctx: ctx, o: o, out: out, known: make(map[uint64]knownData)}
	src, err := o.FS.OpenFile(path, os.O_RDONLY, 0)
	if err == nil {
		err = r.open(src, path)
		if err == nil {
			err = r.run()
		}
		err = errors.Join(err, src.Close())
		if r.unpacked != nil {
			err = errors.Join(err, r.unpacked.Close())
		}
	}
	if err != nil {
		r.remove()
		return r.report, fmt.Errorf("rescue journal: %w", err)
	}
	return r.report, nil
}

// rescue is one call of Rescue.
type rescue struct {
	ctx      context.Context //nolint:containedctx // lives as long as one call of Rescue
	o        RescueOptions
	out      string
	f        *File
	unpacked *os.File // what f reads of a compressed file; else nil
	list     []rescued
	report   RescueReport

	known  map[uint64]knownData // DATA objects, by offset
	fs     fields               // the items of the entry at hand
	arena  []byte               // its payloads
	ends   []int                // of each in arena
	fields []entry.Field
	w      *Writer // being written; nil: none
	empty  bool    // nothing was appended to w
	temps  []string
}

// knownData is what was found out about a DATA object.
type knownData struct {
	jenkins uint64 // of its payload
	hash    uint64 // as stored
	now     uint64 // of the payload as it is
	bad     bool   // it cannot be read, or has no valid name
}

func (r *rescue) open(src vfs.File, path string) error {
	size := func() int64 {
		n, err := src.Size()
		if err != nil {
			return 0
		}
		return n
	}
	var in io.ReaderAt = src
	if isPacked(src) {
		out, err := unpack(io.NewSectionReader(src, 0, size()), path)
		if err != nil {
			return err
		}
		r.unpacked, in = out, out
		st, err := out.Stat()
		if err != nil {
			return err
		}
		size = st.Size
	}
	var err error
	if r.f, err = NewFile(in, size, path); err != nil {
		return err
	}
	return r.absent(r.name(1))
}

// name is the path of the nth file.
func (r *rescue) name(n int) string {
	if n == 1 {
		return r.out
	}
	ext := filepath.Ext(r.out)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(r.out, ext), n, ext)
}

// absent answers an error if there is a file of that name.
func (r *rescue) absent(name string) error {
	_, err := r.o.FS.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
}

func (r *rescue) run() error {
	f := r.f
	if f.salvaged == nil {
		f.startSalvage() // also where nothing is known to be damaged
	}
	r.report.Counted, r.report.Skipped = f.hdr.NEntries, f.salvaged.lost
	r.collect()
	for i := range r.list {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if r.o.Progress != nil && i%1024 == 0 {
			r.o.Progress(uint64(i), uint64(len(r.list)))
		}
		if err := r.save(&r.list[i]); err != nil {
			return err
		}
	}
	if r.report.Entries == 0 {
		return fmt.Errorf("%s: %w", f.name, ErrNothingSaved)
	}
	if err := r.finish(); err != nil {
		return err
	}
	if r.o.Progress != nil {
		r.o.Progress(uint64(len(r.list)), uint64(len(r.list)))
	}
	return r.publish()
}

// save appends one entry to the present file, or the next.
func (r *rescue) save(x *rescued) error {
	e, ok := r.read(x)
	if !ok {
		r.report.Lost++
		return nil
	}
	one := []entry.Entry{e}
	for {
		if err := r.begin(x.seqnum - 1); err != nil {
			return err
		}
		pos, n, err := r.w.TryAppend(one)
		var bad *EntryError
		switch {
		case n == 1:
			r.empty = false
			r.report.Entries++
			return nil
		case errors.Is(err, ErrBufferFull):
			// Unlike an Append that waits for room, this learns that the disk is full.
			err = r.w.Wait(r.ctx, pos, settle.Appended)
		case errors.Is(err, ErrFull) && !r.empty:
			err = r.finish()
		case errors.As(err, &bad):
			r.report.Lost++
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// read reads the fields of an entry that are left.
func (r *rescue) read(x *rescued) (entry.Entry, bool) {
	f := r.f
	var h entryHead
	if f.readHead(x.off, &h) != nil || f.readItems(&h, &r.fs) != nil {
		return entry.Entry{}, false
	}
	r.arena, r.ends, r.fields = r.arena[:0], r.ends[:0], r.fields[:0]
	var xor uint64
	var basis xorBasis
	lost := uint64(0)
	for i, off := range r.fs.items {
		k := r.data(off)
		if k.bad || !f.hdr.Compact() && !r.isItem(&h, i, k) {
			lost++ // not to be read, or no longer the one that the entry had
			continue
		}
		arena, err := f.appendData(r.arena, off, maxEntryBytes-len(r.arena))
		if err != nil {
			lost++
			continue
		}
		r.arena = arena
		r.ends = append(r.ends, len(arena))
		xor ^= k.jenkins
		basis.add(k.jenkins)
	}
	if len(r.ends) == 0 {
		return entry.Entry{}, false
	}
	r.report.LostFields += lost
	from := 0
	for _, to := range r.ends {
		r.fields = append(r.fields, r.arena[from:to:to])
		from = to
	}
	if basis.reduce(xor^h.xorHash) != 0 {
		h.xorHash = xor
		r.report.Rehashed++
	}
	return entry.Entry{
		Fields: r.fields, Realtime: h.realtime, Monotonic: x.monotonic, BootID: h.boot, Seqnum: x.seqnum, XorHash: h.xorHash,
	}, true
}

// isItem reports whether k has the hash that an entry of a regular file has for
// its ith item.
func (r *rescue) isItem(h *entryHead, i int, k knownData) bool {
	b, err := r.f.at(h.off+object.EntryItems+uint64(i)*object.EntryItemSize+8, 8)
	if err != nil {
		return false
	}
	hash := object.U64(b, 0)
	return hash == k.hash || hash == k.now
}

// data looks at a DATA object, once.
func (r *rescue) data(off uint64) knownData {
	if k, ok := r.known[off]; ok {
		return k
	}
	f := r.f
	k := knownData{bad: true}
	if b, _, err := f.objectAt(off, object.Data, object.DataPayload); err == nil {
		k.hash = object.U64(b, object.DataHash)
		if p, err := f.appendData(f.scratch[:0], off, maxEntryBytes); err == nil {
			f.scratch = p[:0]
			name, _, _ := strings.Cut(string(p[:min(len(p), maxFieldName)]), "=")
			k.bad = !entry.ValidName([]byte(name), true)
			k.jenkins, k.now = object.Jenkins(p), f.hash(p)
			if !k.bad && k.now != k.hash {
				r.report.ChangedFields++
			}
		}
	}
	r.known[off] = k
	return k
}

// begin creates a file unless there is one.
func (r *rescue) begin(before uint64) error {
	if r.w != nil {
		return nil
	}
	h := &r.f.hdr
	dir, base := filepath.Split(r.out)
	// No reader opens a file that is not called .journal.
	name := filepath.Join(dir, fmt.Sprintf(".%s.%016x", base, rand.Uint64()))
	r.temps = append(r.temps, name)
	w, err := Create(name, Options{
		FS: r.o.FS,
		Flavour: Flavour{
			Regular: !h.Compact(), Unkeyed: !h.Keyed(), Header254: h.HeaderSize >= object.HeaderSize254,
			NoCompression: h.IncompatibleFlags&(object.IncompatibleXZ|object.IncompatibleLZ4|object.IncompatibleZSTD) == 0,
		},
		MachineID: h.MachineID, BootID: h.TailEntryBootID, SeqnumID: h.SeqnumID, Seqnum: before,
		MaxSize: r.maxSize(), KeepNumbers: true, TightArrays: true, Index: rescueIndex,
	})
	if err != nil {
		return err
	}
	r.w, r.empty = w, true
	return nil
}

// rescueIndex: nobody matches in a file that is being written.
const rescueIndex = time.Minute

// bytesPerBucket is how large a file is for each bucket of its data hash table, the
// reverse of object.DataBuckets.
const bytesPerBucket = 768 * 3 / 4

// maxSize makes room for all that the damaged file has, and tables as it has.
func (r *rescue) maxSize() uint64 {
	if r.o.MaxSize != 0 {
		return r.o.MaxSize
	}
	n := 2 * r.f.end
	if b := r.f.hdr.DataBuckets(); b < r.f.end/object.HashItemSize {
		n = max(n, b*bytesPerBucket+bytesPerBucket)
	}
	return min(n, maxFileSize)
}

// finish archives the present file and verifies it.
func (r *rescue) finish() error {
	w := r.w
	if err := w.Archive(r.ctx); err != nil {
		return err
	}
	r.w = nil
	name := w.Path()
	f, err := r.o.FS.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		var rep VerifyReport
		rep, err = Verify(r.ctx, f, size, name, VerifyOptions{})
		if p, bad := rep.First(); err == nil && bad {
			err = formatErrorf(name, p.Offset, ErrCorrupt, "%s", p.Text)
		}
	}
	return errors.Join(err, f.Close())
}

// publish gives the files their names, the one that was asked for last.
func (r *rescue) publish() error {
	for n := len(r.temps); n > 0; n-- {
		if err := r.absent(r.name(n)); err != nil {
			return err
		}
	}
	for n := len(r.temps); n > 0; n-- {
		if n == 1 && len(r.temps) > 1 {
			// After a power cut, too, it is not there without the others.
			if err := r.o.FS.SyncDir(filepath.Dir(r.out)); err != nil {
				return syncFailed(err)
			}
		}
		err := r.o.FS.Rename(r.temps[n-1], r.name(n))
		if err == nil || r.absent(r.temps[n-1]) == nil { // done, whatever it answers
			r.report.Files = append([]string{r.name(n)}, r.report.Files...)
		}
		if err != nil {
			return err
		}
	}
	return syncFailed(r.o.FS.SyncDir(filepath.Dir(r.out)))
}

// remove takes back what was written, after an error.
func (r *rescue) remove() {
	if r.w != nil {
		_ = r.w.shut(StateOnline)
	}
	for _, name := range append(r.temps, r.report.Files...) {
		_ = r.o.FS.Remove(name)
	}
	r.report.Files = nil
}
