package actor

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/journal"
)

// bulk carries out an order on the run of the case by a batch, and reports whether the batch has
// come to the run: some batches are stopped. The batch is started again if its start has an unknown
// outcome; the second one then has nothing to do.
func (x *dealing) bulk(ctx context.Context, do admin.Order) (came bool, err error) {
	spec := batch.Spec{Order: do, Filter: "id=" + x.ID}
	if x.rng.IntN(2) == 0 {
		spec.Filter, spec.Runs = "", []string{x.ID}
	}
	var b batch.Batch
	tries := 0
	if err := x.insist(ctx, "batch-start", func(c *perdure.Client) (err error) {
		tries++
		if _, err = batch.Preview(ctx, c, spec); err == nil {
			b, err = batch.Start(ctx, c, spec)
		}
		return err
	}); err != nil {
		return false, err
	}
	if x.rng.IntN(4) == 0 {
		if err := x.insist(ctx, "batch-stop", func(c *perdure.Client) error {
			err := batch.Stop(ctx, c, b.ID, operator, Reason)
			if is(err, journal.CodeWrongState) {
				return nil
			}
			return err
		}); err != nil {
			return false, err
		}
	}
	for id := b.ID; b.Ended.IsZero(); { // an error returns no batch
		if err := x.rest(ctx); err != nil {
			return false, err
		}
		if err := x.insist(ctx, "batch-get", func(c *perdure.Client) (err error) {
			b, err = batch.Get(ctx, c, id)
			return err
		}); err != nil {
			return false, err
		}
	}
	if b.Status == batch.Broken || b.Failed > 0 || b.Status == batch.Done && b.Matched != 1 &&
		tries == 1 {
		return false, fmt.Errorf("batch of %s: %+v", x.ID, b)
	}
	return b.Done > 0, x.insist(ctx, "batch-list", func(c *perdure.Client) error {
		_, _, err := batch.List(ctx, c, batch.Query{Open: true, Limit: 10})
		return err
	})
}
