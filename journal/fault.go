package journal

import (
	"runtime/debug"
)

// guardFault runs fn, which may read mapped files. A load that faults, because
// a mapped file has become shorter, becomes an error: the file in question is
// read by pread from then on, and errFault tells the caller to begin again.
func guardFault(f *File, fn func() error) error {
	err := catchFault(fn)
	for range 2 {
		if err != errFault { //nolint:errorlint // never wrapped
			return err
		}
		f.afterFault()
		err = catchFault(fn)
	}
	return err
}

// errFault says that a load from a mapping has faulted.
var errFault = &FormatError{Err: ErrTruncated, Detail: "a mapped file became shorter"}

func catchFault(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			// A memory fault is a runtime.Error that knows its address; every other
			// panic goes on.
			if _, ok := r.(interface{ Addr() uintptr }); !ok {
				panic(r)
			}
			err = errFault
		}
	}()
	return fn()
}

// afterFault stops reading f through its mapping.
func (f *File) afterFault() {
	f.dropMap()
	f.end = uint64(max(f.size(), 0))
	if f.cache == nil {
		f.useCache(&dataCache{})
	}
}
