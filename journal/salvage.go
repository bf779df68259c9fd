package journal

import "errors"

type salvage struct{ index []uint64 }

func (f *File) startSalvage() { f.salvaged = &salvage{}; f.renumbered++ }
func (f *File) salvageMore()  {}

func (f *File) damaged(err error) error {
	if f.salvaged != nil || errors.Is(err, errRenumbered) {
		return err
	}
	f.warn(err)
	f.startSalvage()
	return errRenumbered
}

func (f *File) lastEntry() (uint64, error) {
	n := f.Entries()
	if n == 0 {
		return 0, nil
	}
	return f.entryAt(n - 1)
}
