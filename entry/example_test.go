package entry_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

func ExampleExportReader() {
	stream := "__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=hello\nPRIORITY=6\n\n"
	r := entry.NewExportReader(strings.NewReader(stream), entry.ExportOptions{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, f := range e.Fields {
			fmt.Printf("%s: %s\n", f.Name(), f.Value())
		}
	}
	// Output:
	// MESSAGE: hello
	// PRIORITY: 6
}

func ExampleJSONDecoder() {
	var d entry.JSONDecoder
	e, _, err := d.Decode([]byte(`{"msg": "disk full", "level": "error", "disk": {"name": "sda", "free": 0}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = os.Stdout.Write(entry.AppendNative(nil, e.Fields))
	// Output:
	// MESSAGE=disk full
	// PRIORITY=3
	// DISK_NAME=sda
	// DISK_FREE=0
}
