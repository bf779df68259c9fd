package entry

// Levels is how many levels PRIORITY counts: from 0, emerg, to 7, debug.
const Levels = 8

var levelNames = [Levels]string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

// LevelNames returns syslog's names of the levels, the one of level n at n.
func LevelNames() [Levels]string { return levelNames }

// ParseLevel reads a level as systemd writes it: one of LevelNames, or a digit
// from 0 to 7. Other case and other words are none.
func ParseLevel(s string) (level int, ok bool) {
	for i, name := range levelNames {
		if s == name {
			return i, true
		}
	}
	if len(s) == 1 && s[0] >= '0' && s[0] < '0'+Levels {
		return int(s[0] - '0'), true
	}
	return 0, false
}
