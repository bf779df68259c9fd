// Package entry holds what a log record is: fields, names, identifiers, times
// and the cursor, and its two serializations, the Journal Export Format and
// JSON. It does no I/O of its own.
package entry
