package journal_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// Reading the entries of one unit that are no debug messages, newest first.
func ExampleJournal_Previous() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exampleFile(dir + "/system.journal")

	j, err := journal.OpenDir(dir)
	if err != nil {
		log.Print(err)
		return
	}
	defer j.Close()
	j.SetMatch(journal.And(
		journal.Term(entry.Field("_SYSTEMD_UNIT=web.service")),
		journal.Not(journal.Term(entry.Field("PRIORITY=7"))),
	))
	j.SeekTail()
	for e, err := range j.Backward() {
		if err != nil {
			log.Print(err)
			return
		}
		message, _ := e.Get("MESSAGE")
		fmt.Printf("%s\n", message)
	}
	// Output:
	// stopped
	// started
}

func exampleFile(path string) {
	w, err := journal.Create(path, journal.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, fields := range [][]entry.Field{
		{entry.Field("MESSAGE=started"), entry.Field("PRIORITY=6"), entry.Field("_SYSTEMD_UNIT=web.service")},
		{entry.Field("MESSAGE=GET /"), entry.Field("PRIORITY=7"), entry.Field("_SYSTEMD_UNIT=web.service")},
		{entry.Field("MESSAGE=job done"), entry.Field("PRIORITY=6"), entry.Field("_SYSTEMD_UNIT=cron.service")},
		{entry.Field("MESSAGE=stopped"), entry.Field("PRIORITY=6"), entry.Field("_SYSTEMD_UNIT=web.service")},
	} {
		if _, _, err := w.Append(context.Background(), []entry.Entry{{Fields: fields}}); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
}
