package definition

import (
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// Defaults are what sagas and TCCs have that do not say it themselves. They belong to an engine, as
// perdure.Options.Defaults. The zero value is valid.
//
// A timeout that is changed counts for open runs too. A rollback ends by the policy and the handler
// that it has begun with, which its journal has.
type Defaults struct {
	// SagaTimeout is the overall timeout of a saga, and of a composition of sagas. Zero means 5
	// min. Below zero, there is none.
	SagaTimeout time.Duration
	// TCCTimeout is that of a TCC, and of a composition of TCCs. Zero means 30 s. Below zero, there
	// is none.
	TCCTimeout time.Duration
	// Compensation is the name of the policy of sagas, such as GROUPED_PARALLEL. Empty means
	// STRICT_SEQUENTIAL. See saga.Policy. Compositions have policies of their own.
	Compensation string
	// OnUndoError is the name of the handler of compensations of sagas that have failed: default,
	// log-and-continue, fail-fast, retry or robust. Empty means default. See saga.NamedHandler.
	OnUndoError string
}

// The names of policies and handlers are those of package saga.
var (
	policies = []string{
		"STRICT_SEQUENTIAL", "GROUPED_PARALLEL", "RETRY_WITH_BACKOFF", "CIRCUIT_BREAKER",
		"BEST_EFFORT_PARALLEL",
	}
	handlers = []string{"default", "log-and-continue", "fail-fast", "retry", "robust"}
)

// Check returns an error of code invalid for a name that is not known.
func (d Defaults) Check() error {
	for _, c := range []struct {
		what, name string
		known      []string
	}{
		{"Compensation", d.Compensation, policies}, {"OnUndoError", d.OnUndoError, handlers},
	} {
		if c.name != "" && !slices.Contains(c.known, c.name) {
			return failure.Invalid("defaults", "%s is %s: allowed are %s", c.what,
				failure.Quoted(c.name), strings.Join(c.known, ", "))
		}
	}
	return nil
}
