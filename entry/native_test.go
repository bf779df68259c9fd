package entry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

// showFields prints the fields of each entry, with a '!' in front of urgent
// ones.
func showFields(entries []entry.Entry) []string {
	var out []string
	for _, e := range entries {
		var words []string
		if e.Urgent {
			words = append(words, "!")
		}
		for _, f := range e.Fields {
			words = append(words, fmt.Sprintf("%q", []byte(f)))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func TestNativeDecoder(t *testing.T) {
	many := func(n int) string { return strings.Repeat("F=x\n", n) }
	tests := []struct {
		name   string
		in     string
		want   []string
		counts entry.NativeCounts
	}{
		{"empty datagram", "", nil, entry.NativeCounts{}},
		{"one entry", "MESSAGE=a\nB=c=d\nE=\n", []string{`"MESSAGE=a" "B=c=d" "E="`}, entry.NativeCounts{}},
		{"two entries", "MESSAGE=a\n\nMESSAGE=b\n", []string{`"MESSAGE=a"`, `"MESSAGE=b"`}, entry.NativeCounts{}},
		{"blank lines hide nothing", "\nMESSAGE=a\n\n\nMESSAGE=b\n\n", []string{`"MESSAGE=a"`, `"MESSAGE=b"`}, entry.NativeCounts{}},
		{"last line without newline", "MESSAGE=a\nB=c", []string{`"MESSAGE=a"`}, entry.NativeCounts{Noise: 1}},
		{"only noise", "noise", nil, entry.NativeCounts{Noise: 1}},
		{"comments and commands", ".x\n#y=\nMESSAGE=a\n#\n", []string{`"MESSAGE=a"`}, entry.NativeCounts{}},
		{"bad names", "_PID=1\nbad=1\n1=1\n=\nMESSAGE=a\n" + bin("_X", "\n\nA=1\n") + bin("x", "\nA=2"), []string{`"MESSAGE=a"`}, entry.NativeCounts{BadNames: 6}},
		{"longest name", strings.Repeat("N", 64) + "=1\n" + strings.Repeat("N", 65) + "=1\n", []string{`"` + strings.Repeat("N", 64) + `=1"`}, entry.NativeCounts{BadNames: 1}},
		{"entry without valid fields", "MESSAGE=a\n\n_X=1\n\nMESSAGE=b\n", []string{`"MESSAGE=a"`, `"MESSAGE=b"`}, entry.NativeCounts{BadNames: 1, Empty: 1}},
		{"binary", bin("MESSAGE", "x\n\ny=") + bin("E", "") + "A=1\n", []string{`"MESSAGE=x\n\ny=" "E=" "A=1"`}, entry.NativeCounts{}},
		{"binary without newline", "A=1\nX\n\x03\x00\x00\x00\x00\x00\x00\x00zzzz\n\nB=1\n", []string{`"A=1"`}, entry.NativeCounts{Malformed: 1}},
		{"binary cut", "A=1\nX\n\x03\x00\x00\x00\x00\x00\x00\x00zzz", []string{`"A=1"`}, entry.NativeCounts{Malformed: 1}},
		{"binary length cut", "A=1\nX\n\x00\x00\x00\x00\x00\x00\x00\x00", []string{`"A=1"`}, entry.NativeCounts{Malformed: 1}},
		{"binary too large", "A=1\n\nB=1\nX\n\xff\xff\xff\xff\xff\xff\xff\xffz\n\nC=1\n", []string{`"A=1"`}, entry.NativeCounts{TooLarge: 1}},
		{"urgent", "PRIORITY=2\n\nPRIORITY=3\n\nPRIORITY=1\nPRIORITY=6\n\nPRIORITY=07\n\n" + bin("PRIORITY", "0"), []string{`! "PRIORITY=2"`, `"PRIORITY=3"`, `"PRIORITY=1" "PRIORITY=6"`, `"PRIORITY=07"`, `! "PRIORITY=0"`}, entry.NativeCounts{}},
		{"one field more than 1024", many(1025) + "\nA=1\n", []string{strings.TrimSuffix(strings.Repeat(`"F=x" `, 1025), " "), `"A=1"`}, entry.NativeCounts{}},
		{"two fields more", "B=1\n\n" + many(1026) + "\nA=1\n", []string{`"B=1"`, `"A=1"`}, entry.NativeCounts{TooMany: 1}},
	}
	var d entry.NativeDecoder
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d.Counts = entry.NativeCounts{}
			if diff := cmp.Diff(tt.want, showFields(d.Decode([]byte(tt.in)))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.counts, d.Counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNativeDecoderLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name   string
		in     string
		want   []string
		counts entry.NativeCounts
	}{
		{"at the limits", "A=" + x(8) + "\n" + bin("B", x(7)), []string{`"A=` + x(8) + `" "B=` + x(7) + `"`}, entry.NativeCounts{}},
		{"text field over", "B=1\n\nA=" + x(9) + "\n", []string{`"B=1"`}, entry.NativeCounts{TooLarge: 1}},
		{"binary value over", "B=1\n\n" + bin("A", x(11)), []string{`"B=1"`}, entry.NativeCounts{TooLarge: 1}},
		{"entry over", "B=1\n\nA=" + x(8) + "\nA=" + x(8) + "\n", []string{`"B=1"`}, entry.NativeCounts{TooLarge: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := entry.NativeDecoder{Limits: entry.Limits{Field: 10, Entry: 21}}
			if diff := cmp.Diff(tt.want, showFields(d.Decode([]byte(tt.in)))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.counts, d.Counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// Spare slots take more fields without touching the next entry.
func TestNativeDecoderSpare(t *testing.T) {
	d := entry.NativeDecoder{Spare: 2}
	got := d.Decode([]byte("A=1\n\nB=1\n\nC=1\nD=1\n"))
	for i := range got {
		got[i].Fields = append(got[i].Fields, entry.Field("_TRANSPORT=journal"), entry.Field("_PID=1"))
	}
	want := []string{
		`"A=1" "_TRANSPORT=journal" "_PID=1"`,
		`"B=1" "_TRANSPORT=journal" "_PID=1"`,
		`"C=1" "D=1" "_TRANSPORT=journal" "_PID=1"`,
	}
	if diff := cmp.Diff(want, showFields(got)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestNativeDecoderAllocatesNothing(t *testing.T) {
	d := entry.NativeDecoder{Spare: 16}
	datagram := []byte("MESSAGE=hello\nPRIORITY=6\n" + bin("X", "a\nb") + bin("Y", strings.Repeat("\n", 9000)) + "\nMESSAGE=b\n")
	d.Decode(datagram)
	d.Decode(datagram)
	if n := testing.AllocsPerRun(100, func() { d.Decode(datagram) }); n != 0 {
		t.Errorf("%v allocations per datagram, want 0", n)
	}
}

func TestAppendNative(t *testing.T) {
	fields := []entry.Field{[]byte("MESSAGE=a b"), []byte("X=1\n2"), []byte("none"), []byte("E="), []byte("Z=\x00\xff=")}
	want := "MESSAGE=a b\n" + bin("X", "1\n2") + "E=\nZ=\x00\xff=\n"
	if diff := cmp.Diff(want, string(entry.AppendNative(nil, fields))); diff != "" {
		t.Errorf("datagram (-want +got):\n%s", diff)
	}
}

// A datagram that is read a few entries at a time gives the same entries.
func TestNativeDecoderSome(t *testing.T) {
	datagram := []byte(strings.Repeat("A=1\nB=2\n\nX\n\x02\x00\x00\x00\x00\x00\x00\x00a\nb\n\nlower=1\n\n", 10) + "C=3\n")
	text := func(entries []entry.Entry) (all []string) {
		for _, e := range entries {
			for _, f := range e.Fields {
				all = append(all, string(f))
			}
			all = append(all, "")
		}
		return all
	}
	var whole, some entry.NativeDecoder
	want := text(whole.Decode(datagram))
	for most := 1; most < 25; most++ {
		some.Counts = entry.NativeCounts{}
		var got []string
		for rest := datagram; len(rest) > 0; {
			var entries []entry.Entry
			entries, rest = some.DecodeSome(rest, most)
			if len(entries) > most {
				t.Fatalf("%d entries, want %d at most", len(entries), most)
			}
			got = append(got, text(entries)...)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d at a time (-want +got):\n%s", most, d)
		}
		if some.Counts != whole.Counts {
			t.Errorf("%d at a time: counts %+v, want %+v", most, some.Counts, whole.Counts)
		}
	}
}
