package journal

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// handlerRig is a handler of a new file.
type handlerRig struct {
	*Handler
	t    *testing.T
	w    *Writer
	path string
}

func newHandlerRig(t *testing.T, o HandlerOptions) *handlerRig {
	t.Helper()
	r := &handlerRig{t: t, path: filepath.Join(t.TempDir(), "log.journal")}
	w, err := Create(r.path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	r.w, r.Handler = w, NewHandler(w, o)
	return r
}

// stored closes the file and returns the fields of its entries, in their order.
func (r *handlerRig) stored() (all [][]string) {
	r.t.Helper()
	if err := r.w.Close(); err != nil {
		r.t.Fatal(err)
	}
	j, err := Open([]string{r.path})
	if err != nil {
		r.t.Fatal(err)
	}
	defer j.Close()
	for e, err := range j.All() {
		if err != nil {
			r.t.Fatal(err)
		}
		var fields []string
		for _, f := range e.Fields {
			if !strings.HasPrefix(string(f), "_BOOT_ID=") {
				fields = append(fields, string(f))
			}
		}
		all = append(all, fields)
	}
	return all
}

func TestHandler(t *testing.T) {
	r := newHandlerRig(t, HandlerOptions{Timestamp: true})
	err := slogtest.TestHandler(r, func() []map[string]any {
		var all []map[string]any
		for _, fields := range r.stored() {
			all = append(all, slogMap(fields))
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

// slogMap is what slogtest has logged: its keys are letters, and single capitals are
// its groups.
func slogMap(fields []string) map[string]any {
	top := map[string]any{}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "MESSAGE":
			top[slog.MessageKey] = value
			continue
		case "PRIORITY":
			top[slog.LevelKey] = value
			continue
		case "TIMESTAMP":
			top[slog.TimeKey] = value
			continue
		}
		m, keys := top, strings.Split(name, "_")
		for _, key := range keys[:len(keys)-1] {
			if m[key] == nil {
				m[key] = map[string]any{}
			}
			m = m[key].(map[string]any)
		}
		key := keys[len(keys)-1]
		if len(key) == 1 { // attributes of slogtest have lower case
			key = strings.ToLower(key)
		}
		m[key] = value
	}
	return top
}

type badText struct{}

func (badText) MarshalText() ([]byte, error) { return nil, errors.New("no text") }

type panics struct{ x *int }

func (p *panics) Error() string { return string(rune(*p.x)) }

// Each kind of value, and each rule for names.
func TestHandlerFields(t *testing.T) {
	r := newHandlerRig(t, HandlerOptions{Fields: []entry.Field{entry.Field("SYSLOG_IDENTIFIER=shop")}})
	when := time.Date(2026, 11, 30, 10, 15, 0, 5e8, time.FixedZone("", 3600))
	l := slog.New(r).With("service", "web").WithGroup("http req").With(slog.Int("n", 1))
	l.Warn("the message",
		"text", "a\nb", "int", -1, "uint", uint64(1<<63), "bool", true, "float", 1.5, "took", 1500*time.Millisecond, "at", when,
		"err", errors.New("it failed"), "bytes", []byte{0, 1}, "list", []string{"a", "b"}, "nil", nil, "addr", netip.MustParseAddr("::1"),
		"bad", badText{}, "struct", struct {
			A int
			B []int
			C any
		}{1, []int{300, 2}, map[string]bool{"level": true}}, "chan", (chan int)(nil), "panic", (*panics)(nil), slog.Group("empty"), slog.Group("", "inline", 1))
	slog.New(r).LogAttrs(context.Background(), slog.LevelError+4, "names",
		slog.String("message", "forged"), slog.String("PRIORITY", "0"), slog.String("_uid", "0"), slog.String("", "nothing"), slog.String("9lives", "cat"),
		slog.String("grün", "x"), slog.String(strings.Repeat("n", 70), "long"))
	want := [][]string{
		{
			"SYSLOG_IDENTIFIER=shop", "SERVICE=web", "HTTP_REQ_N=1", "PRIORITY=4", "MESSAGE=the message", "HTTP_REQ_TEXT=a\nb", "HTTP_REQ_INT=-1",
			"HTTP_REQ_UINT=9223372036854775808", "HTTP_REQ_BOOL=true", "HTTP_REQ_FLOAT=1.5", "HTTP_REQ_TOOK=1.5s", "HTTP_REQ_AT=2026-11-30T10:15:00.5+01:00",
			"HTTP_REQ_ERR=it failed", "HTTP_REQ_BYTES=\x00\x01", "HTTP_REQ_LIST=a", "HTTP_REQ_LIST=b", "HTTP_REQ_ADDR=::1", "HTTP_REQ_BAD=!ERROR: no text",
			"HTTP_REQ_STRUCT_A=1", "HTTP_REQ_STRUCT_B=300", "HTTP_REQ_STRUCT_B=2", "HTTP_REQ_STRUCT_C_LEVEL=true", "HTTP_REQ_CHAN=<nil>",
			"HTTP_REQ_PANIC=!PANIC: runtime error: invalid memory address or nil pointer dereference", "HTTP_REQ_INLINE=1",
		},
		{
			"SYSLOG_IDENTIFIER=shop", "PRIORITY=2", "MESSAGE=names", "FIELD_MESSAGE=forged", "FIELD_PRIORITY=0", "UID=0", "FIELD=nothing", "FIELD_9LIVES=cat",
			"GR__N=x", strings.Repeat("N", 64) + "=long",
		},
	}
	got := r.stored()
	for _, fields := range slices.Concat(got, want) {
		slices.Sort(fields) // a file has them in the order in which it learned them
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if c := r.Counts(); c != (entry.JSONCounts{Underscores: 1, Cut: 1, Null: 1}) {
		t.Errorf("%+v", c)
	}
}

func TestHandlerLevels(t *testing.T) {
	for level, want := range map[slog.Level]byte{-100: 7, slog.LevelDebug: 7, -1: 7, slog.LevelInfo: 6, 1: 6, 2: 5, slog.LevelWarn: 4, 7: 4, slog.LevelError: 3, 12: 2, 16: 1, 20: 0, 100: 0} {
		if got := priority(level); got != want {
			t.Errorf("%v: %d, want %d", level, got, want)
		}
	}
	h := NewHandler(nil, HandlerOptions{Level: slog.LevelWarn})
	if h.Enabled(context.Background(), slog.LevelInfo) || !h.Enabled(context.Background(), slog.LevelWarn) {
		t.Error("the level does not count")
	}
}

func TestHandlerSource(t *testing.T) {
	r := newHandlerRig(t, HandlerOptions{AddSource: true})
	slog.New(r).Info("here")
	rec := slog.NewRecord(time.Time{}, slog.LevelInfo, "from nowhere", 0)
	if err := r.Handle(context.Background(), rec); err != nil {
		t.Error(err)
	}
	got := r.stored()
	has := func(part string) bool {
		return slices.ContainsFunc(got[0], func(f string) bool { return strings.Contains(f, part) })
	}
	if !has("CODE_FUNC=") || !has(".TestHandlerSource") || !has("slog_test.go") || !has("CODE_LINE=") {
		t.Errorf("%q", got[0])
	}
	if len(got[1]) != 2 {
		t.Errorf("%q", got[1])
	}
}

// Handle waits for the level that was asked for; what cannot be appended is told.
func TestHandlerAckAndFail(t *testing.T) {
	var failed error
	r := newHandlerRig(t, HandlerOptions{Ack: slog.LevelError, AckLevel: settle.Synced, Fail: func(err error) { failed = err }})
	l := slog.New(r)
	l.Warn("goes on")
	before := r.w.Stats().Unsynced
	l.Error("waits")
	if after := r.w.Stats().Unsynced; before != 1 || after != 0 {
		t.Errorf("%d not synced after a record that does not wait, %d after one that does", before, after)
	}
	r.stored()
	l.Info("too late")
	if !errors.Is(failed, ErrClosed) {
		t.Errorf("after Close Fail is told %v", failed)
	}
}
