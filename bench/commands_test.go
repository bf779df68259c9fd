package main

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/selfbench"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// TestCalls holds callOn against a server that answers in pieces, with an error,
// and not at all.
func TestCalls(t *testing.T) {
	run := sockdir.New(t)
	l, err := net.Listen("unix", filepath.Join(run, "io.systemd.journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	asked := make(chan string, 1<<20)
	serve := func(pieces ...string) {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		for {
			call, err := in.ReadString(0)
			if err != nil || len(pieces) == 0 {
				return
			}
			asked <- call
			for _, p := range pieces {
				if _, err := c.Write([]byte(p)); err != nil {
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		pieces  []string
		refused bool
		want    string // in the error; empty: none
	}{
		"whole":      {[]string{"{}\x00"}, false, ""},
		"pieces":     {[]string{`{"parameters"`, ":{}}", "\x00"}, false, ""},
		"refused":    {[]string{`{"error":"x"}` + "\x00"}, true, ""},
		"unexpected": {[]string{`{"error":"x"}` + "\x00"}, false, `unexpected answer "{\"error\"`},
		"taken":      {[]string{"{}\x00"}, true, "unexpected answer"},
		"gone":       {nil, false, "no answer after"},
	} {
		served := make(chan struct{})
		go func() { defer close(served); serve(c.pieces...) }()
		fd, err := connectCommands(&daemon{name: name, run: run})
		if err != nil {
			t.Fatal(err)
		}
		var all selfbench.Latencies
		err = callOn(context.Background(), fd, commanded{method: "org.example.M", refused: c.refused}, 5*time.Millisecond, &all)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && (all.N() == 0 || <-asked != "{\"method\":\"org.example.M\"}\x00") {
			t.Errorf("%s: %d calls", name, all.N())
		}
		if err := syscall.Close(fd); err != nil {
			t.Error(err)
		}
		<-served
		for len(asked) > 0 {
			<-asked
		}
	}
}
