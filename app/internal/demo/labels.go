package demo

import (
	"context"
	"slices"

	"github.com/perdure/perdure"
)

// printers is how many labels are printed at a time.
const printers = 4

// labels prints a label for each parcel, a few of them at a time, and gives the
// labels in the order of the parcels. Each is a step of its own under the key of
// its parcel: after a crash those that are printed stay so.
func labels(w *client) *perdure.Workflow[[]string, []string] {
	return perdure.Define("label-printing", func(ctx context.Context, parcels []string) ([]string, error) {
		var printed []string
		for some := range slices.Chunk(parcels, printers) {
			var printing []*perdure.Future[string]
			for _, parcel := range some {
				printing = append(printing, perdure.Async(ctx, "print", func(ctx context.Context) (string, error) {
					return w.Print(ctx, perdure.IdempotencyKey(ctx), parcel)
				}, perdure.Key(parcel)))
			}
			for _, p := range printing {
				label, err := p.Await(ctx)
				if err != nil {
					return nil, err
				}
				printed = append(printed, label)
			}
		}
		return printed, nil
	}, patience)
}
