package settle

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a goroutine is left after the tests: every settler's ends
// with its Close.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
