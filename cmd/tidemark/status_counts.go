package main

import (
	"fmt"
	"strings"

	"github.com/tidemark-log/tidemark/internal/control"
)

// countText says in words what the daemon has counted: how often, and what of it
// was lost or changed. A reason without words is shown as it is.
func countText(c control.Count) string {
	switch c.Name + " " + c.Reason {
	case "http bytes":
		return bytesText(c.N) + " of accepted lines"
	case "upload bytes":
		return bytesText(c.N) + " of bodies, uncompressed"
	}
	words, ok := countWords(c.Name, c.Reason)
	if !ok {
		words = strings.ReplaceAll(c.Reason, "_", " ")
	}
	return plural(c.N, words)
}

// plural is n and words, whose first word is a plural.
func plural(n uint64, words string) string {
	first, rest, _ := strings.Cut(words, " ")
	if n == 1 {
		if stem, ok := strings.CutSuffix(first, "ies"); ok {
			first = stem + "y"
		} else {
			first = strings.TrimSuffix(first, "s")
		}
	}
	return strings.TrimSuffix(fmt.Sprintf("%d %s %s", n, first, rest), " ")
}

// countWords are the words behind the number.
func countWords(name, reason string) (words string, ok bool) {
	for _, m := range []map[string]string{
		{
			"peer lookups":           "lookups in /proc of who sends",
			"peer gone":              "messages of processes that had ended before they were looked at",
			"peer pid_reused":        "pids that had passed to another process",
			"http level":             "lines dropped: above MaxLevelStore",
			"varlink level":          "entries dropped: above MaxLevelStore",
			"native bad_names":       "fields dropped: invalid names",
			"native too_many_fields": "entries dropped: too many fields",
			"native malformed":       "messages cut short: malformed from there on",
			"kmsg bad_names":         "fields dropped: invalid names",
			"stdout streams":         "streams opened",
		},
		{
			"entries":           "entries taken",
			"noise":             "lines dropped: the last of a datagram, without its newline",
			"malformed":         "messages dropped: malformed",
			"too_large":         "entries dropped: too large",
			"empty":             "entries dropped: empty",
			"truncated":         "messages dropped: longer than a datagram may be",
			"control_truncated": "messages dropped: their ancillary data was cut",
			"unexpected_fds":    "messages dropped: they passed descriptors where none belong",
			"fd_path":           "messages dropped: their file is neither sealed nor in a temporary directory",
			"fd_kind":           "messages dropped: what they passed is no regular file",
			"fd_size":           "messages dropped: their file is empty or has holes",
			"fd_rate":           "messages dropped: their user passes too many large files",
			"fd_unreadable":     "messages dropped: their file cannot be read",
			"rate_limited":      "messages dropped: over the rate limit",
			"level":             "messages dropped: above MaxLevelStore, or their unit's LogLevelMax",
			"refused":           "messages lost: the store did not take them",
			"too_many_streams":  "streams refused: too many at once",
			"no_descriptors":    "times a stream waited: no descriptor was free",
			"bad_header":        "streams closed: invalid header",
			"unreadable":        "times reading failed",
			"missed":            "messages lost: the kernel overwrote them before they were read",
			"overrun":           "times the kernel overtook the reader",
		},
		{
			"underscores":     "names lost the _ they began with",
			"cut_names":       "names cut to 64 bytes",
			"null_values":     "nulls dropped",
			"too_many_fields": "fields dropped: too many in a line",
			"bad_line":        "requests refused: a bad line",
			"too_long":        "requests refused: a line or body over the limit",
			"buffer_full":     "requests refused: the buffer was full",
			"disk_full":       "requests refused: the disk was full",
			"failed":          "requests failed",
			"bad_type":        "requests refused: a Content-Type or Content-Encoding not taken there",
			"bad_host":        "requests refused: a foreign Host",
			"bad_origin":      "requests refused: a browser sent them for another site",
		},
		partWords(),
	} {
		if words, ok = m[name+" "+reason]; ok {
			return words, true
		}
		if words, ok = m[reason]; ok && name != "store" && name != "access_log" && name != "funnel" {
			return words, true
		}
	}
	return "", false
}

// partWords are those of what parts count that take no messages.
func partWords() map[string]string {
	return map[string]string{
		"store unstorable":     "entries left out: no file can hold them",
		"store clock_step":     "steps back of the clock bridged",
		"store disk_full":      "times a write met a full disk",
		"store lost_event":     "events of tidemark's own lost: no room",
		"store rotation":       "rotations",
		"store removed_file":   "files removed for space, number or age",
		"upload rotation":      "rotations",
		"upload order_break":   "rotations because the order broke",
		"access_log dropped":   "lines dropped: no room",
		"access_log lost":      "lines lost: in a file whose sync failed",
		"access_log failed":    "requests waited for their line in vain",
		"access_log set_aside": "files set aside: their sync failed",
		"funnel lines":         "lines taken for files of clients",
		"funnel refused":       "descriptors refused: not two of one file, or not as they are to be",
		"funnel lost":          "lines lost: in a file whose sync failed",
		"store read_back":      "entries that a failed sync had left, stored again",
		"store not_read_back":  "entries that a failed sync had left and that could not be read back",
	}
}
