package slowfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

// load notes all that is in a directory, as durable.
func (d *disk) load(root string) error {
	return filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("stat %s: no inode number", p)
		}
		in := d.inodes[st.Ino]
		if in == nil { // else: another name of it
			in = &inode{mode: info.Mode(), pages: map[int64]*page{}, sizes: []sizeVersion{{}}}
			if err := in.load(p); err != nil {
				return err
			}
			d.inodes[st.Ino] = in
		}
		d.names[rel], d.durable[rel] = in, in
		return nil
	})
}

// load reads the contents of a file or link.
func (in *inode) load(name string) (err error) {
	if in.mode&fs.ModeSymlink != 0 {
		in.target, err = os.Readlink(name)
		return err
	}
	if !in.mode.IsRegular() {
		return nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	in.sizes[0].size = int64(len(b))
	for i := int64(0); len(b) > 0; i++ {
		data := make([]byte, pageSize)
		b = b[copy(data, b):]
		if slices.ContainsFunc(data, func(c byte) bool { return c != 0 }) {
			in.pages[i] = &page{versions: []pageVersion{{data: data}}}
		}
	}
	return nil
}

// image writes one of the states that a power cut now could leave into out, which
// it makes, or which is empty. seed chooses. With cut nothing changes afterwards.
func (d *disk) image(seed uint64, out string, cut bool) error {
	if d == nil {
		return errors.New("Options.PowerCut is not set: what syncs cover was not noted")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("image %s: directory is not empty", out))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = d.cut || cut
	r := rand.New(rand.NewPCG(seed, 0x637574))
	names := maps.Clone(d.durable)
	for _, op := range d.pending[:r.IntN(len(d.pending)+1)] {
		op.apply(names)
	}
	choose := chooser(r)
	first := map[*inode]string{}
	for _, name := range slices.Sorted(maps.Keys(names)) { // in a fixed order: a seed means one thing
		in, to := names[name], filepath.Join(out, name)
		if dir := path.Dir(name); dir != "." && (names[dir] == nil || !names[dir].mode.IsDir()) {
			continue // the directory did not survive
		}
		var err error
		switch before, linked := first[in]; {
		case linked && !in.mode.IsDir():
			err = os.Link(before, to)
		case in.mode.IsDir():
			err = os.Mkdir(to, 0o700|in.mode.Perm())
		case in.mode&fs.ModeSymlink != 0:
			err = os.Symlink(in.target, to)
		case in.mode.IsRegular():
			err = in.image(to, choose)
		default:
			continue // fifos and devices are left out
		}
		if err != nil {
			return err
		}
		first[in] = to
	}
	return nil
}

// chooser returns what picks one of n versions. How much survives differs from
// seed to seed: most, little, the oldest or newest of each, any.
func chooser(r *rand.Rand) func(n int) int {
	bias := r.IntN(4)
	return func(n int) int {
		switch bias {
		case 0:
			return n - 1 - min(r.IntN(n), r.IntN(n))
		case 1:
			return min(r.IntN(n), r.IntN(n))
		case 2:
			return r.IntN(2) * (n - 1)
		default:
			return r.IntN(n)
		}
	}
}

// image writes one of the states of a file.
func (in *inode) image(name string, choose func(n int) int) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, in.mode.Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := in.sizes[choose(len(in.sizes))].size
	if err := f.Truncate(size); err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(in.pages)) {
		versions := in.pages[i].versions
		data, at := versions[choose(len(versions))].data, i*pageSize
		if data == nil || at >= size {
			continue
		}
		if _, err := f.WriteAt(data[:min(pageSize, size-at)], at); err != nil {
			return err
		}
	}
	return nil
}
