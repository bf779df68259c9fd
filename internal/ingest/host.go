package ingest

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// hostnameAge is how long a name of the machine is believed.
const hostnameAge = time.Second

// host holds the fields that every entry of this machine ends with. It may be
// used concurrently.
type host struct {
	fixed bool // Config named the machine
	ids   []entry.Field
	scope entry.Field
	all   atomic.Pointer[hostFields]
	next  atomic.Int64 // when to look again, monotonic ns
}

type hostFields struct {
	name   string
	fields []entry.Field
}

func newHost(cfg *Config) *host {
	h := &host{scope: entry.Field("_RUNTIME_SCOPE=system"), fixed: cfg.Hostname != ""}
	if _, err := os.Stat("/etc/initrd-release"); err == nil {
		h.scope = entry.Field("_RUNTIME_SCOPE=initrd")
	}
	if !cfg.BootID.IsZero() {
		h.ids = append(h.ids, entry.Field("_BOOT_ID="+cfg.BootID.String()))
	}
	if !cfg.MachineID.IsZero() {
		h.ids = append(h.ids, entry.Field("_MACHINE_ID="+cfg.MachineID.String()))
	}
	name := cfg.Hostname
	if !h.fixed {
		name = hostname()
	}
	h.set(name)
	return h
}

func (h *host) set(name string) {
	f := &hostFields{name: name, fields: append([]entry.Field(nil), h.ids...)}
	if name != "" {
		f.fields = append(f.fields, entry.Field("_HOSTNAME="+name))
	}
	f.fields = append(f.fields, h.scope)
	h.all.Store(f)
}

// fields are _BOOT_ID, _MACHINE_ID, _HOSTNAME and _RUNTIME_SCOPE. They are never
// changed, only replaced.
func (h *host) fields() []entry.Field { return h.all.Load().fields }

// refresh asks for the machine's name if it was not asked for a while.
func (h *host) refresh(now time.Duration) {
	next := h.next.Load()
	if h.fixed || int64(now) < next || !h.next.CompareAndSwap(next, int64(now+hostnameAge)) {
		return
	}
	if name := hostname(); name != h.all.Load().name {
		h.set(name)
	}
}

// hostname is the machine's name, empty where the kernel does not tell it.
func hostname() string {
	name, _ := os.Hostname()
	return name
}
