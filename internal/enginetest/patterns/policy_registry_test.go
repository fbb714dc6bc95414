package patterns

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// A moodyPolicy is a user's own policy. It decides itself whether it is valid.
type moodyPolicy struct{ err error }

func (*moodyPolicy) Begin() backpressure.Limiter { return backpressure.Limit(3) }
func (m *moodyPolicy) Validate() error           { return m.err }

// spec: P-12
func TestFivePoliciesHaveNames(t *testing.T) {
	t.Cleanup(backpressure.Reset)
	five := map[string]backpressure.Policy{
		"adaptive": backpressure.Adaptive{},
		"batched":  backpressure.Batched{},
		"circuit-breaker": backpressure.CircuitBreaker{
			Failures: 5, Recovery: 30 * time.Second, Successes: 3,
		},
		"circuit-breaker-aggressive": backpressure.CircuitBreaker{
			Failures: 2, Recovery: time.Minute, Successes: 1,
		},
		"circuit-breaker-conservative": backpressure.CircuitBreaker{
			Failures: 10, Recovery: 15 * time.Second, Successes: 5,
		},
	}
	names := []string{
		"adaptive", "batched", "circuit-breaker", "circuit-breaker-aggressive",
		"circuit-breaker-conservative",
	}
	for range 2 {
		if got := backpressure.Names(); !slices.Equal(got, names) {
			t.Errorf("the names are %q", got)
		}
		for name, want := range five {
			if got, err := backpressure.Lookup(name); got != want || err != nil {
				t.Errorf("%s: %+v %v, want %+v", name, got, err, want)
			}
		}
		if err := backpressure.Register("mine", backpressure.Limit(1)); err != nil {
			t.Error(err)
		}
		if got := backpressure.Names(); !slices.Equal(got, append(slices.Clone(names), "mine")) {
			t.Errorf("with one more, the names are %q", got)
		}
		backpressure.Reset()
	}
	_, err := backpressure.Lookup("mine")
	world.CodeIs(t, err, journal.CodeNotFound)
	for _, name := range append(names, "mine") {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("nothing of %s: %v", name, err)
		}
	}
}

// spec: P-12
func TestPoliciesAreRegisteredOnce(t *testing.T) {
	t.Cleanup(backpressure.Reset)
	own := &moodyPolicy{}
	if err := backpressure.Register("own", own); err != nil {
		t.Fatal(err)
	}
	if got, err := backpressure.Lookup("own"); got != own || err != nil {
		t.Error(got, err)
	}
	for _, c := range []struct {
		name string
		p    backpressure.Policy
		code journal.Code
	}{
		{"", backpressure.Limit(1), journal.CodeInvalid},
		{"a b", backpressure.Limit(1), journal.CodeInvalid},
		{strings.Repeat("x", 256), backpressure.Limit(1), journal.CodeInvalid},
		{"none", nil, journal.CodeInvalid},
		{"nil", (*moodyPolicy)(nil), journal.CodeInvalid},
		{"moody", &moodyPolicy{world.ErrOdd}, journal.CodeInvalid},
		{"few", backpressure.Limit(-1), journal.CodeInvalid},
		{"small", backpressure.Batched{Size: -1}, journal.CodeInvalid},
		{"own", backpressure.Limit(1), journal.CodeDuplicate},
		{"adaptive", backpressure.Limit(1), journal.CodeDuplicate},
	} {
		err := backpressure.Register(c.name, c.p)
		if journal.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
		if c.name == "moody" && !errors.Is(err, world.ErrOdd) {
			t.Errorf("%v does not say why", err)
		}
	}
	if got := backpressure.Names(); len(got) != 6 {
		t.Errorf("the names are %q", got)
	}
}

// spec: P-12
func TestPoliciesAreRegisteredByMany(t *testing.T) {
	t.Cleanup(backpressure.Reset)
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if backpressure.Register("one", backpressure.Limit(i)) == nil {
				won.Add(1)
			}
			for j := range 50 {
				name := fmt.Sprint("n", i, ".", j)
				if err := backpressure.Register(name, backpressure.Limit(j)); err != nil {
					t.Error(err)
				}
				if p, err := backpressure.Lookup(name); p != backpressure.Limit(j) || err != nil {
					t.Error(name, p, err)
				}
				if names := backpressure.Names(); !slices.Contains(names, name) {
					t.Error("not among all:", name)
				}
			}
		})
	}
	all.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d registered one name", n)
	}
	if n := len(backpressure.Names()); n != 5+1+16*50 {
		t.Errorf("there are %d names", n)
	}
	for range 4 {
		all.Go(backpressure.Reset)
		all.Go(func() {
			if _, err := backpressure.Lookup("adaptive"); err != nil {
				t.Error("while others reset them:", err)
			}
		})
	}
	all.Wait()
}

// spec: P-12
func TestPoliciesFromConfiguration(t *testing.T) {
	t.Cleanup(backpressure.Reset)
	own := &moodyPolicy{}
	for name, p := range map[string]backpressure.Policy{
		"own": own, "three": backpressure.Limit(3), "careful": backpressure.Adaptive{
			Start: 2, Halve: 0.5, Grow: 0.4, Every: 5,
		},
	} {
		if err := backpressure.Register(name, p); err != nil {
			t.Fatal(err)
		}
	}
	for config, want := range map[string]backpressure.Policy{
		`{}`: backpressure.Adaptive{},
		`{"initial_concurrency":2,"min_concurrency":1,"max_concurrency":3,"error_rate_threshold":0.5}`: backpressure.Adaptive{
			Start: 2, Min: 1, Max: 3, Halve: 0.5,
		},
		`{"strategy":"adaptive","max_concurrency":2}`: backpressure.Adaptive{
			Max: 2,
		},
		`{"strategy":"batched"}`: backpressure.Batched{},
		`{"strategy":"batched","batch_size":7}`: backpressure.Batched{
			Size: 7,
		},
		`{"strategy":"circuit-breaker"}`: backpressure.CircuitBreaker{
			Failures: 5, Recovery: 30 * time.Second, Successes: 3,
		},
		`{"strategy":"circuit-breaker-aggressive"}`: backpressure.CircuitBreaker{
			Failures: 2, Recovery: time.Minute, Successes: 1,
		},
		`{"strategy":"circuit-breaker","failure_threshold":8}`: backpressure.CircuitBreaker{
			Failures: 8, Recovery: 30 * time.Second, Successes: 3,
		},
		`{"strategy":"circuit-breaker","recovery_timeout":"1m30s"}`: backpressure.CircuitBreaker{
			Failures: 5, Recovery: 90 * time.Second, Successes: 3,
		},
		`{"strategy":"circuit-breaker","half_open_max_calls":2}`: backpressure.CircuitBreaker{
			Failures: 5, Recovery: 30 * time.Second, Successes: 2,
		},
		`{"strategy":"circuit-breaker-aggressive","failure_threshold":4}`: backpressure.CircuitBreaker{
			Failures: 4, Recovery: time.Minute, Successes: 1,
		},
		`{"strategy":"own"}`:   own,
		`{"strategy":"three"}`: backpressure.Limit(3),
		`{"strategy":"careful"}`: backpressure.Adaptive{
			Start: 2, Halve: 0.5, Grow: 0.4, Every: 5,
		},
		`{"strategy":"careful","error_rate_threshold":0.2}`: backpressure.Adaptive{
			Start: 2, Halve: 0.2, Every: 5,
		},
	} {
		var c backpressure.Config
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			t.Fatal(config, err)
		}
		if got, err := c.Policy(); got != want || err != nil {
			t.Errorf("%s: %+v %v, want %+v", config, got, err, want)
		}
		if text, err := json.Marshal(c); err != nil || string(text) != config {
			t.Errorf("%s in JSON again: %s %v", config, text, err)
		}
	}
	if p, err := backpressure.Lookup("careful"); err != nil ||
		p != (backpressure.Adaptive{Start: 2, Halve: 0.5, Grow: 0.4, Every: 5}) {
		t.Errorf("the one that has the name is now %+v %v", p, err)
	}
}

// spec: P-12
func TestInvalidConfigurationsOfPoliciesAreRefused(t *testing.T) {
	t.Cleanup(backpressure.Reset)
	if err := backpressure.Register("three", backpressure.Limit(3)); err != nil {
		t.Fatal(err)
	}
	type config = backpressure.Config
	for _, c := range []struct {
		config config
		says   string
	}{
		{config{InitialConcurrency: -1}, "Start -1"},
		{config{MinConcurrency: -1}, "Min -1"},
		{config{MaxConcurrency: -1}, "Max -1"},
		{config{MinConcurrency: 3, MaxConcurrency: 2}, "Max 2"},
		{config{ErrorRateThreshold: 1.5}, "Halve 1.5"},
		{config{ErrorRateThreshold: math.NaN()}, "Halve NaN"},
		{config{Strategy: "batched", BatchSize: -1}, "Size -1"},
		{config{Strategy: "circuit-breaker", FailureThreshold: -1}, "Failures -1"},
		{config{Strategy: "circuit-breaker", HalfOpenMaxCalls: -1}, "Successes -1"},
		{
			config{Strategy: "circuit-breaker", RecoveryTimeout: "-30s"},
			`recovery_timeout is "-30s"`,
		},
		{config{Strategy: "circuit-breaker", RecoveryTimeout: "0s"}, `recovery_timeout is "0s"`},
		{config{Strategy: "circuit-breaker", RecoveryTimeout: "30"}, `recovery_timeout is "30"`},
		{config{BatchSize: 3}, "adaptive has no batch_size"},
		{config{FailureThreshold: 3}, "adaptive has no failure_threshold"},
		{
			config{RecoveryTimeout: "1s", HalfOpenMaxCalls: 3},
			"adaptive has no recovery_timeout and no half_open_max_calls",
		},
		{config{Strategy: "batched", InitialConcurrency: 3}, "batched has no initial_concurrency"},
		{
			config{Strategy: "circuit-breaker", MinConcurrency: 3},
			"circuit-breaker has no min_concurrency",
		},
		{config{Strategy: "three", MaxConcurrency: 3}, "three has no max_concurrency"},
		{
			config{Strategy: "three", ErrorRateThreshold: math.NaN()},
			"three has no error_rate_threshold",
		},
	} {
		p, err := c.config.Policy()
		if p != nil || journal.CodeOf(err) != journal.CodeInvalid ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v %v, want %s", c.config, p, err, c.says)
		}
	}
	_, err := config{Strategy: "unheard-of"}.Policy()
	world.CodeIs(t, err, journal.CodeNotFound)
}
