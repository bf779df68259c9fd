package journal

import "runtime/debug"

// errFault says that a load from a mapping has faulted.
var errFault = &FormatError{Err: ErrTruncated, Detail: "a mapped file became shorter"}

// endFault is deferred around code that reads mapped files and was begun by
// debug.SetPanicOnFault(true), which returned old. A load that faulted, because
// a mapped file has become shorter, becomes errFault.
func endFault(old bool, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	// A memory fault is a runtime.Error that knows its address; every other panic
	// goes on.
	if _, ok := r.(interface{ Addr() uintptr }); !ok {
		panic(r)
	}
	*err = errFault
}

// guardFault runs fn, which may read f through a mapping. After a fault f is
// read by pread, and fn is run again.
func guardFault(f *File, fn func() error) error {
	for {
		err := catchFault(fn)
		if err != errFault || f.m == nil { //nolint:errorlint // never wrapped
			return err
		}
		f.afterFault()
	}
}

func catchFault(fn func() error) (err error) {
	defer endFault(debug.SetPanicOnFault(true), &err)
	return fn()
}

// afterFault stops reading f through its mapping. A scan that the fault has ended
// begins anew.
func (f *File) afterFault() {
	if f.salvaged != nil && !f.salvaged.done {
		f.salvaged = nil
	}
	f.dropMap()
	f.lazy = false
	f.end = uint64(max(f.size(), 0))
}
