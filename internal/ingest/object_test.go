package ingest

import (
	"os"
	"strings"
	"testing"
)

// What a message is about is looked up for root only: for others OBJECT_PID= is a
// field like any other.
func TestObjectPID(t *testing.T) {
	d, m := decoding(t, nativeSocket)
	self := itoa(os.Getpid())
	root := credentials{pid: int32(os.Getpid())}
	other := credentials{pid: int32(os.Getpid()), uid: 1000, gid: 1000}
	for _, tt := range []struct {
		name  string
		from  credentials
		known bool
		field string
		want  bool
	}{
		{"root", root, true, "OBJECT_PID=" + self, true},
		{"another user", other, true, "OBJECT_PID=" + self, false},
		{"nobody known", credentials{}, false, "OBJECT_PID=" + self, false},
		{"root, no number", root, true, "OBJECT_PID=" + self + "x", false},
		{"root, zero", root, true, "OBJECT_PID=0", false},
		{"root, negative", root, true, "OBJECT_PID=-" + self, false},
		{"root, empty", root, true, "OBJECT_PID=", false},
		{"root, another name", root, true, "OBJECT_PID2=" + self, false},
	} {
		m.credentials, m.known = tt.from, tt.known
		m.data = []byte("MESSAGE=x\n" + tt.field + "\nOBJECT_EXE=from the client\n")
		d.take(t.Context(), m)
		if len(d.batch.entries) != 1 {
			t.Fatalf("%s: %d entries", tt.name, len(d.batch.entries))
		}
		var found []string
		given, exe := 0, 0
		for _, f := range d.batch.entries[0].Fields {
			switch name := string(f.Name()); {
			case string(f) == tt.field:
				given++
			case name == "OBJECT_EXE":
				exe++
			case strings.HasPrefix(name, "OBJECT_"):
				found = append(found, name)
			}
		}
		if given == 0 || exe == 0 {
			t.Errorf("%s: the client's own fields are not there", tt.name)
		}
		if got := strings.Join(found, " "); strings.HasPrefix(got, "OBJECT_UID OBJECT_GID OBJECT_COMM") != tt.want || !tt.want && got != "" {
			t.Errorf("%s: looked up %q, want something: %v", tt.name, got, tt.want)
		}
		d.batch.reset()
	}
}
