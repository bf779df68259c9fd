package journal_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// The last two messages of a unit in the past hour, newest first.
func ExampleJournal_Query() {
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
	q := journal.Query{
		Match:   journal.Term(entry.Field("_SYSTEMD_UNIT=web.service")),
		Since:   time.Now().Add(-time.Hour),
		Reverse: true,
		Limit:   2,
		Fields:  []string{"MESSAGE"},
	}
	for e, err := range j.Query(context.Background(), q) {
		if err != nil {
			log.Print(err)
			return
		}
		message, _ := e.Get("MESSAGE")
		fmt.Printf("%s\n", message)
	}
	// Output:
	// stopped
	// GET /
}
