// Package config reads tidemark.conf, which has the grammar of journald.conf,
// its drop-ins, and knows the default paths. Keys that journald has keep
// journald's meaning and units; the others are tidemark's own.
package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/flavour"
	"github.com/tidemark-log/tidemark/settle"
)

// Defaults of Config.
const (
	DefaultSync              = time.Second
	DefaultNotify            = 250 * time.Millisecond
	DefaultBuffer            = 64 << 20
	DefaultHTTP              = "127.0.0.1:19531"
	DefaultMaxFiles          = 100
	DefaultMaxFile           = month
	DefaultLineMax           = 48 << 10
	DefaultCompressThreshold = 512
	DefaultNice              = -19
	// Half a rate limit gets the other half from journald's defaults.
	DefaultRateLimitInterval = 30 * time.Second
	DefaultRateLimitBurst    = 10000
)

// minLineMax is journald's smallest LineMax.
const minLineMax = 79

// Config is what a configuration says, with defaults for what it does not say.
type Config struct {
	// Data is the directory of journal files. Empty: the default of the user.
	Data string
	// Run is the directory of the sockets. Empty: the default of the user.
	Run string
	// HTTP lists the addresses to serve; empty when HTTP is off.
	HTTP []string
	// Sync is the policy of Sync=, else of SyncIntervalSec=, else DefaultSync.
	Sync settle.Policy
	// Notify is how long matches of other processes may lag under load; 0 means
	// with every append.
	Notify time.Duration
	// Buffer bounds what is accepted and not yet written, in bytes.
	Buffer uint64
	// AccessLog is the file that gets a line for each HTTP request; empty: none.
	AccessLog string
	// AccessLogSync is when that file is synced.
	AccessLogSync settle.Policy

	// SystemMaxUse, SystemKeepFree and SystemMaxFileSize bound the space used;
	// zero: derived from the file system as journald does.
	SystemMaxUse      Size
	SystemKeepFree    Size
	SystemMaxFileSize Size
	// SystemMaxFiles is how many archived files are kept; 0: no limit.
	SystemMaxFiles uint64
	// MaxRetention is how long entries are kept; 0 or Infinity: for ever.
	MaxRetention time.Duration
	// MaxFile is the time after which a file is rotated; 0 or Infinity: never.
	MaxFile time.Duration
	// RateLimitInterval and RateLimitBurst allow so many messages per interval
	// and service. Both are 0 when there is no limit, which is the default.
	RateLimitInterval time.Duration
	RateLimitBurst    uint64
	// LineMax is where a line of a stdout stream is broken, in bytes.
	LineMax uint64
	// Compress tells whether fields are compressed, from CompressThreshold bytes.
	Compress          bool
	CompressThreshold uint64
	// Flavour is the layout of new files. Neither it nor Compress alone can have
	// fields compressed.
	Flavour flavour.Flavour
	// MaxLevelStore is the highest syslog level that is stored.
	MaxLevelStore int
	// ReadKMsg tells whether the kernel's messages are read.
	ReadKMsg bool
	// Nice is the scheduling priority from -20 to 19. Nil: DefaultNice, if that is
	// allowed and nobody has chosen another one.
	Nice *int

	ownSync  *settle.Policy // Sync=
	interval *time.Duration // SyncIntervalSec=
	httpSet  bool           // HTTP is what was given
	rateSet  [2]bool        // which half of the rate limit was given
	rate     struct {       // as given
		interval time.Duration
		burst    uint64
	}
}

// Defaults returns the configuration of an empty file.
func Defaults() Config {
	c := Config{
		HTTP: []string{DefaultHTTP}, Notify: DefaultNotify, Buffer: DefaultBuffer,
		SystemMaxFiles: DefaultMaxFiles, MaxFile: DefaultMaxFile,
		LineMax: DefaultLineMax, Compress: true, CompressThreshold: DefaultCompressThreshold,
		MaxLevelStore: entry.Levels - 1, ReadKMsg: true,
	}
	c.combine()
	return c
}

// combine derives what several keys decide together.
func (c *Config) combine() {
	switch {
	case c.ownSync != nil:
		c.Sync = *c.ownSync
	case c.interval == nil:
		c.Sync = settle.Every(DefaultSync)
	case *c.interval == 0 || *c.interval == Infinity:
		c.Sync = settle.Auto() // journald then arms no timer
	default:
		c.Sync = settle.Every(*c.interval)
	}
	interval, burst := c.rate.interval, c.rate.burst
	if c.rateSet[0] && !c.rateSet[1] {
		burst = DefaultRateLimitBurst
	}
	if c.rateSet[1] && !c.rateSet[0] {
		interval = DefaultRateLimitInterval
	}
	if interval == 0 || burst == 0 {
		interval, burst = 0, 0
	}
	c.RateLimitInterval, c.RateLimitBurst = interval, burst
}

// Set gives a key a value as a line key=value in a file does. Flags use it, so
// that they take the same forms. The error names neither file nor key.
func (c *Config) Set(key, value string) error {
	_, err := c.set(key, value)
	return err
}

// set is Set; warning says what is noteworthy about a good value.
func (c *Config) set(key, value string) (warning string, err error) {
	k, ok := lookup(key)
	if !ok {
		return "", fmt.Errorf("unknown key %q", key)
	}
	if k.set == nil {
		return fmt.Sprintf("%s= is not acted on by tidemark, ignored", key), nil
	}
	warning, err = k.set(c, value)
	c.combine()
	return warning, err
}

// key is a key of a configuration file. One without set is a key of journald
// that tidemark does not act on.
type key struct {
	name string
	set  func(c *Config, value string) (warning string, err error)
}

// lookup finds a key.
func lookup(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

// keys of section [Journal].
var keys = []key{
	plain("Data", func(c *Config) *string { return &c.Data }, parsePath),
	plain("Run", func(c *Config) *string { return &c.Run }, parsePath),
	{"HTTP", setHTTP},
	plain("Sync", func(c *Config) **settle.Policy { return &c.ownSync }, pointer(settle.ParsePolicy)),
	plain("Notify", func(c *Config) *time.Duration { return &c.Notify }, ParseNotify),
	plain("Buffer", func(c *Config) *uint64 { return &c.Buffer }, ParseBytes),
	plain("AccessLog", func(c *Config) *string { return &c.AccessLog }, parsePath),
	plain("AccessLogSync", func(c *Config) *settle.Policy { return &c.AccessLogSync }, settle.ParsePolicy),

	plain("SyncIntervalSec", func(c *Config) **time.Duration { return &c.interval }, pointer(ParseSpan)),
	plain("SystemMaxUse", func(c *Config) *Size { return &c.SystemMaxUse }, ParseSize),
	plain("SystemKeepFree", func(c *Config) *Size { return &c.SystemKeepFree }, parseKeepFree),
	plain("SystemMaxFileSize", func(c *Config) *Size { return &c.SystemMaxFileSize }, ParseSize),
	plain("SystemMaxFiles", func(c *Config) *uint64 { return &c.SystemMaxFiles }, parseCount),
	plain("MaxRetentionSec", func(c *Config) *time.Duration { return &c.MaxRetention }, ParseSpan),
	plain("MaxFileSec", func(c *Config) *time.Duration { return &c.MaxFile }, ParseSpan),
	{"RateLimitIntervalSec", setRateInterval},
	{"RateLimitInterval", setRateInterval},
	{"RateLimitBurst", setRateBurst},
	{"LineMax", setLineMax},
	{"Compress", setCompress},
	plain("Flavour", func(c *Config) *flavour.Flavour { return &c.Flavour }, flavour.Parse),
	plain("MaxLevelStore", func(c *Config) *int { return &c.MaxLevelStore }, ParseLevel),
	plain("ReadKMsg", func(c *Config) *bool { return &c.ReadKMsg }, ParseBool),
	plain("Nice", func(c *Config) **int { return &c.Nice }, pointer(parseNice)),

	{name: "Storage"},
	{name: "Seal"},
	{name: "SplitMode"},
	{name: "Audit"},
	{name: "TTYPath"},
	{name: "RuntimeMaxUse"},
	{name: "RuntimeKeepFree"},
	{name: "RuntimeMaxFileSize"},
	{name: "RuntimeMaxFiles"},
	{name: "ForwardToSyslog"},
	{name: "ForwardToKMsg"},
	{name: "ForwardToConsole"},
	{name: "ForwardToWall"},
	{name: "ForwardToSocket"},
	{name: "MaxLevelSyslog"},
	{name: "MaxLevelKMsg"},
	{name: "MaxLevelConsole"},
	{name: "MaxLevelWall"},
	{name: "MaxLevelSocket"},
}

// plain is a key whose value fills one member. An empty value brings back the
// default.
func plain[T any](name string, member func(*Config) *T, parse func(string) (T, error)) key {
	return key{name, func(c *Config, value string) (string, error) {
		if value == "" {
			d := Defaults()
			*member(c) = *member(&d)
			return "", nil
		}
		v, err := parse(value)
		if err == nil {
			*member(c) = v
		}
		return "", err
	}}
}

// pointer makes parse return a pointer: nil is for "not given".
func pointer[T any](parse func(string) (T, error)) func(string) (*T, error) {
	return func(s string) (*T, error) {
		v, err := parse(s)
		return &v, err
	}
}

func parsePath(s string) (string, error) {
	if !filepath.IsAbs(s) {
		return "", fmt.Errorf("invalid path %q: want an absolute one", s)
	}
	return filepath.Clean(s), nil
}

func parseCount(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid number %q", s)
	}
	return n, nil
}

func parseNice(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < -20 || n > 19 {
		return 0, fmt.Errorf("invalid priority %q: want a number from -20 to 19", s)
	}
	return n, nil
}

// setHTTP adds addresses; off removes all, an empty value brings back the
// default. Addresses replace the default and an earlier off.
func setHTTP(c *Config, value string) (string, error) {
	if value == "" {
		c.HTTP, c.httpSet = []string{DefaultHTTP}, false
		return "", nil
	}
	for word := range strings.FieldsSeq(value) {
		switch {
		case word == "off":
			c.HTTP = []string{}
		case !c.httpSet:
			c.HTTP = []string{word}
		default:
			c.HTTP = append(c.HTTP[:len(c.HTTP):len(c.HTTP)], word)
		}
		c.httpSet = true
	}
	return "", nil
}

func setRateInterval(c *Config, value string) (string, error) {
	if value == "" {
		c.rate.interval, c.rateSet[0] = 0, false
		return "", nil
	}
	v, err := ParseSpan(value)
	if err == nil {
		c.rate.interval, c.rateSet[0] = v, true
	}
	return "", err
}

func setRateBurst(c *Config, value string) (string, error) {
	if value == "" {
		c.rate.burst, c.rateSet[1] = 0, false
		return "", nil
	}
	v, err := parseCount(value)
	if err == nil {
		c.rate.burst, c.rateSet[1] = v, true
	}
	return "", err
}

// setLineMax raises small values to journald's minimum.
func setLineMax(c *Config, value string) (string, error) {
	if value == "" {
		c.LineMax = DefaultLineMax
		return "", nil
	}
	v, err := ParseBytes(value)
	if err != nil {
		return "", err
	}
	c.LineMax = max(v, minLineMax)
	if v < minLineMax {
		return fmt.Sprintf("LineMax=%s is too small, using %d", value, minLineMax), nil
	}
	return "", nil
}

// setCompress reads a boolean, or a threshold in bytes.
func setCompress(c *Config, value string) (string, error) {
	if value == "" {
		c.Compress, c.CompressThreshold = true, DefaultCompressThreshold
		return "", nil
	}
	if on, err := ParseBool(value); err == nil {
		c.Compress, c.CompressThreshold = on, DefaultCompressThreshold
		return "", nil
	}
	v, err := ParseBytes(value)
	if err != nil {
		return "", fmt.Errorf("invalid value %q: want yes, no or a size such as 512", value)
	}
	c.Compress, c.CompressThreshold = true, v
	return "", nil
}
