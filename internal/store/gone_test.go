package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// TestRemovedFiles removes what is being written from under the store. Nothing
// is called synced that is in a file without a name, rotate comes back, what
// comes after is stored, and the operator hears of it once.
func TestRemovedFiles(t *testing.T) {
	prepared := func(s *Store) error {
		paths, err := filepath.Glob(filepath.Join(s.dir, sparePrefix+"*"))
		for _, p := range paths {
			err = errors.Join(err, os.Remove(p))
		}
		return err
	}
	for _, tt := range []struct {
		name   string
		remove func(s *Store) error
		acks   bool // syncs of the current file still count
	}{
		{"file", func(s *Store) error { return os.Remove(filepath.Join(s.dir, "system.journal")) }, false},
		{"directory", func(s *Store) error { return os.RemoveAll(s.dir) }, false},
		{"data", func(s *Store) error { return os.RemoveAll(s.cfg.Dir) }, false},
		{"prepared", prepared, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // against a hang only
			defer cancel()
			cfg := testConfig(filepath.Join(t.TempDir(), "data"), nil)
			var operator said
			cfg.Say = operator.say
			s := open(t, cfg)
			appendNumbered(t, s, 0, 10)
			for changed := s.progress.C(); s.spares.len() == 0; changed = s.progress.C() {
				<-changed
			}
			if err := tt.remove(s); err != nil {
				t.Fatal(err)
			}
			ticket, err := s.Append(ctx, []entry.Entry{line(0, "message 10")})
			if err != nil {
				t.Fatal(err)
			}
			err = s.Wait(ctx, ticket, settle.Synced)
			if tt.acks && err != nil || !tt.acks && !errors.Is(err, syscall.EIDRM) {
				t.Errorf("Wait after the removal = %v", err)
			}
			if err := s.Rotate(ctx); err != nil {
				t.Errorf("Rotate = %v", err)
			}
			// What was swapped to before the removal was found is replaced too.
			for {
				if ticket, err = s.Append(ctx, []entry.Entry{line(0, "message 11")}); err != nil {
					t.Fatal(err)
				}
				if err = s.Wait(ctx, ticket, settle.Synced); err == nil {
					break
				}
				if !errors.Is(err, syscall.EIDRM) {
					t.Fatalf("Wait = %v", err)
				}
			}
			if err := s.Rotate(ctx); err != nil {
				t.Errorf("second Rotate = %v", err)
			}
			if err := s.Close(ctx); err != nil {
				t.Errorf("Close = %v", err)
			}
			all := strings.Join(storedIn(t, cfg.Dir, false, "system"), "\n")
			if !strings.HasSuffix(all, "message 11") {
				t.Errorf("what came after is not stored: %q", all)
			}
			count := 0
			for _, l := range operator.lines {
				if strings.Contains(l, "was removed") {
					count++
				}
				if strings.Contains(l, "give a file its name") || strings.Contains(l, "look for space") {
					t.Errorf("said %q", l)
				}
			}
			if want := 1; !tt.acks && count != want || count > 1 {
				t.Errorf("the removal was said %d times: %q", count, operator.lines)
			}
		})
	}
}
