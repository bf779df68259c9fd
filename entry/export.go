package entry

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

const bootIDPrefix = "_BOOT_ID="

// AppendExport appends e in the Journal Export Format, byte for byte as
// journalctl 252 prints it: cursor, times and boot first, then the fields in
// their order without _BOOT_ID, then an empty line. Fields without '=' are left
// out.
func AppendExport(b []byte, e *Entry) []byte {
	b = AppendExportHead(b, e)
	for _, f := range e.Fields {
		if !isBootID(f) {
			b = AppendExportField(b, f)
		}
	}
	return append(b, '\n')
}

// AppendExportHead appends the four lines an exported entry begins with:
// __CURSOR, __REALTIME_TIMESTAMP, __MONOTONIC_TIMESTAMP and _BOOT_ID.
func AppendExportHead(b []byte, e *Entry) []byte {
	b = append(b, "__CURSOR="...)
	b = e.Cursor().AppendTo(b)
	b = append(b, "\n__REALTIME_TIMESTAMP="...)
	b = strconv.AppendUint(b, e.Realtime, 10)
	b = append(b, "\n__MONOTONIC_TIMESTAMP="...)
	b = strconv.AppendUint(b, e.Monotonic, 10)
	b = append(b, "\n"+bootIDPrefix...)
	b = hex.AppendEncode(b, e.BootID[:])
	return append(b, '\n')
}

// AppendExportField appends one field with its newline: as NAME=value when all
// of it is printable without a newline, else as the name, the length of the
// value in 64 bits and the value. A field without '=' appends nothing.
func AppendExportField(b []byte, f Field) []byte {
	eq := bytes.IndexByte(f, '=')
	switch {
	case eq < 0:
		return b
	case Printable(f, false):
		b = append(b, f...)
	default:
		b = appendBinary(b, f, eq)
	}
	return append(b, '\n')
}

// appendBinary appends f in its binary form, without the final newline; eq is
// the place of its first '='.
func appendBinary(b []byte, f Field, eq int) []byte {
	b = append(b, f[:eq]...)
	b = append(b, '\n')
	b = binary.LittleEndian.AppendUint64(b, uint64(len(f)-eq-1))
	return append(b, f[eq+1:]...)
}

// isBootID reports whether f is a _BOOT_ID field.
func isBootID(f Field) bool {
	return len(f) >= len(bootIDPrefix) && string(f[:len(bootIDPrefix)]) == bootIDPrefix
}
