package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
)

// A Key is one thing that can be set.
type Key struct {
	Name    string
	Env     string // the variable
	Default string
	About   string
	List    bool
	Secret  bool

	Flag string // the flag of serve that sets it; empty for none

	set  func(c *Config, text string, items []string) error
	show func(text string) string // the text for people; nil for the text as it is
}

var (
	byName = map[string]*Key{}
	byEnv  = map[string]*Key{}
)

func init() {
	for i := range table {
		k := &table[i]
		if k.Env == "" {
			k.Env = envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
		}
		byName[k.Name], byEnv[k.Env] = k, k
	}
}

var table = []Key{
	{
		Name: "store", Env: place.Env, Default: place.Default, Flag: "store",
		About: "the database: postgres://USER@HOST/DATABASE, or an SQLite file",
		set:   text(func(c *Config) *string { return &c.Store }),
	},
	{
		Name: "listen.address", Default: "127.0.0.1:7433", Flag: "addr",
		About: "the address of the API, HOST:PORT, or off",
		set: func(c *Config, text string, _ []string) error {
			if text != Off && !strings.Contains(text, ":") {
				return errors.New("allowed are HOST:PORT and off")
			}
			c.Listen.Address = text
			return nil
		},
	},
	{
		Name: "listen.hosts", List: true,
		About: "the names by which callers may call the API; none allows all where there are " +
			"credentials, and only this machine's own where there are none",
		set: list(func(c *Config) *[]string { return &c.Listen.Hosts }),
	},
	{
		Name: "listen.certificate", About: "the file of a TLS certificate; none for plain HTTP",
		set: text(func(c *Config) *string { return &c.Listen.Certificate }),
	},
	{
		Name: "listen.key", About: "the file of the key of that certificate",
		set: text(func(c *Config) *string { return &c.Listen.Key }),
	},
	{
		Name: "listen.prefix", About: "the path under which the API is, such as /ops",
		set: func(c *Config, text string, _ []string) error {
			if text != "" && (text[0] != '/' || strings.HasSuffix(text, "/")) {
				return errors.New("it begins with a slash, and does not end with one")
			}
			c.Listen.Prefix = text
			return nil
		},
	},
	{
		Name: "auth.tokens", List: true,
		About: "credentials, each as NAME:ROLE:HASH; `tokens new` makes them",
		set:   setTokens,
		show:  func(text string) string { return tokenHash.ReplaceAllString(text, "") },
	},
	{
		Name: "audit.file", About: "the file to which actions are added; none for the log",
		set: text(func(c *Config) *string { return &c.Audit }),
	},
	{
		Name: "redact", List: true,
		About: "names of fields whose values only admins see in payloads",
		set:   list(func(c *Config) *[]string { return &c.Redact }),
	},
	{
		Name: "encryption.keys", Secret: true,
		About: "keys of payloads in the database, each as ID:BASE64; the first one writes; none " +
			"for payloads in the clear; file:PATH reads a file",
		set: func(c *Config, text string, _ []string) error {
			c.Encryption.Keys = text
			return nil
		},
	},
	{
		Name: "encryption.compress", Default: "false",
		About: "whether large payloads are compressed in the database",
		set:   flag(func(c *Config) *bool { return &c.Encryption.Compress }),
	},
	{
		Name: "engine.capacity", Default: "10000", Flag: "capacity",
		About: "how many runs are in memory at a time",
		set:   number(1, func(c *Config) *int { return &c.Engine.Capacity }),
	},
	{
		Name: "engine.drain", Default: "10s",
		About: "how long a stop waits for steps in flight",
		set:   span(func(c *Config) *time.Duration { return &c.Engine.Drain }),
	},
	{
		Name: "engine.idle_timeout", Default: "1s",
		About: "how long a run that waits stays in memory",
		set:   span(func(c *Config) *time.Duration { return &c.Engine.IdleTimeout }),
	},
	{
		Name: "engine.max_payload", Default: "67108864",
		About: "the largest input, result or message, in bytes",
		set:   number(1, func(c *Config) *int { return &c.Engine.MaxPayload }),
	},
	{
		Name: "engine.max_loaded", Default: "268435456",
		About: "the journals in memory, in bytes",
		set:   number(1, func(c *Config) *int { return &c.Engine.MaxLoaded }),
	},
	{
		Name: "engine.spill_over", Default: "100000",
		About: "above how many bytes a payload is kept in rows of its own",
		set:   number(1, func(c *Config) *int { return &c.Engine.SpillOver }),
	},
	{
		Name: "engine.max_streams", Default: "16777216",
		About: "the streams of one run, in bytes",
		set:   number(1, func(c *Config) *int { return &c.Engine.MaxStreams }),
	},
	{
		Name: "engine.max_crashes", Default: "20",
		About: "after how many crashes in a row a run is parked for an operator",
		set:   number(1, func(c *Config) *int { return &c.Engine.MaxCrashes }),
	},
	{
		Name: "engine.dedup", Default: "24h",
		About: "how far back a start looks for an ended run of its ID; 0s for open runs only",
		set:   span(func(c *Config) *time.Duration { return &c.Engine.Dedup }),
	},
	{
		Name: "engine.sweep", Default: "30s",
		About: "how often the engine looks for due runs without being told, from 1s to 10m",
		set: func(c *Config, text string, _ []string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d < time.Second || d > 10*time.Minute {
				return errors.New("allowed are 1s to 10m")
			}
			c.Engine.Sweep = d
			return nil
		},
	},
	{
		Name: "engine.precise_timers", Default: "true",
		About: "whether a timer ends at its time; if not, with the next sweep",
		set: func(c *Config, text string, _ []string) error {
			on, err := onOff(text)
			c.Engine.SweepOnly = !on
			return err
		},
	},
	{
		Name: "engine.fail_on_warning", Default: "false",
		About: "whether a definition with a warning is refused",
		set:   flag(func(c *Config) *bool { return &c.Engine.FailOnWarning }),
	},
	{
		Name: "patterns.off", List: true,
		About: "patterns whose definitions are refused, such as SAGA",
		set:   setPatterns,
	},
	{
		Name: "sagas.timeout", Default: "5m",
		About: "the overall timeout of a saga that sets none; none for no timeout",
		set:   limit(func(c *Config) *time.Duration { return &c.Engine.Defaults.SagaTimeout }),
	},
	{
		Name: "sagas.compensation", Default: "STRICT_SEQUENTIAL",
		About: "how a saga undoes that sets no policy, such as GROUPED_PARALLEL",
		set:   undo(func(d *definition.Defaults) *string { return &d.Compensation }),
	},
	{
		Name: "sagas.on_undo_error", Default: "default",
		About: "the handler of failed compensations of a saga that sets none: default, " +
			"log-and-continue, fail-fast, retry or robust",
		set: undo(func(d *definition.Defaults) *string { return &d.OnUndoError }),
	},
	{
		Name: "tccs.timeout", Default: "30s",
		About: "the overall timeout of a TCC that sets none; none for no timeout",
		set:   limit(func(c *Config) *time.Duration { return &c.Engine.Defaults.TCCTimeout }),
	},
	{
		Name: "backpressure.strategy", Default: "adaptive",
		About: "the policy of definitions that leave it to the engine: adaptive, batched, " +
			"circuit-breaker, or another name",
		set: text(func(c *Config) *string { return &c.Engine.Backpressure.Strategy }),
	},
	{
		Name: "backpressure.initial_concurrency", Default: "0",
		About: "with how many at a time adaptive begins; 0 for its own number",
		set:   number(0, func(c *Config) *int { return &c.Engine.Backpressure.InitialConcurrency }),
	},
	{
		Name: "backpressure.min_concurrency", Default: "0",
		About: "the least of adaptive; 0 for its own number",
		set:   number(0, func(c *Config) *int { return &c.Engine.Backpressure.MinConcurrency }),
	},
	{
		Name: "backpressure.max_concurrency", Default: "0",
		About: "the most of adaptive; 0 for its own number",
		set:   number(0, func(c *Config) *int { return &c.Engine.Backpressure.MaxConcurrency }),
	},
	{
		Name: "backpressure.error_rate_threshold", Default: "0",
		About: "the share of errors at which adaptive halves, such as 0.1; 0 for its own number",
		set: func(c *Config, text string, _ []string) (err error) {
			c.Engine.Backpressure.ErrorRateThreshold, err = strconv.ParseFloat(text, 64)
			if err != nil {
				err = errors.New("allowed are numbers such as 0.1")
			}
			return err
		},
	},
	{
		Name: "backpressure.batch_size", Default: "0",
		About: "the size of a batch of batched; 0 for its own number",
		set:   number(0, func(c *Config) *int { return &c.Engine.Backpressure.BatchSize }),
	},
	{
		Name: "backpressure.failure_threshold", Default: "0",
		About: "the failures in a row that open a circuit breaker; 0 for its own number",
		set:   number(0, func(c *Config) *int { return &c.Engine.Backpressure.FailureThreshold }),
	},
	{
		Name: "backpressure.recovery_timeout", Default: "0s",
		About: "how long a circuit breaker stays open, such as 30s; 0s for its own time",
		set: func(c *Config, text string, _ []string) error {
			d, err := duration(text)
			if d > 0 {
				c.Engine.Backpressure.RecoveryTimeout = d.String()
			}
			return err
		},
	},
	{
		Name: "backpressure.half_open_max_calls", Default: "0",
		About: "the successes that close it; 0 for its own number",
		set:   number(0, func(c *Config) *int { return &c.Engine.Backpressure.HalfOpenMaxCalls }),
	},
	{
		Name: "orchestrators.redis", Secret: true,
		About: "the Redis of a program that keeps orchestrators there: " +
			"redis://USER:PASSWORD@HOST:6379, or rediss",
		set: func(c *Config, text string, _ []string) error {
			u, err := url.Parse(text)
			if text != "" && (err != nil || !slices.Contains(redisSchemes, u.Scheme)) {
				return errors.New("allowed are URLs that begin with redis://, rediss:// or unix://")
			}
			c.Orchestrators.Redis = text
			return nil
		},
	},
	{
		Name: "orchestrators.prefix", Default: "orchestration:",
		About: "how the names of their keys begin",
		set: func(c *Config, text string, _ []string) error {
			if text == "" {
				return errors.New("it is empty")
			}
			c.Orchestrators.Prefix = text
			return nil
		},
	},
	{
		Name: "orchestrators.ttl", Default: "none",
		About: "how long the state of an instance is kept that has finished; none for ever",
		set: func(c *Config, text string, a []string) error {
			err := limit(func(c *Config) *time.Duration { return &c.Orchestrators.TTL })(c, text, a)
			c.Orchestrators.TTL = max(c.Orchestrators.TTL, 0)
			return err
		},
	},
	{
		Name: "retention.period", Default: "168h",
		About: "how long runs are kept after their end; forever keeps them",
		set:   kept(func(c *Config) *time.Duration { return &c.Engine.Retention.Period }),
	},
	{
		Name: "retention.statuses", List: true,
		About: "other times for some ends, each as STATUS=TIME, such as FAILED=720h",
		set:   setRetention,
	},
	{
		Name: "retention.clean_up", Default: "1h",
		About: "how often what is no longer kept is removed",
		set:   span(func(c *Config) *time.Duration { return &c.Engine.CleanUp }),
	},
	{
		Name: "retention.unrouted", Default: "168h",
		About: "how long a signal without a run is kept",
		set:   span(func(c *Config) *time.Duration { return &c.Engine.KeepUnrouted }),
	},
	{
		Name: "retention.dead_lettered", Default: "720h",
		About: "how long a run with a dead letter is kept at least",
		set:   span(func(c *Config) *time.Duration { return &c.Engine.KeepDeadLettered }),
	},
	{
		Name: "doctor.stale", Default: "1h",
		About: "after how long without an entry a busy run counts as stale",
		set:   span(func(c *Config) *time.Duration { return &c.Stale }),
	},
	{
		Name: "alerts.secret", Env: "PERDURE_ALERT_SECRET", Secret: true,
		About: "the secret that signs webhooks",
		set:   text(func(c *Config) *string { return &c.Alerts.Secret }),
	},
	{
		Name: "alerts.smtp", Env: "PERDURE_SMTP", Secret: true,
		About: "the mail server: smtp://USER:PASSWORD@HOST:587?from=ADDRESS, or smtps",
		set:   text(func(c *Config) *string { return &c.Alerts.SMTP }),
	},
	{
		Name: "alerts.internal", List: true, Flag: "webhook-internal",
		About: "internal networks that webhooks may go to, such as 10.1.0.0/16",
		set:   setInternal,
	},
	{
		Name: "log.format", Default: "text", Flag: "log",
		About: "the format of the log on stderr: text, json or off",
		set: func(c *Config, text string, _ []string) error {
			if text != "text" && text != "json" && text != "off" {
				return errors.New("allowed are text, json and off")
			}
			c.Log.Format = text
			return nil
		},
	},
	{
		Name: "log.level", Default: "info", About: "info, or warn for what needs a look",
		set: func(c *Config, text string, _ []string) error {
			return c.Log.Level.UnmarshalText([]byte(text))
		},
	},
	{
		Name: "traces", Default: "true",
		About: "whether traces are sent, if the OTEL_ variables name a collector",
		set:   flag(func(c *Config) *bool { return &c.Traces }),
	},
	{
		Name: "switches.api", Default: "true",
		About: "the API, and the store for clients, both under /api",
		set:   flag(func(c *Config) *bool { return &c.Switches.API }),
	},
	{
		Name: "switches.page", Default: "true",
		About: "the page for people, the dashboard, at all other addresses; it needs the API",
		set:   flag(func(c *Config) *bool { return &c.Switches.Page }),
	},
	{
		Name: "switches.health", Default: "true", About: "/healthz and /readyz",
		set: flag(func(c *Config) *bool { return &c.Switches.Health }),
	},
	{
		Name: "switches.metrics", Default: "true", About: "/metrics for Prometheus",
		set: flag(func(c *Config) *bool { return &c.Switches.Metrics }),
	},
	{
		Name: "switches.mcp", Default: "false", About: "/mcp for agents",
		set: flag(func(c *Config) *bool { return &c.Switches.MCP }),
	},
	{
		Name: "switches.dead_letters", Default: "true",
		About: "whether failed runs are kept as dead letters",
		set:   flag(func(c *Config) *bool { return &c.Switches.DeadLetters }),
	},
	{
		Name: "switches.recovery", Default: "true",
		About: "whether runs go on by themselves that a crash has interrupted",
		set:   flag(func(c *Config) *bool { return &c.Switches.Recovery }),
	},
	{
		Name: "switches.lifecycle", Default: "true",
		About: "whether the ends of runs are published as events, where the program does that",
		set: func(c *Config, text string, _ []string) error {
			on, err := onOff(text)
			c.Engine.NoLifecycle = !on
			return err
		},
	},
}

// redisSchemes are how the URLs of a Redis begin.
var redisSchemes = []string{"redis", "rediss", "unix"}

type setter = func(*Config, string, []string) error

func text(of func(*Config) *string) setter {
	return func(c *Config, text string, _ []string) error {
		*of(c) = text
		return nil
	}
}

func list(of func(*Config) *[]string) setter {
	return func(c *Config, _ string, items []string) error {
		*of(c) = items
		return nil
	}
}

func flag(of func(*Config) *bool) setter {
	return func(c *Config, text string, _ []string) (err error) {
		*of(c), err = onOff(text)
		return err
	}
}

func onOff(text string) (bool, error) {
	switch text {
	case "true", "on", "yes":
		return true, nil
	case "false", "off", "no":
		return false, nil
	}
	return false, errors.New("allowed are true and false")
}

func number(least int, of func(*Config) *int) setter {
	return func(c *Config, text string, _ []string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return fmt.Errorf("allowed are whole numbers from %d on", least)
		}
		*of(c) = n
		return nil
	}
}

const longest = 100 * 365 * 24 * time.Hour

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > longest {
		return 0, errors.New("allowed are durations such as 90s or 24h, up to 100 years")
	}
	return d, nil
}

// span sets a duration. For the engine's options zero means the default, so a zero becomes the
// shortest time.
func span(of func(*Config) *time.Duration) setter {
	return func(c *Config, text string, _ []string) error {
		d, err := duration(text)
		if *of(c) = d; d == 0 {
			*of(c) = -1
		}
		return err
	}
}

// limit sets a timeout.
func limit(of func(*Config) *time.Duration) setter {
	return func(c *Config, text string, _ []string) error {
		if text == "none" {
			*of(c) = -1
			return nil
		}
		d, err := duration(text)
		if err == nil && d == 0 {
			err = errors.New("allowed are none and durations above 0")
		}
		*of(c) = d
		return err
	}
}

// undo sets a name of how sagas undo.
func undo(of func(*definition.Defaults) *string) setter {
	return func(c *Config, text string, _ []string) error {
		*of(&c.Engine.Defaults) = text
		return c.Engine.Defaults.Check()
	}
}

const forever = "forever"

func kept(of func(*Config) *time.Duration) setter {
	return func(c *Config, text string, _ []string) (err error) {
		if text == forever {
			*of(c) = -1
			return nil
		}
		if *of(c), err = duration(text); err == nil && *of(c) == 0 {
			*of(c) = 1
		}
		return err
	}
}

// tokenHash is the part of a credential that people need not see.
var tokenHash = regexp.MustCompile(`:sha256:[0-9A-Fa-f]+`)

func setTokens(c *Config, _ string, items []string) error {
	for _, item := range items {
		name, rest, ok := strings.Cut(item, ":")
		role, hash, ok2 := strings.Cut(rest, ":")
		r, known := auth.ParseRole(role)
		if !ok || !ok2 || name == "" || !known {
			return errors.New("each is NAME:ROLE:HASH, and the role viewer, operator or admin")
		}
		if err := auth.CheckHash(hash); err != nil {
			return fmt.Errorf("the token %s: %w", name, err)
		}
		c.Tokens = append(c.Tokens, auth.Credential{Name: name, Role: r, Hash: hash})
	}
	return nil
}

func setPatterns(c *Config, _ string, items []string) error {
	for _, item := range items {
		p, ok := journal.ParsePattern(strings.ToUpper(item))
		if !ok {
			return fmt.Errorf("there is no pattern %q", item)
		}
		c.Engine.Off = append(c.Engine.Off, p)
	}
	return nil
}

func setRetention(c *Config, _ string, items []string) error {
	for _, item := range items {
		name, text, ok := strings.Cut(item, "=")
		status, known := journal.ParseStatus(strings.ToUpper(name))
		if !ok || !known || !status.IsTerminal() {
			return fmt.Errorf("%q is not STATUS=TIME", item)
		}
		d := time.Duration(-1)
		if text != forever {
			var err error
			if d, err = duration(text); err != nil {
				return err
			}
		}
		if c.Engine.Retention.ByStatus == nil {
			c.Engine.Retention.ByStatus = map[perdure.RunStatus]time.Duration{}
		}
		c.Engine.Retention.ByStatus[status] = d
	}
	return nil
}

func setInternal(c *Config, _ string, items []string) error {
	for _, item := range items {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return fmt.Errorf("%q is no network such as 10.1.0.0/16", item)
		}
		c.Alerts.Internal = append(c.Alerts.Internal, p.Masked())
	}
	return nil
}
