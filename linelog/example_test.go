package linelog_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// A Writer takes what an io.Writer takes. Nothing waits for the disk; Close leaves
// everything on it.
func Example() {
	dir, err := os.MkdirTemp("", "linelog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "app.log")

	w, err := linelog.Open(path, linelog.Options{Sync: settle.Every(time.Second)})
	if err != nil {
		log.Fatal(err)
	}
	logger := log.New(w, "app: ", 0)
	logger.Print("begun")
	logger.Print("done")
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	// Output:
	// app: begun
	// app: done
}

// Append returns a position, and Wait says when it is on the disk. Whoever waits at
// the same time shares the sync.
func ExampleWriter_Wait() {
	dir, err := os.MkdirTemp("", "linelog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	w, err := linelog.Open(filepath.Join(dir, "orders.log"), linelog.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()

	ctx := context.Background()
	pos, err := w.Append(ctx, []byte("order 17: paid"))
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Wait(ctx, pos, settle.Synced); err != nil {
		log.Fatal(err) // not known to be on the disk
	}
	fmt.Println("on the disk, with", w.Stats().Syncs, "sync")
	// Output: on the disk, with 1 sync
}

// A slog.Logger appends to the same log. Errors are on the disk when the call
// returns; nothing else waits.
func ExampleNewHandler() {
	dir, err := os.MkdirTemp("", "linelog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.log")
	w, err := linelog.Open(path, linelog.Options{Rotate: linelog.Rotation{Size: 64 << 20, Keep: 7}})
	if err != nil {
		log.Fatal(err)
	}
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(linelog.NewHandler(w, linelog.HandlerOptions{
		HandlerOptions: slog.HandlerOptions{ReplaceAttr: noTime}, // only so that the output below is the same each day
		Format:         linelog.JSON,
		Ack:            slog.LevelError,
	}))
	logger.Info("order paid", "order", 17)
	logger.With("order", 18).Error("card refused", "code", 51)
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	// Output:
	// {"level":"INFO","msg":"order paid","order":17}
	// {"level":"ERROR","msg":"card refused","order":18,"code":51}
}

// Each source has a Stream: pieces of lines of different sources do not mix.
func ExampleWriter_Stream() {
	dir, err := os.MkdirTemp("", "linelog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "app.log")
	w, err := linelog.Open(path, linelog.Options{})
	if err != nil {
		log.Fatal(err)
	}
	a, b := w.Stream(), w.Stream()
	for _, write := range []struct {
		to   io.Writer
		text string
	}{{a, "one, "}, {b, "1, "}, {a, "two\n"}, {b, "2"}} {
		if _, err := io.WriteString(write.to, write.text); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil { // ends the line of b
		log.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	// Output:
	// one, two
	// 1, 2
}
