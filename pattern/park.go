package pattern

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// Park is [perdure.Park] for one item of a list: the operator decides for name[key]. Without a key
// it is the same as perdure.Park.
func Park(ctx context.Context, name, key, reason string, choices ...string) (perdure.Decision,
	error) {
	switch {
	case !journal.ValidName(name):
		return perdure.Decision{}, failure.BadName("name", name)
	case key != "" && !journal.ValidName(key):
		return perdure.Decision{}, failure.BadName("key", key)
	}
	d, err := kernel.Decide(ctx, kernel.Decision{
		Name: name, Key: key, Reason: failure.Clip(reason), Choices: choices,
	})
	return perdure.Decision{Choice: d.Choice, Data: d.Data, Reason: d.Reason}, err
}
