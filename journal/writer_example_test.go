package journal_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// Writing entries that survive a power cut, and reading them back.
func ExampleWriter() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "app.journal")
	if err := writeExample(context.Background(), path); err != nil {
		log.Print(err)
		return
	}

	j, err := journal.Open([]string{path})
	if err != nil {
		log.Print(err)
		return
	}
	defer j.Close()
	for e, err := range j.All() {
		if err != nil {
			log.Print(err)
			return
		}
		message, _ := e.Get("MESSAGE")
		fmt.Printf("%d %s %s\n", e.Seqnum, e.BootID, message)
	}
	// Output:
	// 1 710d035a90fb403c855864972948eda1 started
	// 2 710d035a90fb403c855864972948eda1 listening
}

func writeExample(ctx context.Context, path string) (err error) {
	// On a machine: the contents of /etc/machine-id and, without its dashes,
	// /proc/sys/kernel/random/boot_id.
	machine, err := entry.ParseID("c93a2b6c1f8d4a4b9d7a1c0c6d1f3e52")
	if err != nil {
		return err
	}
	boot, err := entry.ParseID("710d035a90fb403c855864972948eda1")
	if err != nil {
		return err
	}
	w, err := journal.Create(path, journal.Options{MachineID: machine, BootID: boot})
	if err != nil {
		return err
	}
	var pos journal.Pos
	for _, message := range []string{"started", "listening"} {
		e := entry.Entry{Fields: []entry.Field{
			entry.Field("MESSAGE=" + message),
			entry.Field("PRIORITY=6"),
			entry.Field("_BOOT_ID=" + boot.String()), // for journalctl -b
		}}
		if pos, _, err = w.Append(ctx, []entry.Entry{e}); err != nil {
			return err
		}
	}
	if err := w.Wait(ctx, pos, settle.Synced); err != nil {
		return err
	}
	return w.Close()
}
