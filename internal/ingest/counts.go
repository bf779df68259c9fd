package ingest

import "sync/atomic"

// Count is how often something has happened since Open.
type Count struct {
	// Name is the path: native, syslog, stdout, kmsg, or peer for the lookup of
	// senders.
	Name string
	// Reason says what was counted. "entries" are those handed to the sink, all
	// others tell of something malformed, refused or dropped, but for "streams",
	// "lookups" and "gone".
	Reason string
	N      uint64
}

// reason indexes counts.
type reason uint8

const (
	noReason reason = iota
	nativeEntries
	nativeBadNames
	nativeNoise
	nativeMalformed
	nativeTooMany
	nativeTooLarge
	nativeEmpty
	nativeTruncated
	nativeControl
	nativeFDs
	nativeFDPath
	nativeFDKind
	nativeFDSize
	nativeFDRead
	nativeFDRate
	nativeLimited
	nativeLevel
	nativeRefused
	syslogEntries
	syslogTruncated
	syslogControl
	syslogFDs
	syslogLimited
	syslogLevel
	syslogRefused
	stdoutEntries
	stdoutStreams
	stdoutTooMany
	stdoutShort
	stdoutHeader
	stdoutRead
	stdoutLimited
	stdoutLevel
	stdoutRefused
	kmsgEntries
	kmsgMalformed
	kmsgBadNames
	kmsgMissed
	kmsgOverrun
	kmsgLevel
	kmsgRead
	kmsgRefused
	httpLevel
	peerLookups
	peerGone
	peerReused
	reasonCount
)

// isLoss reports whether a message was lost, against the sender's will and that
// of whoever has configured us.
func (r reason) isLoss() bool {
	switch r {
	case nativeTooMany, nativeTooLarge, nativeMalformed, nativeTruncated, nativeControl,
		nativeFDs, nativeFDPath, nativeFDKind, nativeFDSize, nativeFDRead, nativeFDRate, nativeRefused,
		syslogTruncated, syslogControl, syslogFDs, syslogRefused,
		stdoutTooMany, stdoutHeader, stdoutRead, stdoutRefused,
		kmsgMalformed, kmsgRead, kmsgRefused:
		return true
	default: // counted, or told by an event of its own
		return false
	}
}

// counts are updated by all sources.
type counts struct {
	n    [reasonCount]atomic.Uint64
	lost atomic.Uint64
	mark func(lost uint64) // told of every loss; nil: nobody is
}

func (c *counts) add(r reason, n uint64) {
	if n == 0 {
		return
	}
	c.n[r].Add(n)
	if c.mark != nil && r.isLoss() {
		c.mark(c.lost.Add(n))
	}
}

// names of what is counted.
var names = [reasonCount]Count{
	nativeEntries:   {Name: "native", Reason: "entries"},
	nativeBadNames:  {Name: "native", Reason: "bad_names"},
	nativeNoise:     {Name: "native", Reason: "noise"},
	nativeMalformed: {Name: "native", Reason: "malformed"},
	nativeTooMany:   {Name: "native", Reason: "too_many_fields"},
	nativeTooLarge:  {Name: "native", Reason: "too_large"},
	nativeEmpty:     {Name: "native", Reason: "empty"},
	nativeTruncated: {Name: "native", Reason: "truncated"},
	nativeControl:   {Name: "native", Reason: "control_truncated"},
	nativeFDs:       {Name: "native", Reason: "unexpected_fds"},
	nativeFDPath:    {Name: "native", Reason: "fd_path"},
	nativeFDKind:    {Name: "native", Reason: "fd_kind"},
	nativeFDSize:    {Name: "native", Reason: "fd_size"},
	nativeFDRead:    {Name: "native", Reason: "fd_unreadable"},
	nativeFDRate:    {Name: "native", Reason: "fd_rate"},
	nativeLimited:   {Name: "native", Reason: "rate_limited"},
	nativeLevel:     {Name: "native", Reason: "level"},
	nativeRefused:   {Name: "native", Reason: "refused"},
	syslogEntries:   {Name: "syslog", Reason: "entries"},
	syslogTruncated: {Name: "syslog", Reason: "truncated"},
	syslogControl:   {Name: "syslog", Reason: "control_truncated"},
	syslogFDs:       {Name: "syslog", Reason: "unexpected_fds"},
	syslogLimited:   {Name: "syslog", Reason: "rate_limited"},
	syslogLevel:     {Name: "syslog", Reason: "level"},
	syslogRefused:   {Name: "syslog", Reason: "refused"},
	stdoutEntries:   {Name: "stdout", Reason: "entries"},
	stdoutStreams:   {Name: "stdout", Reason: "streams"},
	stdoutTooMany:   {Name: "stdout", Reason: "too_many_streams"},
	stdoutShort:     {Name: "stdout", Reason: "no_descriptors"},
	stdoutHeader:    {Name: "stdout", Reason: "bad_header"},
	stdoutRead:      {Name: "stdout", Reason: "unreadable"},
	stdoutLimited:   {Name: "stdout", Reason: "rate_limited"},
	stdoutLevel:     {Name: "stdout", Reason: "level"},
	stdoutRefused:   {Name: "stdout", Reason: "refused"},
	kmsgEntries:     {Name: "kmsg", Reason: "entries"},
	kmsgMalformed:   {Name: "kmsg", Reason: "malformed"},
	kmsgBadNames:    {Name: "kmsg", Reason: "bad_names"},
	kmsgMissed:      {Name: "kmsg", Reason: "missed"},
	kmsgOverrun:     {Name: "kmsg", Reason: "overrun"},
	kmsgLevel:       {Name: "kmsg", Reason: "level"},
	kmsgRead:        {Name: "kmsg", Reason: "unreadable"},
	kmsgRefused:     {Name: "kmsg", Reason: "refused"},
	httpLevel:       {Name: "http", Reason: "level"},
	peerLookups:     {Name: "peer", Reason: "lookups"},
	peerGone:        {Name: "peer", Reason: "gone"},
	peerReused:      {Name: "peer", Reason: "pid_reused"},
}

// EachCount tells what was taken, and what was malformed or dropped, by reason, always
// all of them and in the same order, so that it is known what could be counted. It may
// be called at any time, and allocates nothing.
func (in *Ingest) EachCount(tell func(Count)) {
	for r := noReason + 1; r < reasonCount; r++ {
		c := names[r]
		c.N = in.counts.n[r].Load()
		tell(c)
	}
}
