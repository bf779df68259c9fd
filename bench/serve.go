package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
)

// startServe starts tidemark with arguments of its own on a fresh directory of the
// same file system as the others, with sockets on the same /run.
func startServe(ctx context.Context, s settings, args ...string) (*daemon, error) {
	data, err := os.MkdirTemp(s.dir, "tidemark-")
	if err != nil {
		return nil, err
	}
	d := &daemon{name: "tidemark", data: data, run: "/run/tidemark"}
	conf, err := os.CreateTemp(s.dir, "tidemark-*.conf")
	if err != nil {
		return nil, err
	}
	d.conf = conf.Name()
	text := "[Journal]\nReadKMsg=no\n" + s.sizes() // as journaldConf
	if s.nice != "" {
		text += "Nice=" + s.nice + "\n"
	}
	_, err = conf.WriteString(text)
	if err = errors.Join(err, conf.Close()); err != nil {
		return nil, err
	}
	d.cmd = exec.Command(s.tidemark, slices.Concat([]string{"serve", "--data", data, "--run", d.run, "--config", d.conf}, args)...)
	return d, d.start(ctx, s)
}
