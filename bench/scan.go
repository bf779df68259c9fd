package main

import (
	"context"
	_ "embed" // libsystemd/scan.c
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tidemark-log/tidemark/journal"
)

//go:embed libsystemd/scan.c
var scanSource []byte

// scan does what libsystemd/scan.c does, through package journal.
func scan(args []string) error {
	j, err := journal.ReadOptions{Map: true}.Open(args)
	if err != nil {
		return err
	}
	defer j.Close() //nolint:errcheck // only read
	var entries, fields, size, sum uint64
	for e, err := range j.All() {
		if err != nil {
			return err
		}
		entries++
		fields += uint64(len(e.Fields))
		for _, f := range e.Fields {
			size += uint64(len(f))
			sum += uint64(f[0]) + uint64(f[len(f)-1])
		}
	}
	fmt.Printf("%d entries, %d fields, %d bytes, sum %d\n", entries, fields, size, sum)
	return nil
}

// scanSides is the row of the library: this program and one in C, which is built
// here. Both must have read the same.
func scanSides(ctx context.Context, s settings, file string) (sidesOf, error) {
	if err := need("gcc"); err != nil {
		return sidesOf{}, err
	}
	source, program := filepath.Join(s.dir, "scan.c"), filepath.Join(s.dir, "scan")
	if err := os.WriteFile(source, scanSource, 0o644); err != nil {
		return sidesOf{}, err
	}
	if out, err := exec.CommandContext(ctx, "gcc", "-O2", "-o", program, source, "-lsystemd").CombinedOutput(); err != nil {
		return sidesOf{}, fmt.Errorf("build a program with libsystemd (apt install libsystemd-dev): %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return sidesOf{}, err
	}
	row := sidesOf{name: "library, every field", ours: []string{self, "scan", file}, theirs: []string{program, file}, bound: 2.5, rounds: 3 * s.rounds}
	ours, err := exec.CommandContext(ctx, row.ours[0], row.ours[1:]...).Output()
	if err != nil {
		return row, err
	}
	theirs, err := exec.CommandContext(ctx, program, file).Output()
	if err == nil && string(ours) != string(theirs) {
		err = fmt.Errorf("they read different things: %s%s", ours, theirs)
	}
	return row, err
}
