package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tidemark-log/tidemark/journal"
)

// Reading a journal that is no file of the system, here one in memory. A File reads
// through any io.ReaderAt.
func ExampleNewFile() {
	b := exampleBytes()
	f, err := journal.NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "in memory")
	if err != nil {
		log.Fatal(err)
	}
	j := journal.ReadOptions{}.New()
	j.AddFile(f)
	defer j.Close()
	for e, err := range j.All() {
		if err != nil {
			log.Print(err)
			return
		}
		// message is valid until the next entry: copy what is kept.
		message, _ := e.Get("MESSAGE")
		fmt.Printf("%d %s\n", e.Seqnum, message)
	}
	// Output:
	// 1 started
	// 2 GET /
	// 3 job done
	// 4 stopped
}

// Saving what is left of a damaged file.
func ExampleRescue() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b := exampleBytes()
	clear(b[176:184]) // where the list of all entries begins
	if err := os.WriteFile(dir+"/bad.journal", b, 0o600); err != nil {
		log.Print(err)
		return
	}
	report, err := journal.Rescue(context.Background(), dir+"/bad.journal", dir+"/good.journal", journal.RescueOptions{})
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(report.Entries, "of", report.Counted, "entries saved")
	// Output: 4 of 4 entries saved
}

func exampleBytes() []byte {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exampleFile(dir + "/system.journal")
	b, err := os.ReadFile(dir + "/system.journal")
	if err != nil {
		log.Print(err)
	}
	return b
}
