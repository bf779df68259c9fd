package settle

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestParsePolicy(t *testing.T) {
	tests := []struct {
		text  string
		want  Policy
		canon string
	}{
		{"auto", Auto(), "auto"},
		{"never", Auto(), "auto"},
		{"no", Auto(), "auto"},
		{"all", All(), "all"},
		{"always", All(), "all"},
		{"everysec", Every(time.Second), "1s"},
		{"250ms", Every(250 * time.Millisecond), "250ms"},
		{"250", Every(250 * time.Millisecond), "250ms"},
		{"1", Every(time.Millisecond), "1ms"},
		{"1ms", Every(time.Millisecond), "1ms"},
		{"1.5ms", Every(1500 * time.Microsecond), "1.5ms"},
		{"1000000us", Every(time.Second), "1s"},
		{"5m", Every(5 * time.Minute), "5m"},
		{"90s", Every(90 * time.Second), "1m30s"},
		{"3600000", Every(time.Hour), "1h"},
		{"1h", Every(time.Hour), "1h"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParsePolicy(tt.text)
			if err != nil || got != tt.want || got.String() != tt.canon {
				t.Errorf("ParsePolicy(%q) = %v, %v, want %v as %q", tt.text, got, err, tt.want, tt.canon)
			}
		})
	}
}

func TestParsePolicyRefuses(t *testing.T) {
	for _, text := range []string{
		"", "x", "ALL", " all", "0", "0s", "-1", "-5s", "+5", "999us", "1h1ns", "3600001", "2h",
		"99999999999999999999", "9223372036854775807", "18446744073709551615", "1e3", "5 s", "1.5",
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParsePolicy(text)
			want := `invalid sync policy "` + text + `": want auto, all, or a duration from 1ms to 1h such as 250ms`
			if err == nil || err.Error() != want || got != (Policy{}) {
				t.Errorf("ParsePolicy(%q) = %v, %v, want the error %s", text, got, err, want)
			}
		})
	}
}

func TestPolicyKinds(t *testing.T) {
	tests := []struct {
		name      string
		p         Policy
		auto, all bool
		window    time.Duration
	}{
		{"zero", Policy{}, true, false, 0},
		{"auto", Auto(), true, false, 0},
		{"all", All(), false, true, 0},
		{"every", Every(time.Second), false, false, time.Second},
		{"no window", Every(0), false, true, 0},
		{"negative window", Every(-time.Second), false, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.p.IsAuto() != tt.auto || tt.p.IsAll() != tt.all || tt.p.Window() != tt.window {
				t.Errorf("%v: auto %v, all %v, window %v", tt.p, tt.p.IsAuto(), tt.p.IsAll(), tt.p.Window())
			}
		})
	}
}

func TestPolicyText(t *testing.T) {
	var got struct{ Sync Policy }
	if err := json.Unmarshal([]byte(`{"Sync":"everysec"}`), &got); err != nil || got.Sync != Every(time.Second) {
		t.Errorf("got %v, %v", got.Sync, err)
	}
	if out, err := json.Marshal(got); err != nil || string(out) != `{"Sync":"1s"}` {
		t.Errorf("got %s, %v", out, err)
	}
	err := json.Unmarshal([]byte(`{"Sync":"sometimes"}`), &got)
	if p, ok := errors.AsType[*PolicyError](err); !ok || p.Text != "sometimes" || got.Sync != Every(time.Second) {
		t.Errorf("got %v, %v; want a *PolicyError and the value unchanged", got.Sync, err)
	}
}

// FuzzParsePolicy: what is accepted prints as something that means the same, and
// every error is a *PolicyError.
func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"auto", "all", "no", "everysec", "250ms", "250", "1h", "1h0m0s", "1.5ms", "-1", "µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePolicy(s)
		if err != nil {
			if _, ok := errors.AsType[*PolicyError](err); !ok {
				t.Fatalf("ParsePolicy(%q): error %T %v", s, err, err)
			}
			return
		}
		if w := p.Window(); !p.IsAuto() && !p.IsAll() && (w < MinWindow || w > MaxWindow) {
			t.Fatalf("ParsePolicy(%q): window %v", s, w)
		}
		q, err := ParsePolicy(p.String())
		if err != nil || q != p || q.String() != p.String() {
			t.Fatalf("ParsePolicy(%q) prints as %q, which reads as %v, %v", s, p, q, err)
		}
	})
}

func TestParseLevel(t *testing.T) {
	for _, l := range []Level{Appended, Synced, Replicated} {
		if got, err := ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("ParseLevel(%q) = %v, %v", l, got, err)
		}
	}
	for _, s := range []string{"", "accepted", "Synced", "level(9)"} {
		if _, err := ParseLevel(s); err == nil {
			t.Errorf("ParseLevel(%q) succeeds", s)
		}
	}
	if s := Level(9).String(); s != "level(9)" {
		t.Errorf("Level(9) = %q", s)
	}
}

func TestBellHoldsOneRing(t *testing.T) {
	b := NewBell()
	for range 3 {
		b.Ring() // does not block, though nobody listens
	}
	select {
	case <-b.C():
	default:
		t.Error("not rung")
	}
	select {
	case <-b.C():
		t.Error("rung twice")
	default:
	}
	b.Ring()
	<-b.C()
}
