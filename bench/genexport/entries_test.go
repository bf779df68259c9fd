package entries

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// TestSameBytes holds the generator to its bytes: what was measured with them at
// one time is compared with another.
func TestSameBytes(t *testing.T) {
	const want = "1cad5678db839ce5641d17c001bc9bd2058effdcba5b9cba7443c7a11fcb4888"
	h := sha256.New()
	if err := WriteExport(h, New(1, 20_000, 500_000), 100_000); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("sha256 of 100,000 entries is %s, want %s", got, want)
	}
}
