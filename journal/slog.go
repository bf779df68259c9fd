package journal

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// HandlerOptions are what a Handler needs to know. The zero value is useful: from info
// on, without the place in the source, without waiting.
type HandlerOptions struct {
	// Level is the least that is stored. nil: info.
	Level slog.Leveler
	// AddSource stores CODE_FILE, CODE_LINE and CODE_FUNC.
	AddSource bool
	// Timestamp stores the time of the record as TIMESTAMP. The entry's own is that
	// of the append, a moment later.
	Timestamp bool
	// Fields are in each entry, such as SYSLOG_IDENTIFIER=shop.
	Fields []entry.Field
	// Ack, if not nil, is the level from which on Handle waits until the entry has
	// reached AckLevel, together with everyone else who waits.
	Ack slog.Leveler
	// AckLevel is what Handle waits for. Zero: settle.Synced.
	AckLevel settle.Level
	// Fail, if not nil, is told of each record that was not appended (the file is
	// full, the writer closed), as a slog.Logger passes over what Handle returns. It
	// is called by who logs.
	Fail func(err error)
}

// Handler is a slog.Handler: each record is an entry of a Writer. It may be used
// concurrently, and so may those that WithAttrs and WithGroup make of it.
//
// The message is MESSAGE; the level is PRIORITY, by fours as slog counts: below 0 is 7
// (debug), then 6 (info), from 2 on 5 (notice), from 4 on 4 (warning), 3 (err), 2, 1,
// and 0 from 20 on. Attributes are fields as entry.JSONDecoder names them: upper-cased,
// groups in front with a '_', a leading '_' dropped. One that would be MESSAGE,
// PRIORITY or TIMESTAMP has FIELD_ in front. Strings are stored as they are, numbers,
// booleans and durations as text, times as RFC 3339, bytes as bytes, errors and what
// has a text form as that; other values as their JSON: arrays repeat the field, members
// have fields of their own, null is dropped.
//
// What With has added is made once. For records with attributes of ordinary kinds
// nothing is allocated in the long run.
type Handler struct {
	*handlerState
	fixed  []entry.Field // what options and With have added
	prefix []byte        // keys of the groups, each with a '_' behind
}

// handlerState is common to a handler and those made of it.
type handlerState struct {
	w       *Writer
	o       HandlerOptions
	records sync.Pool // of *record: empty ones

	underscores, cut, null, tooMany atomic.Int64
}

var _ slog.Handler = (*Handler)(nil)

// NewHandler returns a handler that appends to w. Who closes w does so after the last
// record. A file that is full (ErrFull) takes no more: a handler of the next one takes
// over, or the program logs to a daemon, which sees to that.
func NewHandler(w *Writer, o HandlerOptions) *Handler {
	if o.AckLevel == settle.Accepted {
		o.AckLevel = settle.Synced
	}
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	h := &Handler{handlerState: &handlerState{w: w, o: o}, fixed: slices.Clone(o.Fields)}
	h.records.New = func() any { return &record{entries: make([]entry.Entry, 1)} }
	return h
}

// Counts tells what was changed or left out so far, in all records and With.
func (h *Handler) Counts() entry.JSONCounts {
	return entry.JSONCounts{
		Underscores: int(h.underscores.Load()), Cut: int(h.cut.Load()),
		Null: int(h.null.Load()), TooMany: int(h.tooMany.Load()),
	}
}

// count adds what a record has changed or left out.
func (h *Handler) count(c *entry.JSONCounts) {
	if *c == (entry.JSONCounts{}) {
		return
	}
	h.underscores.Add(int64(c.Underscores))
	h.cut.Add(int64(c.Cut))
	h.null.Add(int64(c.Null))
	h.tooMany.Add(int64(c.TooMany))
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.o.Level.Level()
}

// Handle appends a record. It waits for the disk only if HandlerOptions.Ack says so,
// and for room while the writer's buffer is full. Its errors are those of Append and
// Wait.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	rec := h.records.Get().(*record)
	defer h.records.Put(rec)
	rec.begin()
	level := priority(r.Level)
	rec.add("PRIORITY=", func(b []byte) []byte { return append(b, '0'+level) })
	rec.add("MESSAGE=", func(b []byte) []byte { return append(b, r.Message...) })
	if h.o.Timestamp && !r.Time.IsZero() {
		rec.add("TIMESTAMP=", func(b []byte) []byte { return appendTime(b, r.Time) })
	}
	if h.o.AddSource && r.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		rec.add("CODE_FILE=", func(b []byte) []byte { return append(b, frame.File...) })
		rec.add("CODE_LINE=", func(b []byte) []byte { return strconv.AppendInt(b, int64(frame.Line), 10) })
		rec.add("CODE_FUNC=", func(b []byte) []byte { return append(b, frame.Function...) })
	}
	rec.name = append(rec.name, h.prefix...)
	r.Attrs(func(a slog.Attr) bool {
		rec.attr(a)
		return true
	})
	e := &rec.entries[0]
	e.Fields, e.Urgent = rec.fields(h.fixed), level <= 2
	h.count(&rec.counts)
	pos, _, err := h.w.Append(ctx, rec.entries)
	clear(e.Fields)
	if err != nil {
		if h.o.Fail != nil {
			h.o.Fail(err)
		}
		return err
	}
	if h.o.Ack == nil || r.Level < h.o.Ack.Level() {
		return nil
	}
	return h.w.Wait(ctx, pos, h.o.AckLevel)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	rec := new(record) // its memory is kept: not one of the pool
	rec.begin()
	rec.name = append(rec.name, h.prefix...)
	for _, a := range attrs {
		rec.attr(a)
	}
	h.count(&rec.counts)
	c := *h
	c.fixed = slices.Clip(rec.fields(h.fixed))
	return &c
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.prefix = append(entry.AppendKey(slices.Clone(h.prefix), name), '_')
	return &c
}

// priority is the syslog level of a level.
func priority(l slog.Level) byte {
	switch {
	case l < slog.LevelInfo:
		return 7
	case l < slog.LevelInfo+2:
		return 6
	case l < slog.LevelWarn:
		return 5
	}
	return byte(max(0, 4-(l-slog.LevelWarn)/4))
}
