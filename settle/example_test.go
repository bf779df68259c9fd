package settle_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/settle"
)

// disk stands for a file: what was written, and up to where it is safe.
type disk struct {
	mu   sync.Mutex
	data bytes.Buffer
	safe int
}

func (d *disk) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data.WriteString(line)
}

func (d *disk) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.safe = d.data.Len()
	return nil
}

// A log whose lines are synced once a second, and at once for who waits.
func Example() {
	var file disk
	var written atomic.Uint64

	syncs := 0
	s := settle.New(func(uint64) (uint64, error) {
		syncs++
		upTo := written.Load() // looks before it syncs: lines that came meanwhile are covered too
		return upTo, file.sync()
	}, settle.Options{Policy: settle.Every(time.Second), Sticky: true})

	var line uint64
	for range 100 {
		file.write("a line\n")
		line = written.Add(1)
		s.Mark(line) // costs nothing, waits for nothing
	}
	if err := s.Wait(context.Background(), line); err != nil {
		fmt.Println("not safe:", err)
	}
	fmt.Println("lines safe:", file.safe/len("a line\n"), "syncs:", syncs)

	if err := s.Close(); err != nil { // syncs what is left, if anything is
		fmt.Println("close:", err)
	}
	// Output: lines safe: 100 syncs: 1
}
