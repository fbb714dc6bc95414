//go:build unix

package main

import (
	"context"
	"testing"

	"github.com/perdure/perdure/internal/torture/program"
)

// A program that fails because of one operation is shrunk to that one, with the operations around
// it, though it fails in three of five runs only.
func TestShrinkLeavesWhatFails(t *testing.T) {
	for seed := range uint64(200) {
		p := program.Generate(seed, program.Limits{Workflow: "code", Tx: true})
		if !p.Has(program.Gather, "") || !p.Has(program.Branches, "") {
			continue
		}
		runs := 0
		small := shrink(t.Context(), p, func(p *program.Program) bool {
			runs++
			return p.Has(program.Gather, "") && runs%5 < 4
		})
		wide := 0
		small.Body.All(func(o *program.Op) {
			if len(o.Bodies) == 0 {
				wide++
			}
		})
		if !small.Has(program.Gather, "") || wide != 1 || small.Acts != nil || small.Clean != "" ||
			small.Rounds != 0 {
			t.Errorf("seed %d: left are %d operations of %+v", seed, wide, small)
		}
	}
}

// A run that is interrupted may look like a failure, because its programs have not ended. It is not
// one.
func TestShrinkTakesNoInterruptedRunForAFailure(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	p := program.Generate(1, program.Limits{Workflow: "code", Tx: true})
	runs := 0
	small := shrink(ctx, p, func(*program.Program) bool {
		if runs++; runs == 3 {
			interrupt()
		}
		return true
	})
	if small != p {
		t.Errorf("after %d runs it is shrunk to %+v", runs, small)
	}
}
