package journal_test

import (
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// A slog.Logger that writes a journal file: attributes are fields, to be matched by
// journalctl --file. Errors are on the disk when the call returns.
func ExampleNewHandler() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	w, err := journal.Create(dir+"/shop.journal", journal.Options{})
	if err != nil {
		log.Fatal(err)
	}
	logger := slog.New(journal.NewHandler(w, journal.HandlerOptions{
		Fields: []entry.Field{entry.Field("SYSLOG_IDENTIFIER=shop")},
		Ack:    slog.LevelError,
	}))
	logger.Info("order paid", "order", 17)
	logger.WithGroup("card").Error("refused", "code", 51)
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	j, err := journal.Open([]string{dir + "/shop.journal"})
	if err != nil {
		log.Print(err)
		return
	}
	defer j.Close()
	j.SetMatch(journal.Term(entry.Field("CARD_CODE=51")))
	for e, err := range j.All() {
		if err != nil {
			log.Print(err)
			return
		}
		message, _ := e.Get("MESSAGE")
		level, _ := e.Get("PRIORITY")
		fmt.Printf("%s, priority %s\n", message, level)
	}
	// Output: refused, priority 3
}
