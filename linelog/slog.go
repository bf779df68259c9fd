package linelog

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tidemark-log/tidemark/settle"
)

// Format is how a Handler writes a record.
type Format uint8

const (
	// Logfmt writes key=value pairs, as slog.TextHandler does.
	Logfmt Format = iota
	// JSON writes an object, as slog.JSONHandler does.
	JSON
)

// HandlerOptions are what a Handler needs to know. The zero value is useful: logfmt,
// from info on, without waiting.
type HandlerOptions struct {
	// HandlerOptions are those of the handlers of package slog: Level, AddSource and
	// ReplaceAttr.
	slog.HandlerOptions
	// Format is how a record is written. Zero: Logfmt.
	Format Format
	// Ack, if not nil, is the level from which on Handle waits until the record has
	// reached AckLevel, together with everyone else who waits. Below it nobody
	// waits for the disk.
	Ack slog.Leveler
	// AckLevel is what Handle waits for. Zero: settle.Synced.
	AckLevel settle.Level
}

// Handler is a slog.Handler: each record is one line of a Writer. It may be used
// concurrently, and so may those that WithAttrs and WithGroup make of it.
//
// Lines are those of slog.JSONHandler and slog.TextHandler, byte for byte. What With
// has added is formatted once. For a record with up to five attributes of ordinary
// kinds (string, numbers, bool, duration in JSON, time, group of such) nothing is
// allocated; other kinds, AddSource and ReplaceAttr take package slog's own way,
// which is slower.
type Handler struct {
	inner slog.Handler // for what is not ordinary
	style style
	lines *sync.Pool // of *line: empty ones
	w     *Writer
	ack   slog.Leveler
	level settle.Level
}

// maxSpare is the size up to which the memory of a line is used again.
const maxSpare = 16 << 10

var _ slog.Handler = (*Handler)(nil)

// NewHandler returns a handler that appends to w. Who closes w does so after the last
// record.
func NewHandler(w *Writer, o HandlerOptions) *Handler {
	h := &Handler{w: w, ack: o.Ack, level: o.AckLevel, lines: &sync.Pool{New: func() any { return &line{buf: make([]byte, 0, 1024)} }}}
	h.style = style{json: o.Format == JSON, odd: o.AddSource || o.ReplaceAttr != nil}
	if h.level == settle.Accepted {
		h.level = settle.Synced
	}
	to := lineWriter{w}
	if o.Format == JSON {
		h.inner = slog.NewJSONHandler(to, &o.HandlerOptions)
	} else {
		h.inner = slog.NewTextHandler(to, &o.HandlerOptions)
	}
	return h
}

// lineWriter takes one whole line a call, which it keeps apart from what others have
// written by Write without its end.
type lineWriter struct{ w *Writer }

func (l lineWriter) Write(p []byte) (int, error) {
	if _, err := l.w.Append(context.Background(), p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// Handle appends a record. It waits for the disk only if HandlerOptions.Ack says so,
// and for room if the buffer is full and Options.Full is Block. Its errors are those
// of Append and Wait; a slog.Logger passes over them, and Stats counts them.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	l := h.lines.Get().(*line)
	l.style, l.buf, l.prefix = &h.style, l.buf[:0], l.prefix[:0]
	var err error
	if l.record(&r) {
		_, err = h.w.Append(ctx, l.buf)
	} else {
		err = h.inner.Handle(ctx, r)
	}
	if cap(l.buf) <= maxSpare {
		h.lines.Put(l)
	}
	if err != nil {
		return err
	}
	if h.ack == nil || r.Level < h.ack.Level() {
		return nil
	}
	return h.w.Wait(ctx, h.w.Pos(), h.level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.with(h.inner.WithAttrs(attrs), h.style.withAttrs(attrs))
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(h.inner.WithGroup(name), h.style.withGroup(name))
}

func (h *Handler) with(inner slog.Handler, s style) *Handler {
	c := *h
	c.inner, c.style = inner, s
	return &c
}
