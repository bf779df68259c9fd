package object

import "testing"

// The vectors were computed by systemd 252 (files written by it hold them).
func TestJenkinsMatchesSystemd(t *testing.T) {
	for in, want := range map[string]uint64{
		"":            0xdeadbeefdeadbeef,
		"MESSAGE":     0x884560c237b105c0,
		"MESSAGE=foo": 0xcce13a3740a1aa61,
		"PRIORITY=6":  0x80f09f19808d26a3,
		"_BOOT_ID=710d035a90fb403c855864972948eda1": 0x27e4832f84642735,
	} {
		if got := Jenkins([]byte(in)); got != want {
			t.Errorf("Jenkins(%q) = %016x, want %016x", in, got, want)
		}
	}
}

func TestKeyedHashMatchesSystemd(t *testing.T) {
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	for in, want := range map[string]uint64{
		"":            0x726fdb47dd0e0e31,
		"MESSAGE":     0xd8d474f3cb35f37e,
		"MESSAGE=foo": 0x40c9813b4096d861,
		"PRIORITY=6":  0x44386e138c9ccf3c,
	} {
		if got := KeyedHash(&key, []byte(in)); got != want {
			t.Errorf("KeyedHash(%q) = %016x, want %016x", in, got, want)
		}
	}
}
