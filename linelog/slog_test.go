package linelog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// lines are those of the log, after a close.
func (r *rig) lines() []string {
	r.t.Helper()
	r.close()
	return strings.SplitAfter(strings.TrimSuffix(string(r.fs.Bytes(logPath)), "\n"), "\n")
}

func TestHandlerJSON(t *testing.T) {
	r := newRig(t, Options{}, nil)
	err := slogtest.TestHandler(NewHandler(r.Writer, HandlerOptions{Format: JSON}), func() []map[string]any {
		var all []map[string]any
		for _, line := range r.lines() {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, m)
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHandlerLogfmt(t *testing.T) {
	r := newRig(t, Options{}, nil)
	err := slogtest.TestHandler(NewHandler(r.Writer, HandlerOptions{}), func() []map[string]any {
		var all []map[string]any
		for _, line := range r.lines() {
			all = append(all, parseLogfmt(t, line))
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

// parseLogfmt reads pairs without quotes, which is what slogtest writes; a dot in a
// key makes a group.
func parseLogfmt(t *testing.T, text string) map[string]any {
	t.Helper()
	top := map[string]any{}
	for _, pair := range strings.Fields(text) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			t.Fatalf("%q in %q", pair, text)
		}
		m, names := top, strings.Split(key, ".")
		for _, name := range names[:len(names)-1] {
			if m[name] == nil {
				m[name] = map[string]any{}
			}
			m = m[name].(map[string]any)
		}
		m[names[len(names)-1]] = value
	}
	return top
}

type valuer struct{ v slog.Value }

func (v valuer) LogValue() slog.Value { return v.v }

// someAttrs are attributes of each kind, with what has to be quoted or left out.
func someAttrs() []slog.Attr {
	zone := time.FixedZone("x", -3*3600-1800)
	attrs := []slog.Attr{
		{},
		slog.String("", ""), slog.String("plain", "value"), slog.String("two words", "a=b"), slog.String("q\"uote", "back\\slash"),
		slog.String("control", "\x00\x01\t\r\n\b\f\x1b\x7f"), slog.String("utf8", "grün …\u2028\u2029\u00a0\ufeff"), slog.String("no utf8", "a\xffb\xc3"),
		slog.String("html", "<a&b>"), slog.Int("int", -5), slog.Uint64("uint", math.MaxUint64), slog.Bool("bool", true), slog.Float64("float", 1.5e30),
		slog.Float64("nan", math.NaN()), slog.Duration("duration", 1500*time.Millisecond), slog.Time("time", time.Date(2026, 11, 30, 10, 15, 0, 123456789, zone)),
		slog.Time("late", time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)), slog.Any("error", errors.New("it failed")), slog.Any("nil", nil), slog.Any("bytes", []byte("x y")),
		slog.Any("valuer", valuer{slog.StringValue("resolved")}), slog.Any("group valuer", valuer{slog.GroupValue(slog.Int("a", 1))}),
		slog.Group("empty"), slog.Group("empty inside", slog.Group("x"), slog.Attr{}), slog.Group("only zero", slog.Attr{}),
		slog.Group("g", slog.Int("a", 1), slog.Group("h", slog.String("b c", "d")), slog.Int("e", 2)), slog.Group("", slog.Int("inline", 3)),
		slog.Group("with space", slog.Int("a", 1)), slog.Group("odd", slog.Int("a", 1), slog.Any("err", errors.New("inside"))),
	}
	return attrs
}

// TestHandlerIsSlogs holds lines against those of package slog, byte for byte: each
// attribute alone, in pairs, in groups, by With and in the record.
func TestHandlerIsSlogs(t *testing.T) {
	attrs := someAttrs()
	shapes := []func(h slog.Handler, a, b slog.Attr) (slog.Handler, []slog.Attr){
		func(h slog.Handler, a, b slog.Attr) (slog.Handler, []slog.Attr) { return h, []slog.Attr{a, b} },
		func(h slog.Handler, a, b slog.Attr) (slog.Handler, []slog.Attr) {
			return h.WithAttrs([]slog.Attr{a}), []slog.Attr{b}
		},
		func(h slog.Handler, a, b slog.Attr) (slog.Handler, []slog.Attr) {
			return h.WithGroup("g").WithAttrs([]slog.Attr{a}).WithGroup("h i"), []slog.Attr{b}
		},
		func(h slog.Handler, a, b slog.Attr) (slog.Handler, []slog.Attr) {
			return h.WithGroup("g").WithGroup("h").WithAttrs([]slog.Attr{a, b}).WithGroup(""), nil
		},
		func(h slog.Handler, a, b slog.Attr) (slog.Handler, []slog.Attr) {
			return h.WithAttrs([]slog.Attr{a}).WithGroup("g").WithAttrs(nil).WithAttrs([]slog.Attr{b}).WithGroup("h"), []slog.Attr{slog.Int("n", 1)}
		},
	}
	replace := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "plain" {
			a.Key = "replaced"
		}
		return a
	}
	for n, o := range []slog.HandlerOptions{{}, {Level: slog.LevelDebug, AddSource: true}, {ReplaceAttr: replace}} {
		seconds := attrs
		if n > 0 {
			seconds = attrs[2:4] // these are package slog's lines
		}
		for _, format := range []Format{Logfmt, JSON} {
			r := newRig(t, Options{}, nil)
			ours := NewHandler(r.Writer, HandlerOptions{HandlerOptions: o, Format: format})
			var want bytes.Buffer
			var theirs slog.Handler = slog.NewTextHandler(&want, &o)
			if format == JSON {
				theirs = slog.NewJSONHandler(&want, &o)
			}
			for i, shape := range shapes {
				for _, a := range attrs {
					for _, b := range seconds {
						rec := slog.NewRecord(time.Unix(int64(i)*7e8, 120e6), slog.Level(i*3-4), "it's a \"message\"", 0)
						if i == 1 {
							rec.Time = time.Time{}
						}
						for _, h := range []slog.Handler{ours, theirs} {
							h, in := shape(h, a, b)
							rec := rec.Clone()
							rec.AddAttrs(in...)
							if err := h.Handle(context.Background(), rec); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
			got, all := r.lines(), strings.SplitAfter(strings.TrimSuffix(want.String(), "\n"), "\n")
			for i := range all {
				if got[i] != all[i] {
					t.Fatalf("format %d, line %d:\n  %q, slog has\n  %q", format, i, got[i], all[i])
				}
			}
			if len(got) != len(all) {
				t.Errorf("%d lines, slog has %d", len(got), len(all))
			}
		}
	}
}

// A handler's lines stand alone beside text that others have written without its end.
func TestHandlerBesideWrite(t *testing.T) {
	r := newRig(t, Options{}, nil)
	r.put("begun, ")
	l := slog.New(NewHandler(r.Writer, HandlerOptions{}).WithAttrs([]slog.Attr{slog.Int("a", 1)}))
	l.Debug("not enabled")
	l.Info("record")
	r.put("ended\n")
	got := r.lines()
	if len(got) != 2 || !strings.HasSuffix(got[0], "level=INFO msg=record a=1\n") || got[1] != "begun, ended" {
		t.Errorf("%q", got)
	}
}

// Handle waits for the disk from the level on that was asked for, and only then.
func TestHandlerAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		gate := make(chan struct{})
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" {
				<-gate
			}
			return nil
		})
		var done atomic.Int32
		l := slog.New(NewHandler(r.Writer, HandlerOptions{Ack: slog.LevelError}))
		l.Warn("goes on")
		go func() { l.Error("waits"); done.Add(1) }()
		synctest.Wait()
		if done.Load() != 0 {
			t.Error("answered before the sync")
		}
		close(gate)
		synctest.Wait()
		if done.Load() != 1 || r.Stats().Syncs != 1 {
			t.Errorf("%d answers, %+v", done.Load(), r.Stats())
		}
		rec := slog.NewRecord(time.Now(), slog.LevelError, "nobody waits any more", 0)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := NewHandler(r.Writer, HandlerOptions{Ack: slog.LevelError, AckLevel: settle.Appended}).Handle(ctx, rec); !errors.Is(err, context.Canceled) {
			t.Errorf("Handle = %v", err)
		}
		r.close()
		if err := NewHandler(r.Writer, HandlerOptions{}).Handle(context.Background(), rec); !errors.Is(err, ErrClosed) {
			t.Errorf("Handle after Close = %v", err)
		}
	})
}
