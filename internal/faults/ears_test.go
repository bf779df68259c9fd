package faults

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// ears count the words that a service manager hears.
type ears struct {
	mu      sync.Mutex
	words   map[string]int
	changed chan struct{} // closed by the next word, and replaced
}

// listen is the socket of a service manager.
func listen(t testing.TB, path string) *ears {
	t.Helper()
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	noError(t, err)
	e := &ears{words: map[string]int{}, changed: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 4096)
		for {
			n, err := sock.Read(b)
			if err != nil {
				return
			}
			e.hear(strings.Split(string(b[:n]), "\n"))
		}
	}()
	t.Cleanup(func() { sock.Close(); <-ended })
	return e
}

func (e *ears) hear(words []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range words {
		e.words[w]++
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *ears) count(word string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.words[word]
}

// wait waits until a word was heard n times.
func (e *ears) wait(t testing.TB, word string, n int) {
	t.Helper()
	for {
		e.mu.Lock()
		heard, changed := e.words[word], e.changed
		e.mu.Unlock()
		if heard >= n {
			return
		}
		within(t, word, changed)
	}
}
