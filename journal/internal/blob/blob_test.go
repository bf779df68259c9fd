package blob

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Blobs that other programs wrote; all hold "BIG=" and 600 times "q".
const (
	// zstdSample is the payload of a DATA object of systemd 252.
	zstdSample = "28b52ffd605c01650000284249473d710100542aa005"
	// xzSample is from liblzma with libsystemd's options: CHECK_NONE, 1 MiB.
	xzSample = "fd377a585a000000ff12d9410200210110000000a8708e86e0025b000e5d00211244f799297bc9a32558c52800000000000122dc04000000ef75564aa8000afc020000000000595a"
	// xzCRCSample is from liblzma's preset 6: CRC64, 8 MiB.
	xzCRCSample = "fd377a585a000004e6d6b4460200210116000000742fe5a3e0025b000e5d00211244f799297bc9a32558c52800000000349ef6f3115e518400012adc0400000082f705a6b1c467fb020000000004595a"
	// xzHugeDict asks for 256 MiB of dictionary.
	xzHugeDict = "fd377a585a000000ff12d94102002101200000000988a576e0025b000e5d00211244f799297bc9a32558c52800000000000122dc04000000ef75564aa8000afc020000000000595a"
)

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func lz4Blob(tb testing.TB, p []byte) []byte {
	tb.Helper()
	b := make([]byte, lz4HeaderSize+lz4.CompressBlockBound(len(p)))
	binary.LittleEndian.PutUint64(b, uint64(len(p)))
	var c lz4.Compressor
	n, err := c.CompressBlock(p, b[lz4HeaderSize:])
	if err != nil || n == 0 {
		tb.Fatalf("compress: %d, %v", n, err)
	}
	return b[:lz4HeaderSize+n]
}

func TestDecompressSamples(t *testing.T) {
	want := []byte("BIG=" + strings.Repeat("q", 600))
	for _, tc := range []struct {
		name string
		flag byte
		src  []byte
	}{
		{"zstd of systemd 252", object.CompressedZSTD, unhex(t, zstdSample)},
		{"xz as libsystemd", object.CompressedXZ, unhex(t, xzSample)},
		{"xz preset 6", object.CompressedXZ, unhex(t, xzCRCSample)},
		{"lz4", object.CompressedLZ4, lz4Blob(t, want)},
		// 4 literals "BIG=", then "q" and a match of distance 1, by hand.
		{"lz4 by hand", object.CompressedLZ4, append(unhex(t, "5c02000000000000"+"5f"+"4249473d71"+"0100"+"ffff41"), unhex(t, "50"+"7171717171")...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Decompress([]byte("before "), tc.flag, tc.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != "before "+string(want) {
				t.Errorf("got %q", got)
			}
			// Exactly the size fits, one byte less does not.
			if _, err := Decompress(nil, tc.flag, tc.src, len(want)); err != nil {
				t.Errorf("limit %d: %v", len(want), err)
			}
			dst := []byte("kept")
			got, err = Decompress(dst, tc.flag, tc.src, len(want)-1)
			if !errors.Is(err, ErrTooLarge) || string(got) != "kept" {
				t.Errorf("limit %d: %q, %v; want ErrTooLarge", len(want)-1, got, err)
			}
			for cut := range tc.src {
				if _, err := Decompress(nil, tc.flag, tc.src[:cut], 0); err == nil {
					t.Errorf("accepted when cut to %d bytes", cut)
				}
			}
		})
	}
}

func TestDecompressRefuses(t *testing.T) {
	stream := func() []byte { // a frame whose size was not known at its begin
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1000)); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}()
	for _, tc := range []struct {
		name string
		flag byte
		src  string
		want error
	}{
		{"no flag", 0, zstdSample, ErrFlags},
		{"two flags", object.CompressedLZ4 | object.CompressedZSTD, zstdSample, ErrFlags},
		{"zstd without size", object.CompressedZSTD, hex.EncodeToString(stream), ErrNoSize},
		{"zstd skippable frame", object.CompressedZSTD, "502a4d1804000000" + "00000000", ErrNoSize},
		{"zstd empty", object.CompressedZSTD, "", ErrCorrupt},
		{"zstd other size than said", object.CompressedZSTD, strings.Replace(zstdSample, "605c01", "605d01", 1), ErrCorrupt},
		{"zstd claims 700 MB", object.CompressedZSTD, "28b52ffd" + "a0" + "00ba b929" + "010000", ErrCorrupt},
		{"zstd claims 16 EB", object.CompressedZSTD, "28b52ffd" + "e0" + "ffffffffffffffff" + "010000", ErrTooLarge},
		{"two frames", object.CompressedZSTD, zstdSample + zstdSample, ErrCorrupt},
		{"lz4 empty", object.CompressedLZ4, "0100000000000000", ErrCorrupt},
		{"lz4 claims 700 MB", object.CompressedLZ4, "00bab92900000000" + "1f610100ff", ErrCorrupt},
		{"lz4 claims nothing", object.CompressedLZ4, "0000000000000000" + "1061", ErrCorrupt},
		{"lz4 claims 16 EB", object.CompressedLZ4, "ffffffffffffffff" + "1061", ErrTooLarge},
		{"xz of zstd", object.CompressedXZ, zstdSample, ErrCorrupt},
		{"xz asks for a large dictionary", object.CompressedXZ, xzHugeDict, ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := unhex(t, strings.ReplaceAll(tc.src, " ", ""))
			got, err := Decompress([]byte("kept"), tc.flag, src, 0)
			if !errors.Is(err, tc.want) || string(got) != "kept" {
				t.Errorf("got %q, %v; want %v", got, err, tc.want)
			}
			if got, err := Decompress(nil, tc.flag, src, 0); !errors.Is(err, tc.want) || got != nil {
				t.Errorf("without room got %q, %v; want %v", got, err, tc.want)
			}
		})
	}
}

// payloads of every frame form: 1-, 2- and 4-byte sizes, one block and several,
// single segment and not, random and repetitive.
func payloads() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	m := map[string][]byte{}
	for _, n := range []int{1, 9, 255, 256, 511, 512, 1023, 1024, 1025, 65535 + 256, 65536 + 256, 128 << 10, 128<<10 + 1, 1 << 20, 2 << 20, 2<<20 + 1, 5 << 20} {
		text := make([]byte, 0, n+16)
		for len(text) < n {
			text = append(text, "KEY="[r.IntN(4)], byte('a'+r.IntN(4)), 'x', 'x')
		}
		m["text "+strconv.Itoa(n)] = text[:n]
	}
	noise := make([]byte, 100000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	m["noise"] = noise
	return m
}

func TestZSTDRoundTrip(t *testing.T) {
	var e Encoder
	var d Decoder
	for name, p := range payloads() {
		t.Run(name, func(t *testing.T) {
			for _, c := range [][]byte{e.AppendZSTD([]byte("pre"), p), append([]byte("pre"), CompressZSTD(nil, p)...)} {
				if !bytes.HasPrefix(c, []byte("pre")) {
					t.Fatalf("prefix lost: %q", c[:3])
				}
				var h zstd.Header
				if err := h.Decode(c[3:]); err != nil || !h.HasFCS || h.FrameContentSize != uint64(len(p)) {
					t.Errorf("header %+v, %v; want content size %d", h, err, len(p))
				}
				if h.SingleSegment != (len(p) <= zstdWindow) {
					t.Errorf("single segment %v for %d bytes", h.SingleSegment, len(p))
				}
				if h.HasCheckSum {
					t.Error("a checksum, which libsystemd does not write")
				}
				got, err := d.Decompress(nil, object.CompressedZSTD, c[3:], len(p))
				if err != nil || !bytes.Equal(got, p) {
					t.Errorf("got %d bytes, %v; want %d", len(got), err, len(p))
				}
			}
		})
	}
}

func FuzzDecompress(f *testing.F) {
	f.Add(byte(object.CompressedZSTD), unhex(f, zstdSample))
	f.Add(byte(object.CompressedXZ), unhex(f, xzSample))
	f.Add(byte(object.CompressedXZ), unhex(f, xzCRCSample))
	f.Add(byte(object.CompressedLZ4), lz4Blob(f, bytes.Repeat([]byte("abc"), 100)))
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, flag byte, src []byte) {
		got, err := Decompress([]byte("pre"), flag, src, limit)
		if !bytes.HasPrefix(got, []byte("pre")) {
			t.Fatalf("prefix lost: %q", got)
		}
		got = got[3:]
		if err != nil {
			for _, e := range []error{ErrCorrupt, ErrTooLarge, ErrNoSize, ErrFlags} {
				if errors.Is(err, e) {
					return
				}
			}
			t.Fatalf("untyped error: %v", err)
		}
		if len(got) > limit {
			t.Fatalf("%d bytes for a limit of %d", len(got), limit)
		}
		again, err := Decompress(nil, object.CompressedZSTD, CompressZSTD(nil, got), limit)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("not the same after compression: %v", err)
		}
	})
}

func BenchmarkAppendZSTD(b *testing.B) {
	p := []byte("MESSAGE=" + strings.Repeat("the quick brown fox jumps over the lazy dog; ", 20))
	var e Encoder
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		dst = e.AppendZSTD(dst[:0], p)
	}
}

func BenchmarkDecompressZSTD(b *testing.B) {
	p := []byte("MESSAGE=" + strings.Repeat("the quick brown fox jumps over the lazy dog; ", 20))
	c := CompressZSTD(nil, p)
	var d Decoder
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		var err error
		if dst, err = d.Decompress(dst[:0], object.CompressedZSTD, c, 0); err != nil {
			b.Fatal(err)
		}
	}
}
