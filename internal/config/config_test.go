package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/settle"
)

var opts = cmp.Options{
	cmpopts.IgnoreUnexported(config.Config{}),
	cmp.Comparer(func(a, b settle.Policy) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

// systemdMonth is 30.4375 days.
const systemdMonth = 2629800 * time.Second

// parseTests are texts, what they change of the defaults, and what is warned of.
var parseTests = []struct {
	name     string
	text     string
	want     func(c *config.Config) // change of the defaults
	warnings []string
}{
	{"empty", "", func(*config.Config) {}, nil},
	{
		"journald's keys",
		"[Journal]\nSyncIntervalSec=5min\nSystemMaxUse=1G\nSystemKeepFree=15%\nSystemMaxFileSize=8M\nSystemMaxFiles=7\n" +
			"MaxRetentionSec=2month\nMaxFileSec=1week\nRateLimitIntervalSec=10s\nRateLimitBurst=5\nLineMax=1K\nCompress=4K\nMaxLevelStore=warning\nReadKMsg=no\n",
		func(c *config.Config) {
			c.Sync = settle.Every(5 * time.Minute)
			c.SystemMaxUse = config.Size{Bytes: 1 << 30}
			c.SystemKeepFree = config.Size{Percent: 15}
			c.SystemMaxFileSize = config.Size{Bytes: 8 << 20}
			c.SystemMaxFiles = 7
			c.MaxRetention, c.MaxFile = 2*systemdMonth, 7*24*time.Hour
			c.RateLimitInterval, c.RateLimitBurst = 10*time.Second, 5
			c.LineMax, c.CompressThreshold, c.MaxLevelStore, c.ReadKMsg = 1024, 4096, 4, false
		},
		nil,
	},
	{
		"own keys",
		"[Journal]\nData=/d/./x\nRun=/r\nHTTP=127.0.0.1:1 [::1]:2\nHTTP=10.0.0.1:3\nSync=all\nNotify=0\nBuffer=1M\nNice=-5\n",
		func(c *config.Config) {
			c.Data, c.Run = "/d/x", "/r"
			c.HTTP = []string{"127.0.0.1:1", "[::1]:2", "10.0.0.1:3"}
			c.Sync, c.Notify, c.Buffer, c.Nice = settle.All(), 0, 1<<20, new(-5)
		},
		nil,
	},
	{"HTTP off", "[Journal]\nHTTP=off\n", func(c *config.Config) { c.HTTP = nil }, nil},
	{"HTTP's default and another", "[Journal]\nHTTP=127.0.0.1:19531 127.0.0.1:0\n", func(c *config.Config) { c.HTTP = []string{config.DefaultHTTP, "127.0.0.1:0"} }, nil},
	{"HTTP off and an address", "[Journal]\nHTTP=off\nHTTP=127.0.0.1:0", func(c *config.Config) { c.HTTP = []string{"127.0.0.1:0"} }, nil},
	{"Sync wins over SyncIntervalSec", "[Journal]\nSync=auto\nSyncIntervalSec=1s\n", func(c *config.Config) { c.Sync = settle.Auto() }, nil},
	{"Sync taken back", "[Journal]\nSync=auto\nSync=\nSyncIntervalSec=2s\n", func(c *config.Config) { c.Sync = settle.Every(2 * time.Second) }, nil},
	{"SyncIntervalSec for ever", "[Journal]\nSyncIntervalSec=infinity\n", func(c *config.Config) { c.Sync = settle.Auto() }, nil},
	{"rate limit, burst only", "[Journal]\nRateLimitBurst=5\n", func(c *config.Config) { c.RateLimitInterval, c.RateLimitBurst = 30*time.Second, 5 }, nil},
	{"rate limit, interval only", "[Journal]\nRateLimitInterval=1min\n", func(c *config.Config) { c.RateLimitInterval, c.RateLimitBurst = time.Minute, 10000 }, nil},
	{"rate limit off", "[Journal]\nRateLimitBurst=5\nRateLimitIntervalSec=0\n", func(*config.Config) {}, nil},
	{"empty value: the default", "[Journal]\nSystemMaxFiles=7\nSystemMaxFiles=\nLineMax=1K\nLineMax=\nCompress=no\nCompress=\nFlavour=254\nFlavour=\nHTTP=off\nHTTP=\n", func(*config.Config) {}, nil},
	{"compression off", "[Journal]\nCompress=no\n", func(c *config.Config) { c.Compress = false }, nil},
	{"small LineMax", "[Journal]\nLineMax=10\n", func(c *config.Config) { c.LineMax = 79 }, []string{"f:2: LineMax=10 is too small, using 79"}},
	{
		"grammar",
		"\ufeff# c\n; c\n\n  [Journal]  \r\n  SystemMaxFiles = 7  \n#SystemMaxFiles=8\nData=/a\\\n# between\n  b\nX-Mine=1\n",
		func(c *config.Config) { c.SystemMaxFiles, c.Data = 7, "/a   b" },
		nil,
	},
	{"continued at the end", "[Journal]\nSystemMaxFiles=\\\n7\\", func(c *config.Config) { c.SystemMaxFiles = 7 }, nil},
	{"escaped backslash", "[Journal]\nData=/a\\\\\nRun=/r\n", func(c *config.Config) { c.Data, c.Run = `/a\\`, "/r" }, nil},
	{
		"left out with a warning",
		"SystemMaxFiles=1\n[Journal]\nsystemmaxfiles=2\nNonsense=1\nStorage=volatile\nword\n=3\nData=\xff\n[Other]\nSystemMaxFiles=4\nrubbish\n[X-Other]\n[Journal]\nSystemMaxFiles=5\n",
		func(c *config.Config) { c.SystemMaxFiles = 5 },
		[]string{
			"f:1: assignment outside of a section, ignored: want [Journal] before it",
			`f:3: unknown key "systemmaxfiles" in section [Journal], ignored`,
			`f:4: unknown key "Nonsense" in section [Journal], ignored`,
			"f:5: Storage= is not acted on by tidemark, ignored",
			"f:6: missing '=', line ignored",
			"f:7: missing key before '=', line ignored",
			"f:8: line is not UTF-8, ignored",
			"f:9: unknown section [Other], ignored",
		},
	},
}

func TestParse(t *testing.T) {
	for _, tt := range parseTests {
		t.Run(tt.name, func(t *testing.T) {
			want, got := config.Defaults(), config.Defaults()
			tt.want(&want)
			warnings, err := got.Parse("f", tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, opts); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			var texts []string
			for _, w := range warnings {
				texts = append(texts, w.String())
			}
			if diff := cmp.Diff(tt.warnings, texts); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"SystemMaxUse=x", `f:2: SystemMaxUse=: invalid size "x": want for example 512, 64K, 8M or 2G`},
		{"\n\nMaxFileSec=5x", `f:4: MaxFileSec=: invalid time span "5x": want for example 30s, 5min, 1month, infinity, or a number of seconds`},
		{"Sync=sometimes", `f:2: Sync=: invalid sync policy "sometimes": want auto, all, or a duration from 1ms to 1h such as 250ms`},
		{"Notify=x", `f:2: Notify=: invalid notify window "x": want 0 or a duration from 1ms to 1h such as 250ms`},
		{"Data=relative", `f:2: Data=: invalid path "relative": want an absolute one`},
		{"ReadKMsg=maybe", `f:2: ReadKMsg=: invalid boolean "maybe": want yes or no`},
		{"Compress=maybe", `f:2: Compress=: invalid value "maybe": want yes, no or a size such as 512`},
		{"Flavour=lz4", `f:2: Flavour=: invalid flavour "lz4": "lz4" is not known: want a list such as compact,keyed,zstd,252: compact or regular, keyed or unkeyed, zstd or plain, 252 or 254`},
		{"Nice=20", `f:2: Nice=: invalid priority "20": want a number from -20 to 19`},
		{"MaxLevelStore=loud", `f:2: MaxLevelStore=: invalid level "loud": want emerg, alert, crit, err, warning, notice, info, debug or 0 to 7`},
		{"RateLimitBurst=-1", `f:2: RateLimitBurst=: invalid number "-1"`},
		{"[Journal", `f:2: invalid section header "[Journal"`},
		{"SystemMaxFiles=\\\nx", `f:2: SystemMaxFiles=: invalid number "x"`},
	}
	for _, tt := range tests {
		c := config.Defaults()
		_, err := c.Parse("f", "[Journal]\n"+tt.text+"\n")
		var e *config.Error
		if !errors.As(err, &e) || err.Error() != tt.want {
			t.Errorf("%q: error %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("[Journal]\n"+text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	main := filepath.Join(dir, "[t].conf")
	if _, _, err := config.Load(main, false); err != nil {
		t.Errorf("a missing file that need not exist: %v", err)
	}
	var e *config.Error
	if _, _, err := config.Load(main, true); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &e) || strings.Count(err.Error(), main) != 1 {
		t.Errorf("a missing file that must exist: %v", err)
	}
	write("[t].conf", "SystemMaxFiles=1\nLineMax=1K\nBuffer=1M")
	write("[t].conf.d/20-b.conf", "SystemMaxFiles=3\nWhat=1")
	write("[t].conf.d/10-a.conf", "SystemMaxFiles=2\nLineMax=2K")
	write("[t].conf.d/30-c.txt", "SystemMaxFiles=4")
	c, warnings, err := config.Load(main, true)
	if err != nil {
		t.Fatal(err)
	}
	if c.SystemMaxFiles != 3 || c.LineMax != 2048 || c.Buffer != 1<<20 {
		t.Errorf("SystemMaxFiles=%d LineMax=%d Buffer=%d, want 3, 2048, 1048576", c.SystemMaxFiles, c.LineMax, c.Buffer)
	}
	if len(warnings) != 1 || !strings.HasSuffix(warnings[0].Path, "20-b.conf") || warnings[0].Line != 3 {
		t.Errorf("warnings %v, want one for 20-b.conf:3", warnings)
	}
	write("[t].conf.d/40-d.conf", "LineMax=x")
	if _, _, err := config.Load(main, true); !errors.As(err, &e) || e.Line != 2 || filepath.Base(e.Path) != "40-d.conf" {
		t.Errorf("error %v, want one for 40-d.conf:2", err)
	}
}

func TestSet(t *testing.T) {
	c := config.Defaults()
	if err := c.Set("Sync", "5"); err != nil || c.Sync != settle.Every(5*time.Millisecond) {
		t.Errorf("Sync=5 gives %v, %v", c.Sync, err)
	}
	var pe *settle.PolicyError
	if err := c.Set("Sync", "x"); !errors.As(err, &pe) {
		t.Errorf("Sync=x: error %v, want a PolicyError", err)
	}
	if err := c.Set("Nonsense", "x"); err == nil {
		t.Error("an unknown key is taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[Journal]\nSync=1s\nSystemMaxUse=10%\n[X]\n\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := config.Defaults()
		warnings, err := c.Parse("f", text)
		var e *config.Error
		if err != nil && (!errors.As(err, &e) || e.Line < 1) {
			t.Fatalf("error %v is not a config.Error with a line", err)
		}
		lines := strings.Count(text, "\n") + 1
		for _, w := range warnings {
			if w.Line < 1 || w.Line > lines {
				t.Errorf("warning in line %d of %d", w.Line, lines)
			}
		}
		if c.LineMax < 79 || c.MaxLevelStore < 0 || c.MaxLevelStore > 7 || c.MaxFile < 0 {
			t.Errorf("impossible values: %+v", c)
		}
	})
}

// Nothing kept free is not the default of keeping 5 % free.
func TestKeepNothingFree(t *testing.T) {
	for _, value := range []string{"0", "0K"} {
		c := config.Defaults()
		if err := c.Set("SystemKeepFree", value); err != nil {
			t.Fatal(err)
		}
		if got := c.SystemKeepFree.Of(1 << 40); got != 1 {
			t.Errorf("SystemKeepFree=%s keeps %d bytes free, want 1", value, got)
		}
	}
}
