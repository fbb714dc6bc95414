package backpressure

import (
	"cmp"
	"reflect"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// Config is a policy as configuration, in JSON or any other form. A zero number means that the
// configuration does not set it.
type Config struct {
	Strategy string `json:"strategy,omitempty"` // a registered name; empty means adaptive

	BatchSize int `json:"batch_size,omitempty"` // Size of a Batched

	FailureThreshold int    `json:"failure_threshold,omitempty"`   // Failures of a CircuitBreaker
	RecoveryTimeout  string `json:"recovery_timeout,omitempty"`    // Recovery, such as 30s or 1m30s
	HalfOpenMaxCalls int    `json:"half_open_max_calls,omitempty"` // Successes

	InitialConcurrency int     `json:"initial_concurrency,omitempty"`  // Start of an Adaptive
	MinConcurrency     int     `json:"min_concurrency,omitempty"`      // Min
	MaxConcurrency     int     `json:"max_concurrency,omitempty"`      // Max
	ErrorRateThreshold float64 `json:"error_rate_threshold,omitempty"` // Halve; Grow is half of it
}

// Policy returns the policy that has the name of the strategy. Numbers of the configuration replace
// its own numbers. It fails if the name is not registered, if a number is not valid, or if the
// strategy has no such number: a policy that is not an [Adaptive], [Batched] or [CircuitBreaker]
// has no numbers.
func (c Config) Policy() (Policy, error) {
	const op = "policy configuration"
	name := cmp.Or(c.Strategy, "adaptive")
	p, err := Lookup(name)
	if err != nil {
		return nil, err
	}
	c.Strategy = ""
	switch of := p.(type) {
	case Adaptive:
		take(&of.Start, &c.InitialConcurrency)
		take(&of.Min, &c.MinConcurrency)
		take(&of.Max, &c.MaxConcurrency)
		if c.ErrorRateThreshold != 0 {
			of.Grow = 0
		}
		take(&of.Halve, &c.ErrorRateThreshold)
		p = of
	case Batched:
		take(&of.Size, &c.BatchSize)
		p = of
	case CircuitBreaker:
		take(&of.Failures, &c.FailureThreshold)
		take(&of.Successes, &c.HalfOpenMaxCalls)
		if c.RecoveryTimeout != "" {
			of.Recovery, err = time.ParseDuration(c.RecoveryTimeout)
			if err != nil || of.Recovery <= 0 {
				return nil, failure.Invalid(op, "recovery_timeout is %s: a time over 0, "+
					"such as 30s", failure.Quoted(c.RecoveryTimeout))
			}
			c.RecoveryTimeout = ""
		}
		p = of
	}
	if left := c.given(); len(left) > 0 {
		return nil, failure.Invalid(op, "the strategy %s has no %s", name,
			strings.Join(left, " and no "))
	}
	if err := check(op, p); err != nil {
		return nil, err
	}
	return p, nil
}

// take moves a value that is set.
func take[T comparable](to, from *T) {
	var zero T
	if *from != zero {
		*to, *from = *from, zero
	}
}

// given returns the names of the fields that are set, as in JSON.
func (c Config) given() (names []string) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); !v.Field(i).IsZero() {
			names = append(names, name)
		}
	}
	return names
}
