package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/config"
)

// applyNice gives the process the priority that the configuration asks for. The
// default is only a wish: it is left alone when somebody has chosen another
// priority for us, or when we may not.
func (d *daemon) applyNice(cfg config.Config) {
	nice := config.DefaultNice
	if cfg.Nice != nil {
		nice = *cfg.Nice
	} else if niceNow() != 0 {
		return
	}
	if err := setNice(nice); err != nil && (cfg.Nice != nil || !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM)) {
		d.say(fmt.Sprintf("Nice=%d: %v", nice, err))
	}
}

// niceNow is the priority of the main thread.
func niceNow() int {
	const base = 20 // the system call returns 20 - nice
	p, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil {
		return 0
	}
	return base - p
}

// setNice sets the priority of all threads: on Linux each has its own, and
// hands it down to those that it starts. So it ends when several looks at the list
// find none that it has not set: one that was being started while its parent was set
// has the old priority, and is listed a moment later.
func setNice(nice int) error {
	const looks = 10
	set := make(map[int]bool)
	for quiet := 0; quiet < looks; quiet++ {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || set[tid] {
				continue
			}
			set[tid], quiet = true, -1
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}
