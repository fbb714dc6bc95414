package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/tcc"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "perdure.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// spec: P-13
func TestASourceIsStrongerThanTheOneBeforeIt(t *testing.T) {
	file := write(t, "engine:\n  capacity: 7\n  drain: 1m\nengine.sweep: 2s\n"+
		"log: {format: json}\nredact: [card, pin]\npatterns.off: saga\n")
	c, values, err := Load(file, []string{
		"PERDURE_ENGINE_DRAIN=2m", "PERDURE_LOG_FORMAT=off", "HOME=/", "PERDURE_TEST_X=1",
	}, map[string]string{"log.format": "text"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Engine.Capacity != 7 || c.Engine.Drain != 2*time.Minute || c.Log.Format != "text" ||
		c.Engine.Sweep != 2*time.Second || strings.Join(c.Redact, " ") != "card pin" ||
		c.Listen.Address != "127.0.0.1:7433" || len(c.Engine.Off) != 1 ||
		c.Engine.Off[0] != journal.PatternSaga {
		t.Errorf("%+v", c)
	}
	from := map[string]string{}
	for _, v := range values {
		from[v.Key.Name] = v.From
	}
	for name, want := range map[string]string{
		"engine.capacity": file + ":2", "engine.drain": "PERDURE_ENGINE_DRAIN",
		"engine.sweep": file + ":4", "log.format": "--log", "listen.address": "default",
		"redact": file + ":6",
	} {
		if from[name] != want {
			t.Errorf("%s is from %q, want %q", name, from[name], want)
		}
	}
}

// Each default is a value that its key takes, and is the engine's own.
//
// spec: P-13
func TestDefaultsAreValid(t *testing.T) {
	c, values, err := Load("", nil, nil)
	if err != nil || len(values) != len(Keys()) {
		t.Fatal(len(values), err)
	}
	o := c.Engine
	if o.Capacity != 10_000 || o.Drain != 10*time.Second || o.IdleTimeout != time.Second ||
		o.MaxPayload != 64<<20 || o.MaxLoaded != 256<<20 || o.Sweep != 30*time.Second ||
		o.SweepOnly || o.FailOnWarning || o.Retention.Period != 7*24*time.Hour ||
		o.CleanUp != time.Hour || o.KeepUnrouted != 7*24*time.Hour ||
		o.KeepDeadLettered != 30*24*time.Hour || c.Stale != time.Hour ||
		o.MaxCrashes != 20 || o.Dedup != 24*time.Hour || o.SpillOver != 100_000 ||
		o.MaxStreams != 16<<20 || o.NoLifecycle || len(o.Off) > 0 || !c.Traces ||
		o.Defaults != (definition.Defaults{
			SagaTimeout: saga.DefaultTimeout, TCCTimeout: tcc.DefaultTimeout,
			Compensation: string(saga.StrictSequential), OnUndoError: "default",
		}) ||
		c.Switches != (Switches{
			API: true, Page: true, Health: true, Metrics: true, DeadLetters: true, Recovery: true,
		}) {
		t.Errorf("%+v", c)
	}
}

// Each key, set to what is not its default, changes the configuration.
//
// spec: P-13
func TestEveryKeyArrives(t *testing.T) {
	_, hash := auth.NewToken()
	texts := map[string]string{
		"store": "sqlite:other.db", "listen.address": "127.0.0.1:18100", "listen.hosts": "a",
		"listen.certificate": "a.pem", "listen.key": "a.key", "listen.prefix": "/ops",
		"auth.tokens": "ada:admin:" + hash, "audit.file": "audit", "redact": "pin",
		"encryption.keys": "a:b", "engine.dedup": "0s", "engine.precise_timers": "off",
		"patterns.off": "workflow", "sagas.timeout": "none",
		"sagas.compensation": "CIRCUIT_BREAKER", "sagas.on_undo_error": "robust",
		"tccs.timeout": "1m", "retention.period": "forever",
		"backpressure.strategy": "batched", "backpressure.error_rate_threshold": "0.5",
		"orchestrators.redis": "redis://u:p@h:6379", "orchestrators.prefix": "shop:",
		"orchestrators.ttl": "1h", "retention.statuses": "FAILED=1h", "alerts.secret": "s",
		"alerts.smtp": "smtp://h", "alerts.internal": "10.0.0.0/8", "log.format": "json",
		"log.level": "warn",
	}
	// The numbers of another strategy than adaptive are refused without it.
	also := map[string]string{
		"backpressure.batch_size": "batched", "backpressure.failure_threshold": "circuit-breaker",
		"backpressure.recovery_timeout":    "circuit-breaker",
		"backpressure.half_open_max_calls": "circuit-breaker",
	}
	load := func(text string) Config {
		t.Helper()
		c, _, err := Load(write(t, text), nil, nil)
		if err != nil && !strings.Contains(err.Error(), "listen.certificate and listen.key") {
			t.Errorf("%s: %v", text, err)
		}
		return c
	}
	for _, k := range Keys() {
		text, before := texts[k.Name], ""
		switch { // else any other value of its kind
		case text != "":
		case k.Default == "true":
			text = "false"
		case k.Default == "false":
			text = "true"
		case strings.Trim(k.Default, "0123456789") == "":
			text = "7"
		default:
			text = "77s"
		}
		if s := also[k.Name]; s != "" {
			before = "backpressure.strategy: " + s + "\n"
		}
		if reflect.DeepEqual(load(before), load(before+k.Name+": \""+text+"\"\n")) {
			t.Errorf("%s: %s changes nothing", k.Name, text)
		}
	}
	if c := load("switches.recovery: false\n"); c.Engine.MaxCrashes != 1 {
		t.Errorf("without recovery a run is parked after %d crashes", c.Engine.MaxCrashes)
	}
}

// spec: P-13
func TestMistakesAreRefusedWithTheirPlace(t *testing.T) {
	_, hash := auth.NewToken()
	for _, c := range []struct{ file, env, want string }{
		{"engine:\n  capacty: 7\n", "", ":2: there is no key engine.capacty"},
		{"colour: red\n", "", ":1: there is no key colour"},
		{"engine: 7\n", "", "there is no key engine"},
		{"engine.capacity: 1\nengine: {capacity: 2}\n", "", "engine.capacity comes twice"},
		{"engine.capacity: many\n", "", ":1: engine.capacity is not valid: allowed are whole"},
		{"engine.capacity: [1, 2]\n", "", "it is one text, not a list"},
		{"engine.drain: -1s\n", "", "allowed are durations"},
		{"engine.drain: 9999999h\n", "", "allowed are durations"},
		{"engine.sweep: 1ms\n", "", "allowed are 1s to 10m"},
		{"redact: [[a]]\n", "", "redact is a list of texts"},
		{"listen: {prefix: ops}\n", "", "it begins with a slash"},
		{"- a\n", "", ":1: keys and values are needed here"},
		{"a: [\n", "", "is not YAML"},
		{"log.format: text\n---\nlog.format: text\n", "", "more than one document"},
		{"patterns.off: [opera]\n", "", `there is no pattern "opera"`},
		{"sagas: {timeout: 0s}\n", "", ":1: sagas.timeout is not valid: allowed are none and"},
		{"tccs: {timeout: soon}\n", "", "allowed are durations"},
		{"sagas.compensation: ODD\n", "", "allowed are STRICT_SEQUENTIAL, GROUPED_PARALLEL"},
		{"sagas.on_undo_error: odd\n", "", "allowed are default, log-and-continue, fail-fast"},
		{"backpressure.strategy: odd\n", "", "no policy has this name"},
		{"backpressure.batch_size: 3\n", "", "the strategy adaptive has no batch_size"},
		{"backpressure.error_rate_threshold: much\n", "", "allowed are numbers such as 0.1"},
		{"orchestrators.redis: 'http://h'\n", "", "begin with redis://"},
		{"orchestrators.prefix: ''\n", "", "it is empty"},
		{"orchestrators.ttl: 0s\n", "", "allowed are none and durations above 0"},
		{"engine.max_crashes: 0\n", "", "allowed are whole numbers from 1 on"},
		{"retention.statuses: [RUNNING=1h]\n", "", "is not STATUS=TIME"},
		{"alerts.internal: [10.0.0.1]\n", "", "is no network"},
		{"auth.tokens: ['ada:boss:" + hash + "']\n", "", "the role viewer, operator or admin"},
		{"auth.tokens: ['ada:admin:sha256:12']\n", "", "64 hexadecimal digits"},
		{"auth.tokens: ['a:admin:" + hash + "', 'a:viewer:" + hash + "']\n", "", "has a twice"},
		{"listen.certificate: a.pem\n", "", "go together"},
		{"listen.address: 0.0.0.0:1\n", "", "without credentials"},
		{"listen.address: ':1'\n", "", "without credentials"},
		{"listen.address: here\n", "", "allowed are HOST:PORT"},
		{"", "PERDURE_LISTN_ADDRESS=x", "the variable PERDURE_LISTN_ADDRESS is no key"},
		{"encryption.keys: file:/nowhere/keys\n", "", "no such file"},
		{"encryption.keys: file:/dev/null\n", "", "is empty"},
		{"", "PERDURE_ENCRYPTION_KEYS=", "it is set, and empty"},
	} {
		_, _, err := Load(write(t, c.file), []string{c.env}, nil)
		var e *perdure.Error
		if !errors.As(err, &e) || e.Code != journal.CodeInvalid ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v, want %q", c.file, c.env, err, c.want)
		}
	}
	if _, _, err := Load("/nowhere.yaml", nil, nil); err == nil {
		t.Error("a file that is not there is accepted")
	}
}

// spec: P-13, B-18
func TestSecretsAreNotShown(t *testing.T) {
	const canary = "canary-of-a-secret"
	kept := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(kept, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, values, err := Load("", []string{
		"PERDURE_STORE=postgres://shop:" + canary + "@db/shop", "PERDURE_SERVICE_HOST=10.0.0.1",
		"PERDURE_PORT_7433_TCP=tcp://10.0.0.1:7433", "PERDURE_ALERT_SECRET=" + canary, "PERDURE_SMTP=smtp://u:" + canary + "@h",
		"PERDURE_ENCRYPTION_KEYS=file:" + kept,
	}, nil)
	if err != nil || c.Alerts.Secret != canary || c.Encryption.Keys != canary {
		t.Error(c, err)
	}
	hash := "sha256:" + strings.Repeat("ab", 32)
	_, tokens, err := Load("", []string{"PERDURE_AUTH_TOKENS=ada:admin:" + hash + ",x:viewer:" +
		hash}, nil)
	if err != nil {
		t.Error(err)
	}
	for _, v := range tokens {
		if v.Key.Name == "auth.tokens" && v.Text != "ada:admin,x:viewer" {
			t.Errorf("tokens are shown as %q", v.Text)
		}
	}
	for _, v := range values {
		if strings.Contains(v.Text, canary) {
			t.Errorf("%s shows its secret", v.Key.Name)
		}
	}
}

// With credentials the API may listen anywhere.
//
// spec: B-18
func TestCredentialsOpenTheAddress(t *testing.T) {
	_, hash := auth.NewToken()
	c, _, err := Load(write(t, "listen.address: 0.0.0.0:7433\nauth:\n  tokens:\n    - ada:admin:"+
		hash+"\n"), nil, nil)
	if err != nil || len(c.Tokens) != 1 || c.Tokens[0].Role != auth.Admin {
		t.Error(c, err)
	}
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "127.9.9.9:1": true,
		"[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1":            false, "[::]:1": false, ":1": false, "10.0.0.1:1": false,
	} {
		if isLoopback(address) != want {
			t.Errorf("%s: loopback %t, want %t", address, !want, want)
		}
	}
}
