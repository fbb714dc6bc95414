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

// Register registers a policy under a name, by which [Lookup] and [Config] find it. It fails if the
// name is registered already. If the policy has a method Validate, as the policies of this package
// have, Register also fails if that returns an error. Many goroutines may call Register, Lookup,
// Names and Reset at any time.
func Register(name string, p Policy) error {
	op := "register policy " + name
	v := reflect.ValueOf(p)
	switch {
	case !journal.ValidName(name):
		return failure.Invalid("register policy", "not a name: %s", failure.Quoted(name))
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

// Check returns the defects of a policy of a definition; nil for none.
func Check(where string, p Policy) []definition.Issue {
	if err := flawOf(p); err != nil {
		return []definition.Issue{definition.Wrong(where, err)}
	}
	return nil
}

// check returns the defect that a policy reports, if it has a method Validate.
func check(op string, p Policy) error {
	if err := flawOf(p); err != nil {
		return &journal.Error{Code: journal.CodeInvalid, Op: op, Err: err}
	}
	return nil
}

// flawOf calls the method Validate of a policy that has one. A panic in it counts as a defect.
func flawOf(p Policy) error {
	if v, can := p.(interface{ Validate() error }); can {
		return guard.Call(v.Validate)
	}
	return nil
}

// Lookup returns the policy that has a name. If there is no such policy, the error is of code
// not_found and lists the names that exist.
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

// Names returns the names of all registered policies, sorted.
func Names() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.named))
}

// Reset restores the five predefined names and removes all others. "adaptive" is an
// [Adaptive] and "batched" a [Batched], both with default numbers. The others are a
// [CircuitBreaker]: "circuit-breaker" has 5 failures, 30 s and 3 successes,
// "circuit-breaker-aggressive" has 2 failures, 60 s and 1 success, and
// "circuit-breaker-conservative" has 10 failures, 15 s and 5 successes.
func Reset() {
	registry.Lock()
	defer registry.Unlock()
	registry.named = builtIn()
}
