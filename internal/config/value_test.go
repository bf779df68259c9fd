package config_test

import (
	"math"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
)

func TestParseSpan(t *testing.T) {
	const month = 2629800 * time.Second
	tests := []struct {
		in   string
		want time.Duration // -1: an error
	}{
		{"0", 0},
		{"5", 5 * time.Second},
		{"5s", 5 * time.Second},
		{"5 seconds", 5 * time.Second},
		{"5min", 5 * time.Minute},
		{"5m", 5 * time.Minute},
		{"5M", 5 * month},
		{"1month", month},
		{"2 weeks", 14 * 24 * time.Hour},
		{"1y", 31557600 * time.Second},
		{"300ms", 300 * time.Millisecond},
		{"300us", 300 * time.Microsecond},
		{"300µs", 300 * time.Microsecond},
		{"1h30min", 90 * time.Minute},
		{" 1h  30 min ", 90 * time.Minute},
		{"1.5h", 90 * time.Minute},
		{".5", 500 * time.Millisecond},
		{"5 20s", 25 * time.Second},
		{"12.34s.56", 12*time.Second + 900*time.Millisecond},
		{"infinity", config.Infinity},
		{" infinity ", config.Infinity},
		{"300 years", config.Infinity},
		{"99999999999999999999", config.Infinity},
		{"200y 200y", config.Infinity},
		{"", -1},
		{"  ", -1},
		{"-1", -1},
		{"+1", -1},
		{"5x", -1},
		{"s", -1},
		{"12.34.56", -1},
		{"3.", -1},
		{"3.sec", -1},
		{".", -1},
		{"infinity 5", -1},
		{"5s!", -1},
	}
	for _, tt := range tests {
		got, err := config.ParseSpan(tt.in)
		if tt.want < 0 && err == nil || tt.want >= 0 && (err != nil || got != tt.want) {
			t.Errorf("ParseSpan(%q) = %v, %v; want %v", tt.in, got, err, tt.want)
		}
	}
}

func TestParseSize(t *testing.T) {
	bytes := func(n uint64) config.Size { return config.Size{Bytes: n} }
	tests := []struct {
		in   string
		want config.Size
		ok   bool
	}{
		{"512", bytes(512), true},
		{"0", bytes(0), true},
		{"64K", bytes(64 << 10), true},
		{"8M", bytes(8 << 20), true},
		{"2G", bytes(2 << 30), true},
		{"7E", bytes(7 << 60), true},
		{"100B", bytes(100), true},
		{"1.5G", bytes(3 << 29), true},
		{"1 G", bytes(1 << 30), true},
		{"1G 500M", bytes(1<<30 + 500<<20), true},
		{"1G500M3", bytes(1<<30 + 500<<20 + 3), true},
		{"10%", config.Size{Percent: 10}, true},
		{"100%", config.Size{Percent: 100}, true},
		{"0%", bytes(0), false},
		{"101%", bytes(0), false},
		{"x%", bytes(0), false},
		{"", bytes(0), false},
		{"K", bytes(0), false},
		{"-5", bytes(0), false},
		{"5k", bytes(0), false},
		{"5KB", bytes(0), false},
		{"500M 1G", bytes(0), false},
		{"5 5", bytes(0), false},
		{"8E", bytes(0), false},
		{"99999999999999999999", bytes(0), false},
		{"4E 4E", bytes(0), false},
	}
	for _, tt := range tests {
		got, err := config.ParseSize(tt.in)
		if (err == nil) != tt.ok || tt.ok && got != tt.want {
			t.Errorf("ParseSize(%q) = %v, %v; want %v", tt.in, got, err, tt.want)
		}
		if !tt.ok {
			continue
		}
		again, err := config.ParseSize(got.String())
		if err != nil || again != got {
			t.Errorf("ParseSize(%q) is printed as %q, which reads as %v, %v", tt.in, got, again, err)
		}
	}
}

func TestSizeOf(t *testing.T) {
	tests := []struct {
		s     config.Size
		total uint64
		want  uint64
	}{
		{config.Size{Bytes: 5}, 1000, 5},
		{config.Size{Percent: 10}, 1000, 100},
		{config.Size{Percent: 33}, 101, 33},
		{config.Size{Percent: 100}, math.MaxUint64, math.MaxUint64},
		{config.Size{}, 1000, 0},
	}
	for _, tt := range tests {
		if got := tt.s.Of(tt.total); got != tt.want {
			t.Errorf("%v of %d is %d, want %d", tt.s, tt.total, got, tt.want)
		}
	}
}

func TestParseNotify(t *testing.T) {
	tests := []struct {
		in   string
		want time.Duration // -1: an error
	}{
		{"0", 0},
		{"250", 250 * time.Millisecond},
		{"250ms", 250 * time.Millisecond},
		{"1h", time.Hour},
		{"2h", -1},
		{"1us", -1},
		{"all", -1},
		{"auto", -1},
		{"everysec", -1},
		{"", -1},
	}
	for _, tt := range tests {
		got, err := config.ParseNotify(tt.in)
		if tt.want < 0 && err == nil || tt.want >= 0 && (err != nil || got != tt.want) {
			t.Errorf("ParseNotify(%q) = %v, %v; want %v", tt.in, got, err, tt.want)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add("1h 30.5min")
	f.Add("1.5G 3K")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := config.ParseSpan(s); err == nil && d < 0 {
			t.Errorf("ParseSpan(%q) = %v", s, d)
		}
		size, err := config.ParseSize(s)
		if err != nil {
			return
		}
		if again, err := config.ParseSize(size.String()); err != nil || again != size {
			t.Errorf("ParseSize(%q) is printed as %q, which reads as %v, %v", s, size, again, err)
		}
	})
}

func TestAppendBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0B", 1023: "1023B", 1024: "1.0K", 1535: "1.4K", 1536: "1.5K", 3751936 + 8*1024: "3.5M",
		8 << 20: "8.0M", 1<<30 - 1: "1023.9M", 1 << 40: "1.0T", math.MaxUint64: "15.9E",
	} {
		if got := string(config.AppendBytes([]byte("x"), n)); got != "x"+want {
			t.Errorf("AppendBytes(x, %d) = %s, want x%s", n, got, want)
		}
	}
}
