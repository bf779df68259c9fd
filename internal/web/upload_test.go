package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// fakeUploads keeps entries as PEER MESSAGE@TIME, with ! when they are urgent.
type fakeUploads struct {
	mu   sync.Mutex
	kept []string
	room int // entries it takes before it fails with refuse
	// refuse is what it fails with, for good; bad is the message of an entry that
	// no file can hold.
	refuse error
	bad    string
	each   func(kept []string) // called after each Append
}

func (u *fakeUploads) Append(_ context.Context, peer string, entries []entry.Entry) (journal.Ticket, int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range entries {
		if u.refuse != nil && len(u.kept) >= u.room {
			return journal.Ticket{}, i, u.refuse
		}
		e := &entries[i]
		m, _ := e.Get("MESSAGE")
		if u.bad != "" && string(m) == u.bad {
			return journal.Ticket{}, i, &journal.EntryError{Index: i, Field: -1, Err: journal.ErrTooLarge}
		}
		line := fmt.Sprintf("%s %q@%d", peer, m, e.Realtime)
		if e.Urgent {
			line += "!"
		}
		u.kept = append(u.kept, line)
	}
	if u.each != nil {
		u.each(u.kept)
	}
	return journal.Ticket{}, len(entries), nil
}

// stream is three entries, one with a binary field, and what is kept of them.
func stream() (body string, kept []string) {
	binaryField := "MESSAGE\n" + string(binary.LittleEndian.AppendUint64(nil, 4)) + "b\n\nb\n"
	body = "__CURSOR=x\n__REALTIME_TIMESTAMP=1001\n__MONOTONIC_TIMESTAMP=7\n_BOOT_ID=710d035a90fb403c855864972948eda1\nMESSAGE=a\nPRIORITY=2\n\n" +
		"__REALTIME_TIMESTAMP=1002\n" + binaryField + "PRIORITY=3\n\n" +
		"__REALTIME_TIMESTAMP=1003\nMESSAGE=c\n\n"
	return body, []string{`192.0.2.1 "a"@1001!`, `192.0.2.1 "b\n\nb"@1002`, `192.0.2.1 "c"@1003`}
}

// uploadTo sends a request to a server and returns status and answer.
func uploadTo(s *Server, body io.Reader, query string, header map[string]string) (int, string) {
	r := httptest.NewRequest("POST", "http://localhost:19532/upload"+query, body)
	r.Header.Set("Content-Type", exportType)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, strings.TrimSuffix(w.Body.String(), "\n")
}

// uploadServer is a server for u.
func uploadServer(u Uploads, change ...func(*Config)) *Server {
	cfg := config(&fakeSink{})
	cfg.Uploads = u
	for _, c := range change {
		c(&cfg)
	}
	return New(cfg)
}

// encoders are the content codings, each as a client may use it: also several
// frames one after the other.
func encoders(t *testing.T) map[string]func(string) []byte {
	frames := func(begin func(io.Writer) (io.WriteCloser, error)) func(string) []byte {
		return func(s string) []byte {
			var b bytes.Buffer
			for _, part := range []string{s[:len(s)/3], s[len(s)/3:]} {
				w, err := begin(&b)
				if err == nil {
					_, err = io.WriteString(w, part)
				}
				if err == nil {
					err = w.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return b.Bytes()
		}
	}
	return map[string]func(string) []byte{
		"":     func(s string) []byte { return []byte(s) },
		"gzip": frames(func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }),
		"zstd": frames(func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		}),
		"lz4": frames(func(w io.Writer) (io.WriteCloser, error) { return lz4.NewWriter(w), nil }),
		"xz": frames(func(w io.Writer) (io.WriteCloser, error) {
			return xz.WriterConfig{DictCap: 1 << 16, BlockSize: 40}.NewWriter(w)
		}),
	}
}

// TestUploadBoundaries sends a stream in each coding, cut into two parts at each
// byte, and byte by byte: it is the same stream.
func TestUploadBoundaries(t *testing.T) {
	body, want := stream()
	for coding, encode := range encoders(t) {
		t.Run(coding, func(t *testing.T) {
			sent := encode(body)
			for at := range len(sent) + 1 {
				in := io.MultiReader(bytes.NewReader(sent[:at]), bytes.NewReader(sent[at:]))
				if at == len(sent) {
					in = iotest.OneByteReader(bytes.NewReader(sent))
				}
				u := &fakeUploads{}
				status, answer := uploadTo(uploadServer(u), in, "?ack=synced", map[string]string{"Content-Encoding": coding})
				if status != 202 || answer != `{"accepted":3,"ack":"synced"}` {
					t.Fatalf("cut at %d: %d %s", at, status, answer)
				}
				if d := cmp.Diff(want, u.kept); d != "" {
					t.Fatalf("cut at %d (-want +got):\n%s", at, d)
				}
			}
		})
	}
}

// TestUploadCut ends a stream after each byte: the complete entries are kept, and
// the answer says how many. In a coding what has come may not be all there.
func TestUploadCut(t *testing.T) {
	body, want := stream()
	for coding, encode := range encoders(t) {
		t.Run(coding, func(t *testing.T) {
			sent := encode(body)
			for at := range len(sent) {
				u := &fakeUploads{}
				status, answer := uploadTo(uploadServer(u), bytes.NewReader(sent[:at]), "", map[string]string{"Content-Encoding": coding})
				n := len(u.kept)
				if d := cmp.Diff(want[:n:n], u.kept); n > 0 && d != "" {
					t.Fatalf("cut at %d (-want +got):\n%s", at, d)
				}
				if !strings.HasPrefix(answer, fmt.Sprintf(`{"accepted":%d`, n)) {
					t.Errorf("cut at %d: %d kept, answer %s", at, n, answer)
				}
				whole := coding == "" && strings.Count(body[:at], "\n\n") > 0 && strings.HasSuffix(body[:at], "\n\n") && !strings.HasSuffix(body[:at], "b\n\n") || at == 0
				if ok := status == 202; coding == "" && ok != whole {
					t.Errorf("cut at %d: %d %s", at, status, answer)
				}
				if coding == "" && n != completeEntries(body[:at]) {
					t.Errorf("cut at %d: %d kept, want %d", at, n, completeEntries(body[:at]))
				}
			}
		})
	}
}

// completeEntries counts the entries of the test's stream that end in a prefix.
func completeEntries(prefix string) (n int) {
	body, _ := stream()
	for _, end := range []string{"PRIORITY=2\n\n", "PRIORITY=3\n\n", "MESSAGE=c\n\n"} {
		if len(prefix) >= strings.Index(body, end)+len(end) {
			n++
		}
	}
	return n
}

// uploadCase is a request and its answer.
type uploadCase struct {
	name    string
	uploads *fakeUploads
	query   string
	header  map[string]string
	body    string
	status  int
	answer  string
	kept    int
}

// TestUploadAnswers: what is wrong is told, with what was kept, also in the words
// of systemd-journal-remote.
func TestUploadAnswers(t *testing.T) {
	body, _ := stream()
	text := map[string]string{"Accept": "text/plain"}
	first := body[:strings.Index(body, "\n\n")+2]
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	for _, tt := range []uploadCase{
		{name: "journal-upload", header: text, body: body, status: 202, answer: "OK.", kept: 3},
		{name: "empty", header: text, status: 202, answer: "OK."},
		{name: "blank lines", body: "\n\n\n", status: 202, answer: `{"accepted":0,"ack":"appended"}`},
		{name: "untimed", body: "MESSAGE=a\n\n" + body, status: 202, answer: `{"accepted":3,"dropped":1,"ack":"appended"}`, kept: 3},
		{name: "premature end", header: text, body: body + "MESSAGE=x\nB", status: 417, answer: "Premature EOF. 11 bytes of trailing data not processed.", kept: 3},
		{name: "premature end, JSON", body: first + "MES", status: 417, answer: `{"accepted":1,"ack":"appended","error":"Premature EOF. 3 bytes of trailing data not processed."}`, kept: 1},
		{name: "type", header: map[string]string{"Content-Type": "text/plain", "Accept": "text/plain"}, body: body, status: 415, answer: "Content-Type: application/vnd.fdo.journal is required."},
		{name: "coding", header: map[string]string{"Content-Encoding": "br"}, body: body, status: 415, answer: `{"accepted":0,"error":"Content-Encoding: want one of zstd, lz4, xz, gzip, or none"}`},
		{name: "level", query: "?ack=replicated", body: body, status: 400, answer: `{"accepted":0,"error":"ack=replicated: no target to replicate to is configured"}`},
		{name: "bad time", header: text, body: first + "__REALTIME_TIMESTAMP=soon\n\n", status: 400, answer: `read the body: export stream: offset 125: invalid time stamp: "soon" (entries accepted: 1)`, kept: 1},
		{name: "not gzip", header: map[string]string{"Content-Encoding": "gzip"}, body: "plain text that is none", status: 400, answer: `{"accepted":0,"error":"read the body: gzip: invalid header"}`},
		{name: "field too large", body: first + "M\n\x00\x00\x00\x00\x01\x00\x00\x00x", status: 413, answer: `{"accepted":1,"ack":"appended","error":"export stream: offset 125: field too large: M declares 4294967296 bytes: the limit is 1000 bytes an entry"}`, kept: 1},
		{name: "no newline", body: first + strings.Repeat("x", 2000), status: 413, answer: `{"accepted":1,"ack":"appended","error":"export stream: offset 125: field too large: the limit is 1000 bytes an entry"}`, kept: 1},
		{name: "endless entry", body: first + strings.Repeat("A=b\n", 50000), status: 413, answer: `{"accepted":1,"ack":"appended","error":"export stream: offset 125: entry too large: the limit is 1000 bytes an entry"}`, kept: 1},
		{name: "garbage", body: strings.Repeat("\x00\xff\n", 300) + "\n" + body, status: 202, answer: `{"accepted":3,"dropped":1,"ack":"appended"}`, kept: 3},
		{name: "unstorable", uploads: &fakeUploads{bad: "a"}, body: body, status: 202, answer: `{"accepted":2,"dropped":1,"ack":"appended"}`, kept: 2},
		{name: "disk full", uploads: &fakeUploads{refuse: full, room: 2}, header: text, body: body, status: 507, answer: "the disk is full: send the rest again when there is space: write: no space left on device (entries accepted: 2)", kept: 2},
		{name: "quota", uploads: &fakeUploads{refuse: syscall.EDQUOT}, body: body, status: 507, answer: `{"accepted":0,"error":"the disk is full: send the rest again when there is space: disk quota exceeded"}`},
		{name: "disorder", uploads: &fakeUploads{refuse: fmt.Errorf("too often: %w", journal.ErrOrder), room: 1}, header: text, body: body, status: 409, answer: "too often: monotonic time goes backwards (entries accepted: 1)", kept: 1},
		{name: "later", uploads: &fakeUploads{refuse: fmt.Errorf("many peers: %w", journal.ErrBufferFull)}, header: text, body: body, status: 503, answer: "many peers: write buffer is full: send the rest again later"},
		{name: "ended", uploads: &fakeUploads{refuse: errors.New("ended"), room: 1}, header: text, body: body, status: 503, answer: "ended (entries accepted: 1)", kept: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := tt.uploads
			if u == nil {
				u = &fakeUploads{}
			}
			s := uploadServer(u, func(c *Config) { c.MaxEntry = 1000 })
			status, answer := uploadTo(s, strings.NewReader(tt.body), tt.query, tt.header)
			if d := cmp.Diff(fmt.Sprint(tt.status, " ", tt.answer), fmt.Sprint(status, " ", answer)); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
			if len(u.kept) != tt.kept {
				t.Errorf("kept %q, want %d", u.kept, tt.kept)
			}
		})
	}
}

// TestUploadMemory: a large entry is taken while there is memory for it, which it
// gives back; too many at once are refused.
func TestUploadMemory(t *testing.T) {
	large := "__REALTIME_TIMESTAMP=5\nMESSAGE=" + strings.Repeat("x", 8<<20) + "\n\n"
	u := &fakeUploads{}
	s := uploadServer(u)
	for range 3 {
		if status, answer := uploadTo(s, strings.NewReader(large), "", nil); status != 202 {
			t.Fatalf("%d %.200s", status, answer)
		}
	}
	if left := s.uploads.memory.Load(); left != 0 {
		t.Errorf("%d bytes stay reserved", left)
	}
	s.uploads.memory.Store(largeEntries - 4<<20)
	status, answer := uploadTo(s, strings.NewReader(large), "", nil)
	if status != 503 || !strings.Contains(answer, errMemory.Error()) {
		t.Errorf("%d %.200s", status, answer)
	}
	if left := s.uploads.memory.Load(); left != largeEntries-4<<20 {
		t.Errorf("%d bytes are reserved", left)
	}
}

// TestXZDictionary: what a block may ask for is bounded.
func TestXZDictionary(t *testing.T) {
	for size, ok := range map[int]bool{8 << 20: true, 16 << 20: true, 24 << 20: false, 1 << 30: false} {
		h := append([]byte{2, 0, 0x21, 1}, byte(xzDictCode(size)), 0, 0, 0, 0, 0, 0, 0)
		got, err := xzDict(h)
		if (err == nil) != ok || ok && got != size {
			t.Errorf("%d: %d, %v", size, got, err)
		}
	}
}

// xzDictCode is the code of a dictionary size in a block header.
func xzDictCode(size int) int {
	for code := range 40 {
		if (2|code&1)<<(code/2+11) == size {
			return code
		}
	}
	return -1
}

// TestEndUploads: a live upload stores what has come before more comes; when the
// daemon ends it is answered with what was accepted.
func TestEndUploads(t *testing.T) {
	body, _ := stream()
	came := make(chan int, 10)
	u := &fakeUploads{each: func(kept []string) { came <- len(kept) }}
	s := uploadServer(u)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	in, out := io.Pipe()
	answered := make(chan string, 1)
	go func() {
		resp, err := http.Post("http://"+l.Addr().String()+"/upload", exportType, in)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body) // what is missing shows
		answered <- fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(b)))
	}()
	if _, err := io.WriteString(out, body+"MESSAGE=unfinished"); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 3; {
		n = <-came
	}
	s.EndUploads()
	want := `503 {"accepted":3,"ack":"appended","error":"the daemon ends: send the rest again"}`
	if got := <-answered; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	out.Close()
	if status, answer := uploadTo(s, strings.NewReader(body), "", nil); status != 503 {
		t.Errorf("after the end: %d %s", status, answer)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
