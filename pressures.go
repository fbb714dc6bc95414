package perdure

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// pressures has the pressures that have a name.
var pressures = struct {
	sync.RWMutex
	named map[string]Pressure
}{named: builtInPressures()}

func builtInPressures() map[string]Pressure {
	return map[string]Pressure{
		"adaptive":                     Adaptive{},
		"batched":                      Batched{},
		"circuit-breaker":              Breaker{Failures: 5, Recovery: 30 * time.Second, Successes: 3},
		"circuit-breaker-aggressive":   Breaker{Failures: 2, Recovery: 60 * time.Second, Successes: 1},
		"circuit-breaker-conservative": Breaker{Failures: 10, Recovery: 15 * time.Second, Successes: 5},
	}
}

// RegisterPressure gives a pressure a name, by which [NamedPressure] and [PressureConfig]
// find it. It fails on a name that is taken, and on a pressure that says, by a method
// Validate as those of this package have, that it cannot be. It may be called at any
// time, by many goroutines, as all that deals with names of pressures.
func RegisterPressure(name string, p Pressure) error {
	op := "register pressure " + name
	v := reflect.ValueOf(p)
	switch {
	case !journal.ValidName(name):
		return invalid("register pressure", "not a name: %s", quoted(name))
	case p == nil || v.Kind() == reflect.Pointer && v.IsNil():
		return invalid(op, "a pressure is needed")
	}
	if err := checkPressure(op, p); err != nil {
		return err
	}
	pressures.Lock()
	defer pressures.Unlock()
	if pressures.named[name] != nil {
		return &Error{Code: journal.CodeDuplicate, Op: op, Message: "the name is registered already"}
	}
	pressures.named[name] = p
	return nil
}

// CheckPressure says what is wrong with a pressure of a definition; nil is none.
func CheckPressure(where string, p Pressure) []Issue {
	if err := flawOf(p); err != nil {
		return []Issue{{Severity: IssueError, Where: where, Message: err.Error(), Err: err}}
	}
	return nil
}

// checkPressure gives what a pressure says is wrong with it, if it can say so.
func checkPressure(op string, p Pressure) error {
	if err := flawOf(p); err != nil {
		return &Error{Code: journal.CodeInvalid, Op: op, Err: err}
	}
	return nil
}

// flawOf asks a pressure that can say so. One that panics then cannot be either.
func flawOf(p Pressure) error {
	if v, can := p.(interface{ Validate() error }); can {
		return guard.Call(v.Validate)
	}
	return nil
}

// NamedPressure gives the pressure that has a name. Where none has, the [Error] is of
// code not_found and says which names there are.
func NamedPressure(name string) (Pressure, error) {
	pressures.RLock()
	p := pressures.named[name]
	pressures.RUnlock()
	if p == nil {
		return nil, &Error{
			Code: journal.CodeNotFound, Op: "pressure " + quoted(name), Message: "no pressure has this name",
			Hint: "there are " + strings.Join(Pressures(), ", "),
		}
	}
	return p, nil
}

// Pressures gives the names of all pressures that have one, sorted.
func Pressures() []string {
	pressures.RLock()
	defer pressures.RUnlock()
	return slices.Sorted(maps.Keys(pressures.named))
}

// ResetPressures leaves the five names that there are from the beginning: adaptive is
// [Adaptive] and batched [Batched], both without numbers; circuit-breaker,
// circuit-breaker-aggressive and circuit-breaker-conservative are a [Breaker] of 5
// failures, 30 s and 3 successes, of 2, 60 s and 1, and of 10, 15 s and 5.
func ResetPressures() {
	pressures.Lock()
	defer pressures.Unlock()
	pressures.named = builtInPressures()
}

// PressureConfig is a pressure as configuration says it, in JSON or any other form.
// Numbers that are zero are not given.
type PressureConfig struct {
	Strategy string `json:"strategy,omitempty"` // a name that is registered; adaptive

	BatchSize int `json:"batch_size,omitempty"` // Size, of a Batched

	FailureThreshold int    `json:"failure_threshold,omitempty"`   // Failures, of a Breaker
	RecoveryTimeout  string `json:"recovery_timeout,omitempty"`    // Recovery, as 30s or 1m30s
	HalfOpenMaxCalls int    `json:"half_open_max_calls,omitempty"` // Successes

	InitialConcurrency int     `json:"initial_concurrency,omitempty"`  // Start, of an Adaptive
	MinConcurrency     int     `json:"min_concurrency,omitempty"`      // Min
	MaxConcurrency     int     `json:"max_concurrency,omitempty"`      // Max
	ErrorRateThreshold float64 `json:"error_rate_threshold,omitempty"` // Halve; Grow is half of it
}

// Pressure gives the pressure of the strategy's name, with the numbers that are given
// instead of its own. It fails on a name that is not registered, on numbers that cannot
// be, and on numbers that the strategy has not: one that is no [Adaptive], [Batched] or
// [Breaker] has none.
func (c PressureConfig) Pressure() (Pressure, error) {
	const op = "pressure configuration"
	name := cmp.Or(c.Strategy, "adaptive")
	p, err := NamedPressure(name)
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
	case Breaker:
		take(&of.Failures, &c.FailureThreshold)
		take(&of.Successes, &c.HalfOpenMaxCalls)
		if c.RecoveryTimeout != "" {
			of.Recovery, err = time.ParseDuration(c.RecoveryTimeout)
			if err != nil || of.Recovery <= 0 {
				return nil, invalid(op, "recovery_timeout is %s: a time over 0, such as 30s", quoted(c.RecoveryTimeout))
			}
			c.RecoveryTimeout = ""
		}
		p = of
	}
	if left := c.given(); len(left) > 0 {
		return nil, invalid(op, "the strategy %s has no %s", name, strings.Join(left, " and no "))
	}
	if err := checkPressure(op, p); err != nil {
		return nil, err
	}
	return p, nil
}

// take moves a number that is given.
func take[T comparable](to, from *T) {
	var zero T
	if *from != zero {
		*to, *from = *from, zero
	}
}

// given names what is given, as in JSON.
func (c PressureConfig) given() (names []string) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); !v.Field(i).IsZero() {
			names = append(names, name)
		}
	}
	return names
}
