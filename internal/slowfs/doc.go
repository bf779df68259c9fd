// Package slowfs is a file system for tests: a directory seen through FUSE, in
// which calls can be held, delayed and made to fail by rule, and the power can be
// cut.
//
// The file system is always a process of its own. A process that maps a file
// which it serves itself can wait for itself for ever, and a goroutine in a page
// fault stops the others of its process. Mount starts that process, the test's
// own binary once more, so the package's TestMain begins with Child:
//
//	func TestMain(m *testing.M) {
//		slowfs.Child()
//		os.Exit(m.Run())
//	}
//
//	fs := slowfs.Mount(t, t.TempDir(), slowfs.Options{PowerCut: true})
//	fs.Set(slowfs.Rule{Calls: []slowfs.Call{slowfs.Fsync}, Hold: true})
//	… something in fs.Path() syncs …
//	fs.WaitHeld(slowfs.Fsync, 1)
//	fs.Set() // no rules: the held call goes on
//
// It ends, and is unmounted, with the test, also when that fails, panics or is
// killed. internal/slowfs/cmd/slowfs mounts one to try things by hand.
//
// # What an fsync covers
//
// The kernel runs the mount without its writeback cache, and without direct I/O.
// So each write(2) is one WRITE (one for each MiB) that is answered before the call
// returns: rules for writes hit the call that is meant, and a write that returned
// before an fsync began has been seen before that FSYNC. With the writeback cache
// short writes and full disks would come up at some later fsync or nowhere, and
// what is written twice would be seen once. With direct I/O files could not be
// mapped, as journalctl does. What is stored into a shared mapping is seen when
// the kernel writes it back: with msync, fsync, sync_file_range, or when it likes,
// in the order it likes. An fsync sends it all before its FSYNC, so that an FSYNC
// covers the WRITEs that were answered when it came in, and only those.
//
// # What a power cut leaves
//
// The model is crashfs's. A page (4096 bytes) that was written and not yet synced
// may hold any of the contents it had since the last sync that covered it, pages
// being independent of each other; so may the size of a file. Creations, renames and removals of names
// survive when their directory was synced, and up to any one of those since, in
// order. After a failed sync the pages that were dirty count as clean: a later sync
// that succeeds does not cover them. A seed chooses. Modes, contents, symbolic and
// hard links are kept; owners, times and extended attributes are not.
//
// # What it cannot do
//
// Linux's FUSE holds the lock of the inode during FSYNC, so a write to a file
// waits for a held or delayed fsync of the same file, as it does on some other file systems and
// not on ext4 or XFS. A signal does not end a call that is held, as on a
// disk; SIGKILL does.
package slowfs
