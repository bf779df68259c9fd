package settle

import "fmt"

// Level says how far a record has come. Each level includes the ones before.
type Level uint8

const (
	// Accepted: in the memory of the process that will write it.
	Accepted Level = iota
	// Appended: in the page cache. Other processes see it, and it survives the
	// death of the process, not a power cut.
	Appended
	// Synced: on stable storage. It survives a power cut.
	Synced
	// Replicated: on stable storage of other machines too.
	Replicated
)

var levelNames = [...]string{"accepted", "appended", "synced", "replicated"}

// String returns the name that ParseLevel reads.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// ParseLevel reads an ack level as a user writes it: appended, synced or
// replicated.
func ParseLevel(s string) (Level, error) {
	for l := Appended; l <= Replicated; l++ {
		if s == levelNames[l] {
			return l, nil
		}
	}
	return 0, fmt.Errorf("invalid ack level %q: want appended or synced", s)
}
