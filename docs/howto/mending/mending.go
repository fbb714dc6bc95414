// Package howto is the code of the page about mending runs.
package howto

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/journal"
)

// A Shop has the services that an order needs.
type Shop struct {
	Reserve func(ctx context.Context, item string) (string, error)
	Release func(ctx context.Context, reservation string) error
	Charge  func(ctx context.Context, item string) (string, error)
	Refund  func(ctx context.Context, receipt string) error
}

// Order returns a graph whose steps can be undone.
func Order(s Shop) *dag.Graph[string] {
	g := dag.New[string]("order", perdure.NoRetry)
	reserve := dag.Add(g, "reserve", s.Reserve).
		Undo(func(ctx context.Context, _, reservation string) error {
			return s.Release(ctx, reservation)
		})
	dag.Add(g, "charge", s.Charge).After(reserve).
		Undo(func(ctx context.Context, _, receipt string) error {
			return s.Refund(ctx, receipt)
		})
	return g
}

// PaidByHand skips the step charge of a failed order: somebody has taken the money by hand.
func PaidByHand(ctx context.Context, c *perdure.Engine, runID, receipt string) (string, error) {
	acted, err := admin.New(c).Act(ctx, runID, admin.Order{
		Action: journal.ActionSkip, Step: "charge", Output: []byte(`"` + receipt + `"`),
		By: "ada@desk", Reason: "paid in the shop",
	})
	return acted.RunID, err
}

// TakeBack undoes a completed order, and returns the run that does so.
func TakeBack(ctx context.Context, c *perdure.Engine, runID, why string) (string, error) {
	acted, err := admin.New(c).Act(ctx, runID, admin.Order{
		Action: journal.ActionCompensate, By: "ada@desk", Reason: why,
	})
	return acted.RunID, err
}

// RetryAll retries the runs of the last day whose failure contains a text, and returns the ID of
// the batch.
func RetryAll(ctx context.Context, c *perdure.Engine, failure, by string) (string, error) {
	b, err := batch.Start(ctx, c, batch.Spec{
		Order:  admin.Order{Action: journal.ActionRetry, By: by, Reason: "the bank is back"},
		Filter: "since=24h error~" + filter.Quote(failure), Rate: 50,
	})
	return b.ID, err
}
