package entry_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

const (
	boot1 = "710d035a90fb403c855864972948eda1"
	head1 = "__REALTIME_TIMESTAMP=1700000000000000\n__MONOTONIC_TIMESTAMP=7\n_BOOT_ID=" + boot1 + "\n"
)

// bin is a field in its binary form.
func bin(name, value string) string {
	return name + "\n" + string(binary.LittleEndian.AppendUint64(nil, uint64(len(value)))) + value + "\n"
}

// readAll returns a copy of all entries.
func readAll(r *entry.ExportReader) ([]entry.Entry, error) {
	var all []entry.Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, clone(e))
	}
}

func clone(e *entry.Entry) entry.Entry {
	c := *e
	c.Fields = nil
	for _, f := range e.Fields {
		c.Fields = append(c.Fields, bytes.Clone(f))
	}
	return c
}

// show prints entries for comparison: times and boot, then the fields.
func show(entries []entry.Entry) []string {
	var out []string
	for _, e := range entries {
		s := fmt.Sprintf("%d %d %s", e.Realtime, e.Monotonic, e.BootID.String()[:4])
		for _, f := range e.Fields {
			s += fmt.Sprintf(" %q", []byte(f))
		}
		out = append(out, strings.ReplaceAll(s, boot1, "B"))
	}
	return out
}

const exportFirst = `1700000000000000 7 710d "_BOOT_ID=B" "MESSAGE=a"`

var exportReads = []struct {
	name   string
	in     string
	want   []string
	counts entry.ExportCounts
	err    error
	offset int64
}{
	{"empty stream", "", nil, entry.ExportCounts{}, nil, 0},
	{"one entry", head1 + "MESSAGE=a\n\n", []string{exportFirst}, entry.ExportCounts{Entries: 1}, nil, 0},
	{
		"times and boot persist, the _BOOT_ID field does not",
		head1 + "MESSAGE=a\n\n__CURSOR=x\nMESSAGE=b\n\n",
		[]string{exportFirst, `1700000000000000 7 710d "MESSAGE=b"`},
		entry.ExportCounts{Entries: 2},
		nil, 0,
	},
	{
		"binary field", head1 + bin("MESSAGE", "x\ny=\x00") + "E=\n\n",
		[]string{`1700000000000000 7 710d "_BOOT_ID=B" "MESSAGE=x\ny=\x00" "E="`},
		entry.ExportCounts{Entries: 1},
		nil, 0,
	},
	{
		"a binary time is a field", head1 + bin("__REALTIME_TIMESTAMP", "123") + "\n",
		[]string{`1700000000000000 7 710d "_BOOT_ID=B" "__REALTIME_TIMESTAMP=123"`},
		entry.ExportCounts{Entries: 1},
		nil, 0,
	},
	{
		"binary of length 0 is dropped", head1 + bin("A", "") + "MESSAGE=a\n\n",
		[]string{exportFirst},
		entry.ExportCounts{Entries: 1, ZeroBinary: 1},
		nil, 0,
	},
	{
		"bad names; data of a bad binary name is read as lines",
		head1 + "bad=1\n=x\n_é=1\n1A=x\nMESSAGE=a\nbad\nB=1\nnoise\n\n",
		[]string{exportFirst[:len(exportFirst)-1] + `" "B=1"`},
		entry.ExportCounts{Entries: 1, BadNames: 6},
		nil, 0,
	},
	{"64 bytes of name", head1 + strings.Repeat("N", 65) + "=x\n" + "MESSAGE=a\n\n", []string{exportFirst}, entry.ExportCounts{Entries: 1, BadNames: 1}, nil, 0},
	{"unknown dunder", head1 + "__SEQNUM=3\nMESSAGE=a\n\n", []string{exportFirst}, entry.ExportCounts{Entries: 1, Unknown: 1}, nil, 0},
	{"empty entries", "\n\n" + head1 + "MESSAGE=a\n\n\n__CURSOR=x\n\n", []string{exportFirst}, entry.ExportCounts{Entries: 1, Empty: 1}, nil, 0},
	{"no time", "MESSAGE=z\n\n" + head1 + "MESSAGE=a\n\n", []string{exportFirst}, entry.ExportCounts{Entries: 1, Untimed: 1}, nil, 0},
	{
		"no boot", "__REALTIME_TIMESTAMP=5\nMESSAGE=a\n\n",
		[]string{`5 0 0000 "MESSAGE=a"`},
		entry.ExportCounts{Entries: 1},
		nil, 0,
	},
	{
		"numbers as C has them", "__REALTIME_TIMESTAMP= 0x10\n__MONOTONIC_TIMESTAMP=+017\nMESSAGE=a\n\n__MONOTONIC_TIMESTAMP=0\nMESSAGE=b\n\n",
		[]string{`16 15 0000 "MESSAGE=a"`, `16 0 0000 "MESSAGE=b"`},
		entry.ExportCounts{Entries: 2},
		nil, 0,
	},
	{
		"boot id with dashes", "__REALTIME_TIMESTAMP=5\n_BOOT_ID=710d035a-90fb-403c-8558-64972948eda1\n\n",
		[]string{`5 0 710d "_BOOT_ID=710d035a-90fb-403c-8558-64972948eda1"`},
		entry.ExportCounts{Entries: 1},
		nil, 0,
	},
	{"time 0", head1 + "MESSAGE=a\n\n__REALTIME_TIMESTAMP=0\n\n", []string{exportFirst}, entry.ExportCounts{Entries: 1}, entry.ErrExportTime, int64(len(head1)) + 11},
	{"time too large", "__MONOTONIC_TIMESTAMP=36028797018963968\n\n", nil, entry.ExportCounts{}, entry.ErrExportTime, 0},
	{"bad time", "__REALTIME_TIMESTAMP=1_0\n\n", nil, entry.ExportCounts{}, entry.ErrExportTime, 0},
	{"negative time", "__REALTIME_TIMESTAMP=-1\n\n", nil, entry.ExportCounts{}, entry.ErrExportTime, 0},
	{"bad boot id", "A=1\n_BOOT_ID=zz\n\n", nil, entry.ExportCounts{}, entry.ErrExportBootID, 4},
	{"binary without newline", "A\n\x01\x00\x00\x00\x00\x00\x00\x00xx\n", nil, entry.ExportCounts{}, entry.ErrExportBinary, 0},
	{"binary too large", "A\n\x01\x00\x00\x30\x00\x00\x00\x00x", nil, entry.ExportCounts{}, entry.ErrExportField, 0},
	{"binary huge", "A\n\xff\xff\xff\xff\xff\xff\xff\xffx", nil, entry.ExportCounts{}, entry.ErrExportField, 0},
	{"ends in an entry", head1 + "MESSAGE=a\n\nMESSAGE=b\n", []string{exportFirst}, entry.ExportCounts{Entries: 1}, io.ErrUnexpectedEOF, int64(len(head1)) + 11},
	{"ends in a line", "\nMESS", nil, entry.ExportCounts{}, io.ErrUnexpectedEOF, 1},
}

func TestExportReader(t *testing.T) {
	for _, tt := range exportReads {
		for _, way := range []struct {
			name string
			wrap func(io.Reader) io.Reader
			size int
		}{
			{"whole", func(r io.Reader) io.Reader { return r }, 0},
			{"one byte", iotest.OneByteReader, 0},
			{"small buffer", iotest.HalfReader, 16},
			{"data with EOF", iotest.DataErrReader, 64},
		} {
			t.Run(tt.name+"/"+way.name, func(t *testing.T) {
				r := entry.NewExportReader(way.wrap(strings.NewReader(tt.in)), entry.ExportOptions{Buffer: way.size})
				got, err := readAll(r)
				if diff := cmp.Diff(tt.want, show(got)); diff != "" {
					t.Errorf("entries (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.counts, r.Counts()); diff != "" {
					t.Errorf("counts (-want +got):\n%s", diff)
				}
				if !errors.Is(err, tt.err) {
					t.Fatalf("error %v, want %v", err, tt.err)
				}
				var ee *entry.ExportError
				if err != nil && (!errors.As(err, &ee) || ee.Offset != tt.offset) {
					t.Errorf("error %v, want an ExportError at offset %d", err, tt.offset)
				}
				if _, again := r.Next(); tt.err != nil && !errors.Is(again, tt.err) {
					t.Errorf("second error %v, want %v again", again, tt.err)
				}
			})
		}
	}
}

func TestExportReaderLimits(t *testing.T) {
	const time = "__REALTIME_TIMESTAMP=5\n\n" // 22 bytes
	x := func(n int) string { return strings.Repeat("x", n) }
	limits := entry.Limits{Field: 24, Entry: 60, Fields: 3}
	tests := []struct {
		name string
		in   string
		want []string
		err  error
	}{
		{"fields over the limit are dropped", "A=1\nB=1\nC=1\nD=1\n" + bin("E", "1") + "\n", []string{`5 0 0000 "A=1" "B=1" "C=1"`}, nil},
		{"field at the limit", "A=" + x(22) + "\n\n", []string{`5 0 0000 "A=` + x(22) + `"`}, nil},
		{"field over the limit", "A=" + x(23) + "\n\n", nil, entry.ErrExportField},
		{"binary at the limit", bin("A", x(24)) + "\n", []string{`5 0 0000 "A=` + x(24) + `"`}, nil},
		{"binary over the limit", bin("A", x(25)) + "\n", nil, entry.ErrExportField},
		{"skipped line over the limit", "a=" + x(23) + "\n\n", nil, entry.ErrExportField},
		{"endless line", x(1000), nil, entry.ErrExportField},
		{"entry at the limit", "A=" + x(20) + "\nB=" + x(20) + "\nC=" + x(10) + "\n\n", []string{`5 0 0000 "A=` + x(20) + `" "B=` + x(20) + `" "C=` + x(10) + `"`}, nil},
		{"entry over the limit", "A=" + x(20) + "\nB=" + x(20) + "\nC=" + x(11) + "\n\n", nil, entry.ErrExportEntry},
		{"endless entry", strings.Repeat("A=1\n", 100), nil, entry.ErrExportEntry},
	}
	for _, tt := range tests {
		for _, size := range []int{16, 64} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, size), func(t *testing.T) {
				r := entry.NewExportReader(strings.NewReader(time+tt.in), entry.ExportOptions{Limits: limits, Buffer: size})
				got, err := readAll(r)
				if diff := cmp.Diff(tt.want, show(got)); diff != "" {
					t.Errorf("entries (-want +got):\n%s", diff)
				}
				if !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
			})
		}
	}
}

// A declared length costs no memory before the bytes have come.
func TestExportReaderAllocatesBehindTheData(t *testing.T) {
	in := head1 + "A\n\x00\x00\x00\x2f\x00\x00\x00\x00" + strings.Repeat("x", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readAll(entry.NewExportReader(strings.NewReader(in), entry.ExportOptions{}))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("error %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("allocated %d bytes for 1 MiB of data", got)
	}
}

func TestExportReaderReadError(t *testing.T) {
	want := errors.New("cable pulled")
	r := entry.NewExportReader(io.MultiReader(strings.NewReader(head1+"MESSAGE=a\n\nMESSAGE=b\n"), iotest.ErrReader(want)), entry.ExportOptions{})
	got, err := readAll(r)
	var ee *entry.ExportError
	if len(got) != 1 || !errors.Is(err, want) || !errors.As(err, &ee) {
		t.Errorf("%d entries, error %v; want 1 and an ExportError of %v", len(got), err, want)
	}
}

// Two batches in turn: the entries of one stay valid while the other is filled.
func TestNextBatchTwo(t *testing.T) {
	var in []byte
	var want []string
	for i := range 500 {
		e := entry.Entry{Realtime: uint64(i + 1), Fields: []entry.Field{
			fmt.Appendf(nil, "MESSAGE=number %d", i), fmt.Appendf(nil, "B=%d\n", i),
			[]byte("_BOOT_ID=" + strings.Repeat("0", 32)),
		}}
		in = entry.AppendExport(in, &e)
		want = append(want, fmt.Sprintf(`%d 0 0000 "_BOOT_ID=%032d" "MESSAGE=number %d" "B=%d\n"`, i+1, 0, i, i))
	}
	r := entry.NewExportReader(bytes.NewReader(in), entry.ExportOptions{Buffer: 4096})
	var batches [2]entry.ExportBatch
	var got []string
	last := -1
	for i := 0; ; i++ {
		err := r.NextBatch(&batches[i%2])
		if last >= 0 {
			got = append(got, show(batches[last].Entries)...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = i % 2
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestExportReaderSteadyStateAllocatesNothing(t *testing.T) {
	e := entry.Entry{Realtime: 1, Fields: []entry.Field{[]byte("MESSAGE=hello"), []byte("B=a\nb"), []byte("PRIORITY=6")}}
	one := entry.AppendExport(nil, &e)
	r := entry.NewExportReader(&endless{data: one}, entry.ExportOptions{Buffer: 4096})
	next := func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("%v allocations per entry, want 0", n)
	}
}

// endless repeats data for ever.
type endless struct {
	data []byte
	at   int
}

func (r *endless) Read(p []byte) (int, error) {
	n := copy(p, r.data[r.at:])
	r.at = (r.at + n) % len(r.data)
	return n, nil
}

func TestAppendExport(t *testing.T) {
	id := func(s string) entry.ID {
		v, err := entry.ParseID(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	e := entry.Entry{
		Realtime: 1796032311504106, Monotonic: 657493032, BootID: id(boot1), Seqnum: 3,
		SeqnumID: id("f8335c9dc2c74a6e8081fb88dcbbd7ff"), XorHash: 0xd0ef89f6b83c2c02,
		Fields: []entry.Field{
			[]byte("_UID=0"), []byte("_BOOT_ID=" + boot1), []byte("MESSAGE=multi\nline"), []byte("BIN=\x00\x01\xff"),
			[]byte("novalue"), []byte("E="), []byte("TAB=a\tb=c"), []byte("DEL=\x7f"), []byte("NON=\ufffe"),
		},
	}
	want := "__CURSOR=s=f8335c9dc2c74a6e8081fb88dcbbd7ff;i=3;b=710d035a90fb403c855864972948eda1;m=27308c28;t=6617b5beeacea;x=d0ef89f6b83c2c02\n" +
		"__REALTIME_TIMESTAMP=1796032311504106\n__MONOTONIC_TIMESTAMP=657493032\n_BOOT_ID=" + boot1 + "\n_UID=0\n" +
		"MESSAGE\n\x0a\x00\x00\x00\x00\x00\x00\x00multi\nline\nBIN\n\x03\x00\x00\x00\x00\x00\x00\x00\x00\x01\xff\n" +
		"E=\nTAB=a\tb=c\nDEL\n\x01\x00\x00\x00\x00\x00\x00\x00\x7f\nNON\n\x03\x00\x00\x00\x00\x00\x00\x00\ufffe\n\n"
	if diff := cmp.Diff(want, string(entry.AppendExport(nil, &e))); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
}
