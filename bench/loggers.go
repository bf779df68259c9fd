package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tidemark-log/tidemark/linelog"
)

// loggerLines are the records of a run, of all callers together.
const loggerLines = 160_000

// loggerCallers log at the same time.
var loggerCallers = [...]int{1, 8}

// logger is one way to log into a file from this process.
type logger struct {
	name string
	open func(path string) (log func(id int), end func() error, err error)
}

// loggers are the ways; the second is what the others are held against.
var loggers = [...]logger{
	{"slog, each line a write(2)", openPlainSlog},
	{"zap, BufferedWriteSyncer", openZap},
	{"slog, linelog, JSON", func(path string) (func(int), func() error, error) { return openLinelog(path, linelog.JSON) }},
	{"slog, linelog, logfmt", func(path string) (func(int), func() error, error) { return openLinelog(path, linelog.Logfmt) }},
}

// logged is a run.
type logged struct {
	rate float64 // calls a second until the last has returned
	end  float64 // and until all is in the file and it is synced
	cpu  float64 // µs a call, of all threads
}

// benchLoggers measures calls of loggers in this process, from the first until all
// is in the file and synced, and looks for every line afterwards.
func benchLoggers(ctx context.Context, s settings) error {
	fmt.Printf("\n## loggers: %d lines of three attributes in this process; %d interleaved rounds, the median counts\n\n", loggerLines, s.rounds)
	fmt.Println("| logger | callers | calls/s | to zap's | until all is synced | to zap's | CPU µs a call | to zap's |\n|---|---|---|---|---|---|---|---|")
	for _, callers := range loggerCallers {
		var runs [len(loggers)][]logged
		for range s.rounds {
			for i, l := range loggers {
				if err := ctx.Err(); err != nil {
					return err
				}
				r, err := logOnce(s, l, callers)
				if err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				runs[i] = append(runs[i], r)
			}
		}
		of := func(i int) logged {
			return logged{
				rate: median(runs[i], func(r logged) float64 { return r.rate }),
				end:  median(runs[i], func(r logged) float64 { return r.end }),
				cpu:  median(runs[i], func(r logged) float64 { return r.cpu }),
			}
		}
		zap := of(1)
		for i, l := range loggers {
			r := of(i)
			fmt.Printf("| %s | %d | %.0f | %.2f | %.0f | %.2f | %.2f | %.2f |\n", l.name, callers, r.rate, r.rate/zap.rate, r.end, r.end/zap.end, r.cpu, r.cpu/zap.cpu)
		}
	}
	return nil
}

// logOnce is a run of one logger.
func logOnce(s settings, l logger, callers int) (r logged, err error) {
	path := filepath.Join(s.dir, "loggers.log")
	log, finish, err := l.open(path)
	if err != nil {
		return logged{}, err
	}
	runtime.GC() // what the round before has left
	begin, cpu := time.Now(), processTime()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range loggerLines / callers {
				log(i*callers + c)
			}
		})
	}
	all.Wait()
	r.rate = loggerLines / time.Since(begin).Seconds()
	if err := finish(); err != nil {
		return logged{}, err
	}
	r.end = loggerLines / time.Since(begin).Seconds()
	r.cpu = float64((processTime() - cpu).Nanoseconds()) / 1e3 / loggerLines
	return r, errors.Join(everyLine(path), os.Remove(path))
}

// everyLine fails if a line is lost, doubled or torn.
func everyLine(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	seen := make([]bool, loggerLines)
	n := 0
	for line := range bytes.Lines(text) {
		id := lineID(line)
		if id < 0 || id >= loggerLines || seen[id] {
			return fmt.Errorf("line %d is not one that was logged, or a second time: %q", n+1, line)
		}
		seen[id] = true
		n++
	}
	if n != loggerLines {
		return fmt.Errorf("%d of %d lines are in the file", n, loggerLines)
	}
	return nil
}

// lineID is the number of a record, -1 in a line that has none.
func lineID(line []byte) int {
	for _, name := range []string{`"id":`, "id="} {
		if _, after, ok := bytes.Cut(line, []byte(name)); ok && line[len(line)-1] == '\n' {
			digits := 0
			for after[digits] >= '0' && after[digits] <= '9' {
				digits++
			}
			if id, err := strconv.Atoi(string(after[:digits])); err == nil {
				return id
			}
		}
	}
	return -1
}

// logSlog logs record id.
func logSlog(h slog.Handler) func(id int) {
	l := slog.New(h)
	return func(id int) {
		l.LogAttrs(context.Background(), slog.LevelInfo, "request served", slog.Int("id", id), slog.String("path", "/var/lib/thing"), slog.Duration("took", 1234*time.Microsecond))
	}
}

func openPlainSlog(path string) (func(int), func() error, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return logSlog(slog.NewJSONHandler(f, nil)), func() error { return errors.Join(f.Sync(), f.Close()) }, nil
}

func openLinelog(path string, format linelog.Format) (func(int), func() error, error) {
	w, err := linelog.Open(path, linelog.Options{})
	if err != nil {
		return nil, nil, err
	}
	end := func() error {
		err := w.Close()
		if st := w.Stats(); st.Dropped+st.Lost > 0 {
			err = errors.Join(err, fmt.Errorf("%d lines dropped, %d lost", st.Dropped, st.Lost))
		}
		return err
	}
	return logSlog(linelog.NewHandler(w, linelog.HandlerOptions{Format: format})), end, nil
}

func openZap(path string) (func(int), func() error, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	ws := &zapcore.BufferedWriteSyncer{WS: f}
	l := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), ws, zapcore.InfoLevel))
	log := func(id int) {
		l.Info("request served", zap.Int("id", id), zap.String("path", "/var/lib/thing"), zap.Duration("took", 1234*time.Microsecond))
	}
	return log, func() error { return errors.Join(ws.Stop(), f.Close()) }, nil
}
