package entry

import (
	"bytes"
	"encoding/hex"
	"fmt"
)

// ID is a 128-bit identifier as systemd uses it for machines, boots, files and
// sequences. The zero ID stands for "none".
type ID [16]byte

// String returns the 32 lower-case hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id is the null identifier.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID reads 32 hexadecimal digits, or the UUID form, with dashes in its four
// places and nowhere else, as sd_id128_from_string does.
func ParseID(s string) (ID, error) {
	id, ok := parseID([]byte(s))
	if !ok {
		return ID{}, fmt.Errorf("parse id %q: want 32 hexadecimal digits", s)
	}
	return id, nil
}

// Field is one field of an entry as it is stored: NAME=value. The value may
// hold any byte. A Field without '=' is invalid and refused by writers.
type Field []byte

// Name returns the bytes before the first '='; all of f when there is none.
func (f Field) Name() []byte {
	if i := bytes.IndexByte(f, '='); i >= 0 {
		return f[:i]
	}
	return f
}

// Value returns the bytes behind the first '='; nil when there is none.
func (f Field) Value() []byte {
	if i := bytes.IndexByte(f, '='); i >= 0 {
		return f[i+1:]
	}
	return nil
}

// Entry is one log record. Writers read Fields, Realtime, Monotonic, BootID,
// Owner and Urgent; readers fill all but Owner and Urgent.
//
// Fields are borrowed: a callee that keeps them beyond its return copies them.
type Entry struct {
	// Fields in the order of their submission (writers) or of their offset in
	// the file (readers). A name may occur several times.
	Fields []Field
	// Realtime is CLOCK_REALTIME in µs since 1970. 0 tells a writer to take the
	// time itself, inside its append lock.
	Realtime uint64
	// Monotonic is CLOCK_MONOTONIC in µs since the boot BootID. It is taken by
	// the writer when Realtime is 0.
	Monotonic uint64
	// BootID of the boot that Monotonic belongs to. Zero: the writer's own boot
	// when the writer also takes the time, else stored as zero.
	BootID ID
	// Seqnum is the position in the sequence SeqnumID, from 1. Set by readers.
	Seqnum   uint64
	SeqnumID ID
	// XorHash is the XOR of the Jenkins hashes of all submitted fields. Set by
	// readers; part of the cursor.
	XorHash uint64
	// Owner is the uid of the sender. It chooses the file that a store writes
	// to and is not stored itself. 0, root, means the system file.
	Owner uint32
	// Urgent asks for a sync to begin at once (journald: priority <= 2). The
	// append does not wait for it.
	Urgent bool
}

// Get returns the value of the first field called name.
func (e *Entry) Get(name string) ([]byte, bool) {
	for _, f := range e.Fields {
		if len(f) > len(name) && f[len(name)] == '=' && string(f[:len(name)]) == name {
			return f[len(name)+1:], true
		}
	}
	return nil, false
}
