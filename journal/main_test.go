package journal

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a goroutine is left after the tests: a writer's settlers
// end with Close and Archive, those of a Create or OpenWriter that failed never
// began, and readers start none.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneGoroutine skips a test for which the race detector has nothing to find, and takes
// ten times as long: make race sets -short.
func oneGoroutine(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine, nothing to race with (-short)")
	}
}
