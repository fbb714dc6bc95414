package steps

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// No call panics because its caller, or the function that says where signals go, is nil.
func TestANilCallerIsRefused(t *testing.T) {
	other, news := perdure.Define("other", world.Nothing), perdure.NewSignal[int]("news")
	ctx := t.Context()
	to := func(int) (string, []perdure.SendOption) { return "x", nil }
	for name, c := range map[string]perdure.Caller{
		"nil": nil, "engine": (*perdure.Engine)(nil), "client": (*perdure.Client)(nil),
	} {
		_, start := other.Start(ctx, c, 1)
		_, get := other.Get(ctx, c, "x")
		_, send := news.Send(ctx, c, "x", 1)
		_, both := perdure.SendWithStart(ctx, c, news, 1, other, 1, perdure.ID("x"))
		_, starts := other.StartAll(ctx, c, []int{1}, nil)
		_, sends := news.SendAll(ctx, c, []int{1}, to)
		for _, err := range []error{start, get, send, both, starts[0], sends[0]} {
			if journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	eng, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, errs := news.SendAll(ctx, eng, []int{1}, nil); journal.CodeOf(
		errs[0]) != journal.CodeInvalid {
		t.Error(errs)
	}
	var none *perdure.Workflow[int, int]
	if _, err := perdure.SendWithStart(ctx, eng, news, 1, none, 1,
		perdure.ID("x")); journal.CodeOf(err) != journal.CodeInvalid {
		t.Error(err)
	}
}
