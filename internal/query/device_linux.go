package query

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

// addDevice adds what the kernel says about a device node and the devices it
// hangs on, in this boot.
func (g *group) addDevice(node string, info fs.FileInfo, o *Options) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !strings.HasPrefix(node, "/dev/") {
		return wordsf("Devpath does not start with /dev/")
	}
	kind := "block"
	if info.Mode()&os.ModeCharDevice != 0 {
		kind = "char"
	}
	sys, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/%s/%d:%d", kind, unix.Major(st.Rdev), unix.Minor(st.Rdev)))
	if err != nil {
		return wordsf("Failed to get device from devnum %d:%d: %w", unix.Major(st.Rdev), unix.Minor(st.Rdev), Reason(err))
	}
	for ; strings.HasPrefix(sys, "/sys/devices/"); sys = filepath.Dir(sys) {
		subsystem, err := os.Readlink(filepath.Join(sys, "subsystem"))
		if err != nil {
			continue
		}
		g.add("_KERNEL_DEVICE=+" + filepath.Base(subsystem) + ":" + filepath.Base(sys))
		if number, err := os.ReadFile(filepath.Join(sys, "dev")); err == nil {
			letter := "c"
			if filepath.Base(subsystem) == "block" {
				letter = "b"
			}
			g.add("_KERNEL_DEVICE=" + letter + strings.TrimSpace(string(number)))
		}
	}
	boot := o.ThisBoot
	if boot.IsZero() {
		if boot, err = CurrentBoot(); err != nil {
			return err
		}
	}
	g.add("_BOOT_ID=" + boot.String())
	return nil
}

// CurrentBoot returns the id of the boot that runs.
func CurrentBoot() (entry.ID, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return entry.ID{}, wordsf("Failed to get boot ID: %w", Reason(err))
	}
	return entry.ParseID(strings.TrimSpace(string(text)))
}
