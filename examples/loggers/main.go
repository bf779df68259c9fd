// loggers logs the same through log/slog, zap and zerolog, into one linelog.Writer:
// whole lines of all three, none of which waits for the disk, rotated by size, and
// all of them on the disk when it ends.
//
//	go run . FILE
//
// It is a module of its own so that whoever uses tidemark needs neither zap nor
// zerolog.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tidemark-log/tidemark/linelog"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: loggers FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], 1000); err != nil {
		fmt.Fprintln(os.Stderr, "loggers:", err)
		os.Exit(1)
	}
}

// run logs n records by each logger at the same time.
func run(path string, n int) (err error) {
	w, err := linelog.Open(path, linelog.Options{
		Rotate: linelog.Rotation{Size: 64 << 10, Keep: 20},
		Watch:  true, // and logrotate may come, too
		Say:    func(text string) { fmt.Fprintln(os.Stderr, text) },
	})
	if err != nil {
		return err
	}
	// After Close all is synced; its error says what is not.
	defer func() { err = errors.Join(err, w.Close()) }()
	bySlog, byZap, byZerolog := slog.New(linelog.NewHandler(w, linelog.HandlerOptions{Format: linelog.JSON})), newZap(w), newZerolog(w)
	var all sync.WaitGroup
	all.Go(func() {
		for i := range n {
			bySlog.Info("served", "id", i)
		}
	})
	all.Go(func() {
		for i := range n {
			byZap.Info("served", zap.Int("id", i))
		}
	})
	all.Go(func() {
		for i := range n {
			byZerolog.Info().Int("id", i).Msg("served")
		}
	})
	all.Wait()
	return byZap.Sync() // fdatasync, shared with whoever else asks for it
}

// newZap returns a zap logger that writes to w. zap writes a whole line a call; w needs
// no zapcore.Lock and no BufferedWriteSyncer.
func newZap(w *linelog.Writer) *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapSync{w}, zapcore.InfoLevel))
}

// zapSync is a zapcore.WriteSyncer. zap calls Sync before it panics or exits, and so
// does Logger.Sync.
type zapSync struct{ *linelog.Writer }

func (z zapSync) Sync() error { return z.Writer.Sync(context.Background()) }

// newZerolog returns a zerolog logger that writes to w: an io.Writer is all it takes.
// Unlike its diode, w drops nothing unless Options.Full says so.
func newZerolog(w *linelog.Writer) *zerolog.Logger {
	l := zerolog.New(w).With().Timestamp().Logger()
	return &l
}
