package journal

// Match says which entries are wanted. The zero Match is all of them.
type Match struct{}

func (Match) plan(bool) matcher { return nil }

type matcher interface {
	seek(f *File, off uint64, dir direction) (uint64, error)
	final() bool
}
