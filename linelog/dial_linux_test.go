package linelog

import (
	"bufio"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// answering listens as a daemon that answers the greeting well, and every other call so.
func answering(t *testing.T, answer string) (socket string, stop func()) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for reply := `{"parameters":{"accepted":0}}` + "\x00"; ; reply = answer {
					if _, err := in.ReadString(0); err != nil {
						return
					}
					if _, err := io.WriteString(c, reply); err != nil || reply == "" {
						return
					}
				}
			})
		}
	})
	return socket, func() { l.Close(); group.Wait() }
}

// What is no daemon's answer acknowledges nothing, the answer of another call neither.
func TestDialOfWhatAnswersGarbage(t *testing.T) {
	defer goleak.VerifyNone(t)
	said := new(DaemonError)
	for _, tt := range []struct {
		name, answer string
		want         func(error) bool
	}{
		{"nothing", "", unanswered},
		{"an empty message", "\x00", unanswered},
		{"no object", "[]\x00", unanswered},
		{"no JSON", "garbage\x00", unanswered},
		{"no parameters", "{}\x00", unanswered},
		{"other parameters", `{"parameters":[]}` + "\x00", unanswered},
		{"no lines", `{"parameters":{"accepted":0}}` + "\x00", unanswered},
		{"fewer than no lines", `{"parameters":{"accepted":-2}}` + "\x00", unanswered},
		{"more lines", `{"parameters":{"accepted":3}}` + "\x00", unanswered},
		{"without end", strings.Repeat("x", maxAnswer+1<<10), unanswered},
		{"an error", `{"error":"x"}` + "\x00", func(err error) bool { return errors.As(err, &said) }},
		{"an error with half of its parameters", `{"error":"x","parameters":{"accepted":2,"errno":-1}}` + "\x00", func(err error) bool { return errors.As(err, &said) }},
		{"an answer too many", strings.Repeat(`{"parameters":{"accepted":2}}`+"\x00", 2), func(err error) bool { return err == nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket, stop := answering(t, tt.answer)
			defer stop()
			w, err := Dial(t.Context(), socket, filepath.Join(t.TempDir(), "log"), Options{CloseUnsynced: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte("one\ntwo\n")); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); !tt.want(err) {
				t.Errorf("Close = %v", err)
			}
		})
	}
}

func unanswered(err error) bool { return errors.Is(err, ErrUnanswered) }

// A greeting with an answer too many is no daemon's.
func TestDialOfWhatAnswersTooMuch(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "{}\x00{}\x00") //nolint:errcheck // the test fails then
		io.Copy(io.Discard, c)            //nolint:errcheck // until the other end is closed
	})
	if _, err := Dial(t.Context(), socket, filepath.Join(t.TempDir(), "log"), Options{}); !errors.Is(err, errUnasked) {
		t.Errorf("Dial = %v", err)
	}
}
