package crashfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// PowerCut returns what a power cut now could leave, one of the many
// possibilities; seed chooses. The clone has no faults and no limits.
func (f *FS) PowerCut(seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := New(seed)
	r := rand.New(rand.NewPCG(seed, 0x637574))
	names := maps.Clone(f.durable)
	for _, op := range f.pending[:r.IntN(len(f.pending)+1)] {
		apply(names, op)
	}
	// How much of it survives differs: most, little, some of each page.
	bias := r.IntN(4)
	out.adopt(f, names, func(versions int) int {
		switch bias {
		case 0:
			return versions - 1 - min(r.IntN(versions), r.IntN(versions))
		case 1:
			return min(r.IntN(versions), r.IntN(versions))
		case 2:
			return r.IntN(2) * (versions - 1)
		default:
			return r.IntN(versions)
		}
	})
	return out
}

// Survivors returns what the death of the process leaves: everything that was
// written.
func (f *FS) Survivors() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := New(uint64(f.calls))
	out.adopt(f, f.names, func(versions int) int { return versions - 1 })
	return out
}

// adopt copies the named files of f; choose picks one of n versions. It walks in
// a fixed order, so that a seed means one thing.
func (f *FS) adopt(from *FS, names map[string]*inode, choose func(n int) int) {
	maps.Copy(f.dirs, from.dirs)
	copies := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		in := names[name]
		if copies[in] == nil {
			copies[in] = in.choose(choose)
		}
		f.names[name], f.durable[name] = copies[in], copies[in]
	}
}

func (in *inode) choose(choose func(n int) int) *inode {
	size := in.sizes[choose(len(in.sizes))]
	out := &inode{perm: in.perm, pages: map[int64]*page{}, sizes: []int64{size}, xattr: maps.Clone(in.xattr)}
	for _, i := range slices.Sorted(maps.Keys(in.pages)) {
		p := in.pages[i]
		v := p.versions[choose(len(p.versions))]
		if at := i * pageSize; v == nil || at >= size {
			continue
		} else if at+pageSize > size {
			v = slices.Clone(v)
			clear(v[size-at:])
		}
		out.pages[i] = &page{versions: [][]byte{v}}
	}
	return out
}

// Bytes returns the contents of a file now, nil if there is none.
func (f *FS) Bytes(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.names[name]
	if in == nil {
		return nil
	}
	b := make([]byte, in.size())
	in.read(b, 0)
	return b
}
