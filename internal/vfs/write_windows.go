package vfs

import "syscall"

// rawWrite is one WriteFile.
func rawWrite(fd uintptr, p []byte) (int, error) { return syscall.Write(syscall.Handle(fd), p) }

// NoFollow is for systems that can open a name only if it is no symbolic link.
const NoFollow = 0
