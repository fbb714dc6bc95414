//go:build unix

package main

import (
	"context"
	"slices"

	"github.com/perdure/perdure/internal/torture/program"
)

// shrink removes operations from a program, and acts of operators, as long as it still fails in
// three of five runs, until nothing more can be removed or ctx ends. An interrupted run is not a
// failure.
func shrink(ctx context.Context, p *program.Program,
	fails func(*program.Program) bool) *program.Program {
	still := func(p *program.Program) bool {
		failed := 0
		for runs := 1; runs <= 5; runs++ {
			wrong := fails(p)
			if ctx.Err() != nil {
				return false
			}
			if wrong {
				failed++
			}
			if failed == 3 || runs-failed == 3 {
				break
			}
		}
		return failed == 3
	}
	for smaller := true; smaller; {
		smaller = false
		for _, candidate := range candidates(p) {
			if still(candidate) {
				p, smaller = candidate, true
				break
			}
		}
	}
	return p
}

// candidates returns the programs with a bit less, the largest bits first.
func candidates(p *program.Program) (out []*program.Program) {
	var ids []int
	size := map[int]int{}
	p.Body.All(func(o *program.Op) {
		ids = append(ids, o.ID)
		n := 0
		program.Block{o}.All(func(*program.Op) { n++ })
		size[o.ID] = n
	})
	for i := 0; len(p.Body) > 3 && i < 2; i++ { // a half
		var half []int
		for k, o := range p.Body {
			if (k < len(p.Body)/2) == (i == 0) {
				half = append(half, o.ID)
			}
		}
		out = append(out, p.Without(half...))
	}
	slices.SortStableFunc(ids, func(a, b int) int { return size[b] - size[a] })
	for _, id := range ids {
		out = append(out, p.Without(id))
	}
	if len(p.Acts) > 0 {
		less := *p
		less.Acts = nil
		out = append(out, &less)
	}
	if len(p.Then) > 0 {
		less := *p
		less.Then = less.Then[:len(less.Then)-1]
		out = append(out, &less)
	}
	if p.Rounds > 0 {
		less := *p
		less.Rounds = 0
		out = append(out, &less)
	}
	if p.Clean != "" {
		less := *p
		less.Clean = ""
		out = append(out, &less)
	}
	return out
}
