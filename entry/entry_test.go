package entry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

func TestValidName(t *testing.T) {
	tests := []struct {
		name                string
		client, underscored bool
	}{
		{"MESSAGE", true, true},
		{"A", true, true},
		{"A1_", true, true},
		{"_PID", false, true},
		{"__X", false, true},
		{"_", false, true},
		{"", false, false},
		{"1A", false, false},
		{"a", false, false},
		{"A-B", false, false},
		{"A=", false, false},
		{"Ä", false, false},
		{strings.Repeat("N", 64), true, true},
		{strings.Repeat("N", 65), false, false},
		{strings.Repeat("N", 66), false, false},
	}
	for _, tt := range tests {
		if got := entry.ValidName([]byte(tt.name), false); got != tt.client {
			t.Errorf("ValidName(%q, false) = %v, want %v", tt.name, got, tt.client)
		}
		if got := entry.ValidName([]byte(tt.name), true); got != tt.underscored {
			t.Errorf("ValidName(%q, true) = %v, want %v", tt.name, got, tt.underscored)
		}
	}
}

func TestPrintable(t *testing.T) {
	tests := []struct {
		text          string
		line, several bool
	}{
		{"", true, true},
		{"plain ASCII ~", true, true},
		{"tab\there", true, true},
		{"a\nb", false, true},
		{"eight by\nte", false, true},
		{"\r", false, false},
		{"\x00", false, false},
		{"\x1b[31m", false, false},
		{"del\x7f", false, false},
		{"12345678\x7f", false, false},
		{"\u0080", false, false},
		{"\u009f", false, false},
		{"\u00a0", true, true},
		{"é 😀 \ufffd", true, true},
		{"1234567é", true, true}, // across a word
		{"\ufdcf\ufdf0", true, true},
		{"\ufdd0", false, false},
		{"\ufdef", false, false},
		{"\ufffe", false, false},
		{"\uffff", false, false},
		{"\U0001fffe", false, false},
		{"\U0010fffd", true, true},
		{"\U0010ffff", false, false},
		{"\xed\xa0\x80", false, false},     // surrogate
		{"\xc0\x80", false, false},         // overlong
		{"\xf4\x90\x80\x80", false, false}, // beyond Unicode
		{"\xff", false, false},
		{"\xc3", false, false}, // cut
		{"aaaaaaaa\xc3", false, false},
	}
	for _, tt := range tests {
		if got := entry.Printable([]byte(tt.text), false); got != tt.line {
			t.Errorf("Printable(%q, false) = %v, want %v", tt.text, got, tt.line)
		}
		if got := entry.Printable([]byte(tt.text), true); got != tt.several {
			t.Errorf("Printable(%q, true) = %v, want %v", tt.text, got, tt.several)
		}
	}
	// Every byte at every place of a word is seen.
	for c := range 256 {
		for at := range 9 {
			text := []byte("aaaaaaaaa")
			text[at] = byte(c)
			want := c == '\t' || c >= ' ' && c < 0x7f
			if got := entry.Printable(text, false); got != want {
				t.Errorf("Printable(%q, false) = %v, want %v", text, got, want)
			}
		}
	}
}

const cursorText = "s=f8335c9dc2c74a6e8081fb88dcbbd7ff;i=3;b=710d035a90fb403c855864972948eda1;m=27308c28;t=6617b5beeacea;x=ef89f6b83c2c02"

func TestCursor(t *testing.T) {
	c, err := entry.ParseCursor(cursorText)
	if err != nil {
		t.Fatal(err)
	}
	e := entry.Entry{
		SeqnumID: c.SeqnumID, Seqnum: 3, BootID: c.BootID, Monotonic: 0x27308c28,
		Realtime: 0x6617b5beeacea, XorHash: 0xef89f6b83c2c02,
	}
	if diff := cmp.Diff(cursorText, e.Cursor().String()); diff != "" {
		t.Errorf("cursor of the entry (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c, e.Cursor()); diff != "" {
		t.Errorf("parsed cursor (-want +got):\n%s", diff)
	}
	if !c.Match(&e) {
		t.Error("the cursor does not match its own entry")
	}
	for _, change := range []func(*entry.Entry){
		func(e *entry.Entry) { e.Seqnum++ },
		func(e *entry.Entry) { e.SeqnumID[3]++ },
		func(e *entry.Entry) { e.BootID[3]++ },
		func(e *entry.Entry) { e.Monotonic++ },
		func(e *entry.Entry) { e.Realtime++ },
		func(e *entry.Entry) { e.XorHash++ },
	} {
		other := e
		change(&other)
		if c.Match(&other) {
			t.Errorf("the cursor matches %s", other.Cursor())
		}
	}
}

func TestParseCursor(t *testing.T) {
	tests := []struct {
		in   string
		want string // what it prints as; empty: an error
	}{
		{"t=5", "t=5"},
		{"t=0x5", "t=5"},
		{"t=5g", "t=5"},
		{"t=FFFFFFFFFFFFFFFFF", "t=ffffffffffffffff"},
		{"i=1;s=f8335c9dc2c74a6e8081fb88dcbbd7ff", "s=f8335c9dc2c74a6e8081fb88dcbbd7ff;i=1"},
		{"b=f8335c9dc2c74a6e8081fb88dcbbd7ff;m=a;z=unknown", "b=f8335c9dc2c74a6e8081fb88dcbbd7ff;m=a"},
		{"", ""},
		{"i=1", ""},
		{"x=1;i=2;m=3", ""},
		{"t=", ""},
		{"t=x", ""},
		{"t", ""},
		{"tt=5", ""},
		{"t=5;", ""},
		{"s=zz;i=1", ""},
		{"nonsense", ""},
	}
	for _, tt := range tests {
		c, err := entry.ParseCursor(tt.in)
		switch {
		case tt.want == "":
			if !errors.Is(err, entry.ErrCursor) {
				t.Errorf("ParseCursor(%q): error %v, want %v", tt.in, err, entry.ErrCursor)
			}
		case err != nil || c.String() != tt.want:
			t.Errorf("ParseCursor(%q) = %s, %v; want %s", tt.in, c, err, tt.want)
		}
	}
}

func TestCursorMatchComparesWhatIsPresent(t *testing.T) {
	c, err := entry.ParseCursor("t=5")
	if err != nil {
		t.Fatal(err)
	}
	if !c.Match(&entry.Entry{Realtime: 5, Seqnum: 9}) || c.Match(&entry.Entry{Realtime: 6, Seqnum: 9}) {
		t.Error("a cursor of a time does not compare the time alone")
	}
}
