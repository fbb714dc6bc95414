package pattern

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sealed"
)

// Park is [perdure.Park] for one item of a list: the operator decides for name[key]. Without a key
// it is the same as perdure.Park.
func Park(ctx context.Context, name, key, reason string, choices ...string) (perdure.Decision,
	error) {
	d, err := sealed.Decide(ctx, name, key, reason, choices)
	return perdure.Decision{Choice: d.Choice, Data: d.Data, By: d.By, Reason: d.Reason}, err
}
