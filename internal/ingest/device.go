package ingest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// maxDevLinks is how many links to a device's node are told, as journald.
const maxDevLinks = 32

// appendDeviceFields appends what sysfs and udev tell about the device that a
// kernel message is about: bMAJOR:MINOR, cMAJOR:MINOR, nIFINDEX or
// +SUBSYSTEM:NAME. Unknown devices add nothing.
func appendDeviceFields(dst []entry.Field, id string) []entry.Field {
	dir := deviceDir(id)
	if dir == "" {
		return dst
	}
	if uevent, err := os.ReadFile(filepath.Join(dir, "uevent")); err == nil {
		for line := range bytes.Lines(uevent) {
			if node, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("DEVNAME=")); ok {
				dst = append(dst, entry.Field("_UDEV_DEVNODE=/dev/"+strings.TrimPrefix(string(node), "/dev/")))
			}
		}
	}
	name := strings.ReplaceAll(filepath.Base(dir), "!", "/")
	dst = append(dst, entry.Field("_UDEV_SYSNAME="+name))
	links := 0
	udev, err := os.ReadFile(filepath.Join("/run/udev/data", id))
	if err != nil {
		return dst
	}
	for line := range bytes.Lines(udev) {
		if link, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("S:")); ok && links < maxDevLinks {
			dst = append(dst, entry.Field("_UDEV_DEVLINK=/dev/"+string(link)))
			links++
		}
	}
	return dst
}

// deviceDir finds a device's directory in sysfs; empty if there is none.
func deviceDir(id string) string {
	if len(id) < 2 || strings.Contains(id, "..") {
		return ""
	}
	var path string
	switch rest := id[1:]; id[0] {
	case 'b', 'c':
		if !only(rest, digits+":") {
			return ""
		}
		path = filepath.Join("/sys/dev", map[byte]string{'b': "block", 'c': "char"}[id[0]], rest)
	case 'n':
		index, err := strconv.Atoi(rest)
		if err != nil {
			return ""
		}
		i, err := net.InterfaceByIndex(index)
		if err != nil {
			return ""
		}
		path = filepath.Join("/sys/class/net", i.Name)
	case '+':
		subsystem, name, ok := strings.Cut(rest, ":")
		if !ok || strings.Contains(subsystem, "/") || name == "" {
			return ""
		}
		name = strings.ReplaceAll(name, "/", "!")
		for _, form := range []string{"/sys/subsystem/%/devices/", "/sys/bus/%/devices/", "/sys/class/%/"} {
			path = filepath.Join(strings.Replace(form, "%", subsystem, 1), name)
			if _, err := os.Stat(path); err == nil {
				break
			}
		}
	default:
		return ""
	}
	dir, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return dir
}
