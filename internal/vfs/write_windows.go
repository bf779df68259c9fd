package vfs

import "syscall"

// rawWrite is one WriteFile.
func rawWrite(fd uintptr, p []byte) (int, error) { return syscall.Write(syscall.Handle(fd), p) }
