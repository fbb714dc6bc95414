package play

import (
	"context"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/limit"
)

// The workflows that make one run of several starts. Their input is a list of items, such as
// "beside/0/7", and the part before the last slash is the key. Their output is the input.
const (
	Gathers  = "gathers"
	Settles  = "settles" // by a debounce
	Joins    = "joins"
	Replaces = "replaces"
)

// defineMerged returns these workflows.
func (e *Env) defineMerged() (all []perdure.Definition) {
	key := limit.By(func(in []string) string {
		return in[0][:strings.LastIndexByte(in[0], '/')]
	})
	const soon = 50 * time.Millisecond
	for name, c := range map[string]limit.Control{
		Gathers:  {Key: key, Gather: limit.Gather{Most: 5, Within: 4 * soon}, Concurrency: 2},
		Settles:  {Key: key, Debounce: limit.Debounce{Quiet: soon, Longest: 8 * soon}},
		Joins:    {Key: key, Singleton: limit.Join},
		Replaces: {Key: key, Singleton: limit.Replace, PerKey: 1},
	} {
		all = append(all, perdure.Define(name, func(ctx context.Context, in []string) ([]string,
			error) {
			if _, err := perdure.Step(ctx, "do", e.effect(in[0]+"/"+name), brisk); err != nil {
				return nil, err
			}
			return in, perdure.Sleep(ctx, soon)
		}, c, keep))
	}
	return all
}
