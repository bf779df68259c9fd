package journal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// A ticket of several writers waits for each of them, whichever way it came to
// stand for them, and for the last of their positions.
func TestTicketWaitsForAll(t *testing.T) {
	const files = 5
	for behind := range files {
		t.Run(fmt.Sprint("behind=", behind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tk, joined, early Ticket
				var ws [files]*Writer
				for i := range ws {
					ws[i], _ = wMemWriter(t, Options{})
				}
				for round := range 2 {
					for i, w := range ws {
						if round == 1 && i == behind {
							w.io.Lock() // its second entry stays in memory
						}
						pos, _, err := w.TryAppend([]entry.Entry{wFields("A=1")})
						if err != nil {
							t.Fatal(err)
						}
						if round == 0 {
							early.Add(w, pos)
						}
						tk.Add(w, pos)
						tk.Add(w, pos-1) // changes nothing
						var one Ticket
						one.Add(w, pos)
						joined.Join(one)
					}
					synctest.Wait()
				}
				joined.Join(early)
				var whole Ticket
				whole.Join(tk)
				all := []Ticket{tk, joined, whole}
				if err := early.Wait(t.Context(), settle.Appended); err != nil {
					t.Errorf("what was written: %v", err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				answers := make(chan error, len(all))
				for _, tk := range all {
					go func() { answers <- tk.Wait(ctx, settle.Appended) }()
				}
				synctest.Wait()
				if len(answers) != 0 {
					t.Errorf("a ticket did not wait for file %d: %v", behind, <-answers)
				}
				cancel()
				for range all {
					if err := <-answers; !errors.Is(err, context.Canceled) {
						t.Errorf("Wait whose context ends: %v", err)
					}
				}
				ws[behind].io.Unlock()
				for _, tk := range all {
					if err := tk.Wait(t.Context(), settle.Synced); err != nil {
						t.Error(err)
					}
				}
				for i, w := range ws {
					if st := w.Stats(); st.Unsynced != 0 {
						t.Errorf("file %d: %d entries not synced", i, st.Unsynced)
					}
					if err := w.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A ticket that was copied is not changed by what is added to the copy.
func TestTicketIsAValue(t *testing.T) {
	var tk Ticket
	for range 5 { // room for one more behind the last
		tk.Add(&Writer{}, 1)
	}
	a, b := tk, tk
	wa, wb := &Writer{}, &Writer{}
	a.Add(wa, 1)
	b.Add(wb, 1)
	if len(tk.more) != 3 || a.more[3].w != wa || b.more[3].w != wb {
		t.Error("copies of a ticket share what was added")
	}
}
