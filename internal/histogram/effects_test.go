package histogram

import (
	"errors"
	"testing"
	"time"
)

func TestEffects(t *testing.T) {
	var e Effects
	a, b := e.Of(), e.Of()
	a("write", time.Microsecond, 3, nil)
	a("write", 5*time.Microsecond, 3, nil)
	a("index", 8*time.Microsecond, 3, nil)
	a("sync", 2*time.Microsecond, 3, nil)
	b("sync", 2*time.Microsecond, 1, nil)
	a("sync", 4*time.Microsecond, 0, errors.New("broken"))
	a("sync", 2*time.Microsecond, 11, nil) // 8 more than before
	for _, tt := range []struct {
		name, want string
		got        *Histogram
	}{
		{"write", "1 0 1", &e.Write},
		{"index", "0 0 0 1", &e.Index},
		{"sync", "0 3 1", &e.Sync},
		{"records", "1 1 0 1", &e.Records},
	} {
		if got := tt.got.Counts().String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	var none *Effects
	none.Of()("sync", 1, 1, nil) // counts nothing, and is there
}
