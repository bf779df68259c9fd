package entry_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

const jsonHead = `{"__CURSOR":"s=04050600000000000000000000000000;i=9;b=01020300000000000000000000000000;m=7;t=5;x=a",` +
	`"__REALTIME_TIMESTAMP":"5","__MONOTONIC_TIMESTAMP":"7","_BOOT_ID":"01020300000000000000000000000000"`

func jsonEntry(fields ...string) *entry.Entry {
	e := &entry.Entry{Realtime: 5, Monotonic: 7, Seqnum: 9, XorHash: 10, BootID: entry.ID{1, 2, 3}, SeqnumID: entry.ID{4, 5, 6}}
	for _, f := range fields {
		e.Fields = append(e.Fields, entry.Field(f))
	}
	return e
}

func TestAppendJSON(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name string
		e    *entry.Entry
		o    entry.JSONOptions
		want string // behind the head
	}{
		{"no fields", jsonEntry(), entry.JSONOptions{}, `}`},
		{"strings", jsonEntry("_UID=0", "E=", "_BOOT_ID=x", "A=b=c"), entry.JSONOptions{}, `,"_UID":"0","E":"","A":"b=c"}`},
		{"escapes", jsonEntry("M=q\" b\\ s/ t\t n\n \u00e9 \U0001f600 <&>", "N=\"", "O=12345678\""), entry.JSONOptions{}, `,"M":"q\" b\\ s/ t\t n\n é 😀 <&>","N":"\"","O":"12345678\""}`},
		{"every place of a word", jsonEntry("A=1234567\"", "B=\"12345678901", "C=12345678901\\", "D=12345678\x7f", "E=\n1234567890"), entry.JSONOptions{}, `,"A":"1234567\"","B":"\"12345678901","C":"12345678901\\","D":[49,50,51,52,53,54,55,56,127],"E":"\n1234567890"}`},
		{"similar names", jsonEntry("ABCDEFGHXIJKLMNOP=1", "ABCDEFGHYIJKLMNOP=2", "ABCDEFG=3", "BCDEFGH=4", "ABCDEFGHXIJKLMNOP=5"), entry.JSONOptions{}, `,"ABCDEFGHXIJKLMNOP":["1","5"],"ABCDEFGHYIJKLMNOP":"2","ABCDEFG":"3","BCDEFGH":"4"}`},
		{"unprintable", jsonEntry("B=\x00\x01\xff", "C=\x7f", "D=\u0085", "E=a\rb"), entry.JSONOptions{}, `,"B":[0,1,255],"C":[127],"D":[194,133],"E":[97,13,98]}`},
		{"repeated in the place of the first", jsonEntry("T=a", "M=x", "T=b", "T=\x01", "N=y"), entry.JSONOptions{}, `,"T":["a","b",[1]],"M":"x","N":"y"}`},
		{"large is null", jsonEntry("B="+x(4093), "C="+x(4094)), entry.JSONOptions{}, `,"B":"` + x(4093) + `","C":null}`},
		{"large in full", jsonEntry("C=" + x(4094)), entry.JSONOptions{All: true}, `,"C":"` + x(4094) + `"}`},
		{"invalid names are left out", jsonEntry("novalue", "=x", "a=b", "1=2", "A=1"), entry.JSONOptions{}, `,"A":"1"}`},
		{"output fields", jsonEntry("A=1", "B=2", "A=3", "_C=4"), entry.JSONOptions{OutputFields: map[string]bool{"A": true, "_C": true}}, `,"A":["1","3"],"_C":"4"}`},
		{"none of the output fields", jsonEntry("A=1"), entry.JSONOptions{OutputFields: map[string]bool{}}, `}`},
		{"other dunder field", jsonEntry("__X=1"), entry.JSONOptions{}, `,"__X":"1"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(entry.AppendJSON(nil, tt.e, tt.o))
			if diff := cmp.Diff(jsonHead+tt.want, got); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("encoding/json refuses %s", got)
			}
		})
	}
}

func TestAppendJSONStoredHeadName(t *testing.T) {
	e := jsonEntry("A=1", "__REALTIME_TIMESTAMP=123")
	want := strings.Replace(jsonHead, `TIMESTAMP":"5"`, `TIMESTAMP":["5","123"]`, 1) + `,"A":"1"}`
	if diff := cmp.Diff(want, string(entry.AppendJSON(nil, e, entry.JSONOptions{}))); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestAppendJSONPretty(t *testing.T) {
	e := jsonEntry("_UID=0", "TAG=a", "TAG=b", "B=\x01\x02", "TAG=\x03")
	want := "{\n\t\"__CURSOR\" : \"s=04050600000000000000000000000000;i=9;b=01020300000000000000000000000000;m=7;t=5;x=a\",\n" +
		"\t\"__REALTIME_TIMESTAMP\" : \"5\",\n\t\"__MONOTONIC_TIMESTAMP\" : \"7\",\n\t\"_BOOT_ID\" : \"01020300000000000000000000000000\",\n" +
		"\t\"_UID\" : \"0\",\n\t\"TAG\" : [\n\t\t\"a\",\n\t\t\"b\",\n\t\t[\n\t\t\t3\n\t\t]\n\t],\n\t\"B\" : [\n\t\t1,\n\t\t2\n\t]\n}"
	if diff := cmp.Diff(want, string(entry.AppendJSON(nil, e, entry.JSONOptions{Pretty: true}))); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestJSONDecoder(t *testing.T) {
	tests := []struct {
		name   string
		in     string
		want   string
		counts entry.JSONCounts
	}{
		{"message", `{"message":"hi"}`, `"MESSAGE=hi"`, entry.JSONCounts{}},
		{"msg", `{"a":1,"msg":"hi"}`, `"A=1" "MESSAGE=hi"`, entry.JSONCounts{}},
		{"both", `{"msg":"x","Message":"hi"}`, `"MSG=x" "MESSAGE=hi"`, entry.JSONCounts{}},
		{"neither: the raw line", " {\"a\":1}\r\n", `"A=1" "MESSAGE={\"a\":1}"`, entry.JSONCounts{}},
		{"null message: the raw line", `{"message":null}`, `"MESSAGE={\"message\":null}"`, entry.JSONCounts{Null: 1}},
		{"empty object", `{}`, `"MESSAGE={}"`, entry.JSONCounts{}},
		{"message of several lines", `{"message":["a","b"]}`, `"MESSAGE=a" "MESSAGE=b"`, entry.JSONCounts{}},
		{"level word", `{"message":"m","level":"Warning"}`, `"MESSAGE=m" "PRIORITY=4"`, entry.JSONCounts{}},
		{"level number", `{"message":"m","level":2}`, `! "MESSAGE=m" "PRIORITY=2"`, entry.JSONCounts{}},
		{"severity text number", `{"severity":"7","message":"m"}`, `"PRIORITY=7" "MESSAGE=m"`, entry.JSONCounts{}},
		{"level before severity", `{"severity":"err","message":"m","level":"info"}`, `"SEVERITY=err" "MESSAGE=m" "PRIORITY=6"`, entry.JSONCounts{}},
		{"unknown level keeps its name", `{"message":"m","level":30,"severity":"x"}`, `"MESSAGE=m" "LEVEL=30" "SEVERITY=x"`, entry.JSONCounts{}},
		{"unknown level, known severity", `{"message":"m","level":30,"severity":"crit"}`, `! "MESSAGE=m" "LEVEL=30" "PRIORITY=2"`, entry.JSONCounts{}},
		{"priority wins", `{"message":"m","level":"info","priority":"3"}`, `"MESSAGE=m" "LEVEL=info" "PRIORITY=3"`, entry.JSONCounts{}},
		{"nested level is none", `{"message":"m","a":{"level":"info","message":"n"}}`, `"MESSAGE=m" "A_LEVEL=info" "A_MESSAGE=n"`, entry.JSONCounts{}},
		{"numbers and booleans", `{"message":"m","a":-1.50e+3,"b":true,"c":false,"d":null,"e":0}`, `"MESSAGE=m" "A=-1.50e+3" "B=true" "C=false" "E=0"`, entry.JSONCounts{Null: 1}},
		{"names", `{"message":"m","user-id":"1","größe":"2","a.b":3,"":"4","9x":"5"}`, `"MESSAGE=m" "USER_ID=1" "GR____E=2" "A_B=3" "FIELD=4" "FIELD_9X=5"`, entry.JSONCounts{}},
		{"trusted names", `{"message":"m","_PID":"1","__CURSOR":"x","_":"y"}`, `"MESSAGE=m" "PID=1" "CURSOR=x" "FIELD=y"`, entry.JSONCounts{Underscores: 3}},
		{"long name", `{"message":"m","` + strings.Repeat("n", 70) + `":"1","` + strings.Repeat("_", 300) + `":"2"}`, `"MESSAGE=m" "` + strings.Repeat("N", 64) + `=1" "FIELD=2"`, entry.JSONCounts{Cut: 1, Underscores: 1}},
		{"nested", `{"message":"m","http":{"req":{"id":1},"_x":"2","":3}}`, `"MESSAGE=m" "HTTP_REQ_ID=1" "HTTP__X=2" "HTTP_=3"`, entry.JSONCounts{}},
		{"array of strings", `{"message":"m","tag":["a","b",""]}`, `"MESSAGE=m" "TAG=a" "TAG=b" "TAG="`, entry.JSONCounts{}},
		{"array of bytes", `{"message":"m","b":[0, 1,255]}`, `"MESSAGE=m" "B=\x00\x01\xff"`, entry.JSONCounts{}},
		{"array of other numbers", `{"message":"m","b":[0,256],"c":[1.5,2],"d":[-1],"e":[1,"x"]}`, `"MESSAGE=m" "B=0" "B=256" "C=1.5" "C=2" "D=-1" "E=1" "E=x"`, entry.JSONCounts{}},
		{"empty array", `{"message":"m","b":[],"c":[[],[1,2],{"x":1}]}`, `"MESSAGE=m" "C=\x01\x02" "C_X=1"`, entry.JSONCounts{}},
		{"message as bytes", `{"message":[104,105,10]}`, `"MESSAGE=hi\n"`, entry.JSONCounts{}},
		{"times", `{"message":"m","time":"1","@timestamp":"2"}`, `"MESSAGE=m" "TIME=1" "TIMESTAMP=2"`, entry.JSONCounts{Underscores: 1}},
		{"ts", `{"message":"m","ts":1.5}`, `"MESSAGE=m" "TIMESTAMP=1.5"`, entry.JSONCounts{}},
		{"escapes", `{"message":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83d\u0041\udc00"}`, `"MESSAGE=\"\\/\b\f\n\r\té😀�A�"`, entry.JSONCounts{}},
	}
	d := entry.JSONDecoder{Spare: 4}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, counts, err := d.Decode([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, showFields([]entry.Entry{e})); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.counts, counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if room := cap(e.Fields) - len(e.Fields); room < 4 {
				t.Errorf("%d spare fields, want 4", room)
			}
		})
	}
}

func TestJSONDecoderErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", ``, `invalid JSON at byte 0: want an object, the text ends`},
		{"no object", `[1]`, `invalid JSON at byte 0: want an object, not '['`},
		{"word", `hello`, `invalid JSON at byte 0: want an object, not 'h'`},
		{"open", `{"a":1`, `invalid JSON at byte 6: want a comma or the end of the object, the text ends`},
		{"comma at the end", `{"a":1,}`, `invalid JSON at byte 7: want a string, not '}'`},
		{"comma at the end of an array", `{"a":[1,]}`, `invalid JSON at byte 8: want a value, not ']'`},
		{"no colon", `{"a" 1}`, `invalid JSON at byte 5: want a colon, not '1'`},
		{"more", `{} {}`, `invalid JSON at byte 3: more text behind the object`},
		{"leading zero", `{"a":01}`, `invalid JSON at byte 6: want a comma or the end of the object, not '1'`},
		{"bare minus", `{"a":-}`, `invalid JSON at byte 6: want a digit, not '}'`},
		{"literal", `{"a":tru}`, `invalid JSON at byte 5: want a value, not 't'`},
		{"control character", "{\"a\":\"x\ny\"}", `invalid JSON at byte 7: control character '\n' in a string`},
		{"escape", `{"a":"\x"}`, `invalid JSON at byte 7: unknown escape sequence \x`},
		{"short unicode", `{"a":"\u12"}`, `invalid JSON at byte 10: want four hexadecimal digits, not '"'`},
		{"deep", strings.Repeat(`{"a":`, 101) + `1` + strings.Repeat(`}`, 101), `invalid JSON at byte 500: nested deeper than 100`},
		{"deep array", `{"a":` + strings.Repeat(`[`, 101), `invalid JSON at byte 104: nested deeper than 100`},
	}
	var d entry.JSONDecoder
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := d.Decode([]byte(tt.in))
			var je *entry.JSONError
			if !errors.As(err, &je) {
				t.Fatalf("error %v, want a JSONError", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONDecoderTooManyFields(t *testing.T) {
	d := entry.JSONDecoder{Limits: entry.Limits{Fields: 2}}
	e, counts, err := d.Decode([]byte(`{"a":1,"b":2,"c":3,"level":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`"A=1" "MESSAGE={\"a\":1,\"b\":2,\"c\":3,\"level\":\"x\"}"`}
	if diff := cmp.Diff(want, showFields([]entry.Entry{e})); diff != "" || counts.TooMany != 3 {
		t.Errorf("%d dropped, want 3; fields (-want +got):\n%s", counts.TooMany, diff)
	}
}

func TestJSONDecoderAllocatesNothing(t *testing.T) {
	d := entry.JSONDecoder{Spare: 8}
	line := []byte(`{"msg":"hi","level":"info","a":{"b":[1,2]},"t":["x","y"],"time":"now"}`)
	decode := func() {
		if _, _, err := d.Decode(line); err != nil {
			t.Fatal(err)
		}
	}
	decode()
	if n := testing.AllocsPerRun(100, decode); n != 0 {
		t.Errorf("%v allocations per line, want 0", n)
	}
}
