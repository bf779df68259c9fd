package store

import "time"

// Limits of space, number and age, those of journald.conf. A zero field means
// journald's default, which depends on the size of the file system.
type Limits struct {
	// MaxUse bounds what all files take, in bytes. Default: a tenth of the file
	// system, between 1 MiB and 4 GiB.
	MaxUse uint64
	// KeepFree is what is left to others, in bytes. Default: a twentieth of the
	// file system, at most 4 GiB.
	KeepFree uint64
	// MaxFileSize is the size at which a file is full, in bytes. Default: an
	// eighth of MaxUse, at most 128 MiB, at least 512 KiB.
	MaxFileSize uint64
	// MaxFiles bounds the number of files, the current ones included. Default:
	// 100; less than 0: no bound.
	MaxFiles int
	// MaxFileAge rotates a file whose first entry is older. Default: a month;
	// less than 0: never.
	MaxFileAge time.Duration
	// MaxRetention removes archived files whose first entry is older. 0: never.
	MaxRetention time.Duration

	minUse uint64 // vacuum never goes below
}

// journald's defaults and bounds, in bytes.
const (
	maxUseLower   = 1 << 20
	maxUseUpper   = 4 << 30
	minUseUpper   = 16 << 20
	keepFreeUpper = 4 << 30
	fileSizeLower = 512 << 10
	fileSizeUpper = 128 << 20

	defaultMaxFiles = 100
	// defaultFileAge is systemd's month: 30.4375 days.
	defaultFileAge = 2629800 * time.Second
)

// resolve fills in what is zero for a file system of total bytes.
func (l Limits) resolve(total uint64) Limits {
	if l.MaxUse == 0 {
		l.MaxUse = min(max(total/10, maxUseLower), maxUseUpper)
	}
	if l.KeepFree == 0 {
		l.KeepFree = min(total/20, keepFreeUpper)
	}
	if l.MaxFileSize == 0 {
		l.MaxFileSize = min(l.MaxUse/8, fileSizeUpper)
	}
	l.MaxFileSize = max(l.MaxFileSize, fileSizeLower)
	l.MaxUse = max(l.MaxUse, 2*l.MaxFileSize)
	l.minUse = min(min(max(total/50, maxUseLower), minUseUpper), l.MaxUse)
	if l.MaxFiles == 0 {
		l.MaxFiles = defaultMaxFiles
	}
	if l.MaxFileAge == 0 {
		l.MaxFileAge = defaultFileAge
	}
	return l
}
