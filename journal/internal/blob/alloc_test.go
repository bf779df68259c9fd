//go:build !race

package blob

import (
	"testing"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Not under the race detector, where sync.Pool drops things on purpose.
func TestNoAllocations(t *testing.T) {
	p := payloads()["text 131072"]
	var e Encoder
	var d Decoder
	dst := make([]byte, 0, 2*len(p))
	c := e.AppendZSTD(nil, p)
	if n := testing.AllocsPerRun(50, func() { dst = e.AppendZSTD(dst[:0], p) }); n != 0 {
		t.Errorf("AppendZSTD allocates %v times", n)
	}
	if n := testing.AllocsPerRun(50, func() {
		var err error
		if dst, err = d.Decompress(dst[:0], object.CompressedZSTD, c, 0); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Decompress allocates %v times", n)
	}
}
