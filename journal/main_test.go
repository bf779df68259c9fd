package journal

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a goroutine is left after the tests: a writer's settlers
// end with Close and Archive, those of a Create or OpenWriter that failed never
// began, and readers start none.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
