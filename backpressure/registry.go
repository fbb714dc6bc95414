package backpressure

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// registry has the policies that have a name.
var registry = struct {
	sync.RWMutex
	named map[string]Policy
}{named: builtIn()}

func builtIn() map[string]Policy {
	return map[string]Policy{
		"adaptive": Adaptive{},
		"batched":  Batched{},
		"circuit-breaker": CircuitBreaker{
			Failures: 5, Recovery: 30 * time.Second, Successes: 3,
		},
		"circuit-breaker-aggressive": CircuitBreaker{
			Failures: 2, Recovery: 60 * time.Second, Successes: 1,
		},
		"circuit-breaker-conservative": CircuitBreaker{
			Failures: 10, Recovery: 15 * time.Second, Successes: 5,
		},
	}
}

// Register gives a policy a name, by which [Lookup] and [Config]
// find it. It fails on a name that is taken, and on a policy that says, by a method
// Validate as those of this package have, that it is not valid. It may be called at any
// time, by many goroutines, as all that deals with names of policies.
func Register(name string, p Policy) error {
	op := "register policy " + name
	v := reflect.ValueOf(p)
	switch {
	case !journal.ValidName(name):
		return failure.Invalid("register pressure", "not a name: %s", failure.Quoted(name))
	case p == nil || v.Kind() == reflect.Pointer && v.IsNil():
		return failure.Invalid(op, "a policy is needed")
	}
	if err := check(op, p); err != nil {
		return err
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.named[name] != nil {
		return &journal.Error{
			Code: journal.CodeDuplicate, Op: op, Message: "the name is registered already",
		}
	}
	registry.named[name] = p
	return nil
}

// Check returns what is wrong with a policy of a definition; nil is none.
func Check(where string, p Policy) []definition.Issue {
	if err := flawOf(p); err != nil {
		return []definition.Issue{
			{Severity: definition.SeverityError, Where: where, Message: err.Error(), Err: err},
		}
	}
	return nil
}

// check returns what a policy says is wrong with it, if it can say so.
func check(op string, p Policy) error {
	if err := flawOf(p); err != nil {
		return &journal.Error{Code: journal.CodeInvalid, Op: op, Err: err}
	}
	return nil
}

// flawOf asks a policy that can say so. One that panics then cannot be either.
func flawOf(p Policy) error {
	if v, can := p.(interface{ Validate() error }); can {
		return guard.Call(v.Validate)
	}
	return nil
}

// Lookup returns the policy that has a name. Where none has, the error is of
// code not_found and says which names there are.
func Lookup(name string) (Policy, error) {
	registry.RLock()
	p := registry.named[name]
	registry.RUnlock()
	if p == nil {
		return nil, &journal.Error{
			Code: journal.CodeNotFound, Op: "policy " + failure.Quoted(name),
			Message: "no policy has this name",
			Hint:    "there are " + strings.Join(Names(), ", "),
		}
	}
	return p, nil
}

// Names returns the names of all policies that have one, sorted.
func Names() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.named))
}

// Reset leaves the five names that there are from the beginning: adaptive is
// [Adaptive] and batched [Batched], both without numbers; circuit-breaker,
// circuit-breaker-aggressive and circuit-breaker-conservative are a [CircuitBreaker] of 5
// failures, 30 s and 3 successes, of 2, 60 s and 1, and of 10, 15 s and 5.
func Reset() {
	registry.Lock()
	defer registry.Unlock()
	registry.named = builtIn()
}
