package daemon

import (
	"cmp"
	"path/filepath"

	"github.com/tidemark-log/tidemark/internal/remote"
	"github.com/tidemark-log/tidemark/journal"
)

// messageRemote is the message id of what happens to the files of other machines.
const messageRemote = "c1d84b7e0f3a4e5692ab67d05e93f218"

// openRemote brings up the files of other machines, beside the store's.
func (d *daemon) openRemote() (err error) {
	d.remote, err = remote.Open(remote.Config{
		FS:        d.fs,
		Dir:       filepath.Join(d.data, d.machine.String()),
		MachineID: d.machine,
		Settings:  d.remoteSettings,
		Event:     func(priority int, text string) { d.store.Event(priority, messageRemote, text) },
		Rotated:   d.store.LookAgain,
		Effects:   &d.effects,
	})
	return err
}

// remoteSettings are those that a file of another machine is opened with. A file is
// no larger than an eighth of a tenth of the file system, as the store's.
func (d *daemon) remoteSettings() remote.Settings {
	set := remote.Settings{MaxSize: journal.DefaultMaxSize}
	total, err := d.space()
	if err == nil {
		set.MaxSize = min(set.MaxSize, total/80)
	}
	s := settings(d.config(), total)
	set.MaxSize = cmp.Or(s.Limits.MaxFileSize, set.MaxSize)
	set.Sync, set.Index, set.CompressThreshold, set.Flavour = s.Sync, s.Index, s.CompressThreshold, s.Flavour
	return set
}

// closeRemote ends the uploads in progress and closes their files.
func (d *daemon) closeRemote() error {
	d.web.EndUploads()
	return d.remote.Close()
}
