package batch_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// growing returns a filter that is too long once its values are quoted.
func growing() string {
	var all []string
	for i := range 200 {
		all = append(all, fmt.Sprintf("attr.a%d=%s", i, strings.Repeat("\u200b", 80)))
	}
	return strings.Join(all, " ")
}

// spec: B-8
func TestABatchThatIsNotValidIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, fail, batch.Workflow())
		order := retry("ada", "")
		for name, c := range map[string]struct {
			spec batch.Spec
			want string // in the error
		}{
			"nothing": {batch.Spec{}, `action "" is not valid: allowed are retry, skip, fork`},
			"no runs": {batch.Spec{Order: order}, "without a filter and without runs"},
			"both": {
				batch.Spec{Order: order, Filter: "open", Runs: []string{"a"}}, "together are not",
			},
			"an action": {
				batch.Spec{Order: admin.Order{Action: journal.ActionResume}, Filter: "open"},
				`action "resume" is not valid`,
			},
			"a step": {
				batch.Spec{Order: admin.Order{Action: journal.ActionFork}, Filter: "workflow=a"},
				"a fork needs a step",
			},
			"the name": {
				batch.Spec{Order: retry(strings.Repeat("x", 256), ""), Filter: "open"},
				"the name of the operator is not valid",
			},
			"the filter": {
				batch.Spec{Order: order, Filter: "statsu=failed"}, `"statsu" at character 1`,
			},
			"a huge filter": {
				batch.Spec{Order: order, Filter: strings.Repeat("x", 1<<20)},
				"filter of 1048576 bytes is not valid",
			},
			"a filter that grows": {
				batch.Spec{Order: order, Filter: growing()},
				"bytes is not valid: at most",
			},
			"no UTF-8": {batch.Spec{Order: order, Filter: "id=\xff"}, "no UTF-8"},
			"status": {
				batch.Spec{Order: order, Filter: "status=COMPLETED"},
				"status COMPLETED is not valid in the filter of a batch that is to retry: " +
					"allowed are FAILED, TIMED_OUT, CANCELLED",
			},
			"ended": {
				batch.Spec{
					Order: admin.Order{Action: journal.ActionTerminate}, Filter: "status=failed",
				}, "status FAILED is not valid in the filter of a batch that is to terminate",
			},
			"own": {
				batch.Spec{Order: order, Filter: "workflow=perdure.batch"}, "are the engine's",
			},
			"an ID": {batch.Spec{Order: order, Runs: []string{"a b"}}, `"a b" is not valid`},
			"no ID": {batch.Spec{Order: order, Runs: []string{""}}, "is not valid"},
			"long ID": {
				batch.Spec{Order: order, Runs: []string{strings.Repeat("x", 1<<20)}}, "not valid",
			},
			"too many": {
				batch.Spec{Order: order, Runs: make([]string, batch.MaxRuns+1)},
				"a list of 10001 runs is not valid",
			},
			"negative": {batch.Spec{Order: order, Filter: "open", Rate: -1}, "rate -1 is not"},
			"no rate": {
				batch.Spec{Order: order, Filter: "open", Rate: math.NaN()}, "rate NaN is not valid",
			},
			"fast": {
				batch.Spec{Order: order, Filter: "open", Rate: math.Inf(1)}, "rate +Inf is",
			},
			"slow": {batch.Spec{Order: order, Filter: "open", Rate: 1e-9}, "rate 1e-09 is not"},
		} {
			_, err := batch.Start(t.Context(), w.Engine, c.spec)
			_, same := batch.Preview(t.Context(), w.Engine, c.spec)
			for _, err := range []error{err, same} {
				if journal.CodeOf(err) != journal.CodeInvalid ||
					!strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
					t.Errorf("%s: %v, want %s", name, err, c.want)
				}
			}
		}
		for _, id := range []string{"", "a b", strings.Repeat("x", 1<<20), "\xff"} {
			_, err := batch.Get(t.Context(), w.Engine, id)
			if journal.CodeOf(err) != journal.CodeInvalid || len(err.Error()) > 1000 {
				t.Error(err)
			}
		}
		if _, err := batch.Get(t.Context(), w.Engine, "none"); journal.CodeOf(err) !=
			journal.CodeNotFound {
			t.Error(err)
		}
		if _, _, err := batch.List(t.Context(), w.Engine, batch.Query{Limit: -1}); journal.CodeOf(
			err) != journal.CodeInvalid {
			t.Error(err)
		}
		for _, c := range []perdure.Caller{nil, (*perdure.Engine)(nil), (*perdure.Client)(nil)} {
			_, err := batch.Start(t.Context(), c, batch.Spec{Order: order, Filter: "open"})
			if journal.CodeOf(err) != journal.CodeInvalid {
				t.Error(err)
			}
		}
		w.End()
	})
}
