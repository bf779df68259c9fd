package main

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/daemon"
)

// serveFlags are the settings of the command line. They win over the files.
type serveFlags struct {
	data, run, sync, notify, file string
	accessLog, accessLogSync      string
	http                          []string
}

func newServeCmd() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [OPTION]...",
		Short: "Run the log daemon",
		Example: `  tidemark serve
  tidemark serve --data ./log --run ./run --http 127.0.0.1:0
  tidemark serve --sync all --http off`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.apply(cmd, new(config.Defaults())); err != nil {
				return &usageError{err}
			}
			oneMoreThread()
			err := daemon.Run(cmd.Context(), daemon.Options{
				Config:  func() (config.Config, []config.Warning, error) { return f.load(cmd) },
				Env:     environment(),
				Version: version(),
				Out:     cmd.OutOrStdout(),
				Err:     cmd.ErrOrStderr(),
			})
			if err != nil {
				return serveStep(err)
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// add gives cmd the flags.
func (f *serveFlags) add(cmd *cobra.Command) {
	flags, syncPolicies := cmd.Flags(), []cobra.Completion{"auto", "all", "250ms", "1s", "5s"}
	flags.StringVar(&f.data, "data", "", "`directory` of the journal files (default: Data= of the configuration, else /var/lib/tidemark/journal as root, $XDG_STATE_HOME/tidemark/journal or ~/.local/state/tidemark/journal for others)")
	flags.StringVar(&f.run, "run", "", "`directory` of the sockets (default: Run= of the configuration, else /run/tidemark as root, $XDG_RUNTIME_DIR/tidemark or $TMPDIR/tidemark-UID for others)")
	flags.StringArrayVar(&f.http, "http", nil, "`address` to serve HTTP on, or off; may be repeated (default "+config.DefaultHTTP+")")
	flags.StringVar(&f.sync, "sync", "", "sync `policy`: auto, all, or a duration from 1ms to 1h (default "+config.DefaultSync.String()+")")
	flags.StringVar(&f.notify, "notify", "", "`duration` that matches of readers may lag under load; 0: not at all (default "+config.DefaultNotify.String()+")")
	flags.StringVar(&f.accessLog, "access-log", "", "`file` that gets a line for each HTTP request; HUP opens it again (default: AccessLog= of the configuration, else none)")
	flags.StringVar(&f.accessLogSync, "access-log-sync", "", "sync `policy` of that file; with all, each answer waits until its line is on the disk (default auto)")
	flags.StringVar(&f.file, "config", "", "configuration `file` (default: /etc/tidemark/tidemark.conf as root, $XDG_CONFIG_HOME/tidemark/tidemark.conf or ~/.config/tidemark/tidemark.conf for others)")
	completeFlags(cmd, map[string][]cobra.Completion{
		"sync": syncPolicies, "access-log-sync": syncPolicies, "notify": {"0", "250ms", "1s"}, "http": {"off", config.DefaultHTTP, "127.0.0.1:0"},
	}, "data", "run")
}

// load reads the configuration file, its drop-ins, and then the flags.
func (f *serveFlags) load(cmd *cobra.Command) (config.Config, []config.Warning, error) {
	path, required := f.file, f.file != ""
	if !required {
		// Without a home there is no default file, and none is needed.
		path, _ = environment().ConfigFile()
	}
	c, warnings := config.Defaults(), []config.Warning(nil)
	if path != "" {
		var err error
		if c, warnings, err = config.Load(path, required); err != nil {
			return c, warnings, err
		}
	}
	if err := f.apply(cmd, &c); err != nil {
		return c, warnings, err
	}
	if cmd.Flags().Changed("access-log-sync") && c.AccessLog == "" {
		return c, warnings, usagef("--access-log-sync: there is no access log: name one with --access-log FILE")
	}
	return c, warnings, nil
}

// apply sets what the flags say.
func (f *serveFlags) apply(cmd *cobra.Command, c *config.Config) error {
	given := cmd.Flags().Changed
	if given("data") {
		c.Data = f.data
	}
	if given("run") {
		c.Run = f.run
	}
	if given("sync") {
		if err := c.Set("Sync", f.sync); err != nil {
			return err
		}
	}
	if given("notify") {
		if err := c.Set("Notify", f.notify); err != nil {
			return err
		}
	}
	if given("access-log") {
		c.AccessLog = f.accessLog
	}
	if given("access-log-sync") {
		if err := c.Set("AccessLogSync", f.accessLogSync); err != nil {
			return err
		}
	}
	if given("http") {
		c.HTTP = nil
		for _, addr := range f.http {
			if err := addHTTP(c, addr); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHTTP adds the address of one --http, or takes away those before.
func addHTTP(c *config.Config, addr string) error {
	if addr == "off" {
		c.HTTP = nil
		return nil
	}
	if err := daemon.CheckHTTP(addr); err != nil {
		return err
	}
	c.HTTP = append(c.HTTP, addr)
	return nil
}

// oneMoreThread lets one goroutine more run than there are processors, unless the
// environment says how many. The daemon's writes are short system calls, for which
// the runtime takes nobody's turn away: with a turn to spare the reading of sockets
// and answers do not wait behind them.
func oneMoreThread() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
