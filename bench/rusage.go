package main

import (
	"os"
	"syscall"
)

// maxRSS is the largest resident size of an ended process, in KiB.
func maxRSS(p *os.ProcessState) int64 {
	if r, ok := p.SysUsage().(*syscall.Rusage); ok {
		return r.Maxrss
	}
	return 0
}
