package actor

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/limit"
)

// Throttle changes limits and pauses workflows beside programs, until over is closed. No limit
// becomes wider than in the code. In the end everything is as in the code.
func (d *Actor) Throttle(ctx context.Context, over <-chan struct{}) error {
	x := &dealing{
		Actor: d, Case: &Case{ID: "limits"}, rng: rand.New(rand.NewPCG(d.Seed, 11)),
	}
	one := 1
	tight := map[string]limit.Bounds{
		play.Narrows.Name: {
			Concurrency: &one, Rate: &limit.Rate{Tokens: 50, Per: time.Second, Burst: 1},
		},
		play.Declared.Name: {Concurrency: &one},
		play.Region.Name:   {Slots: &one},
		"brief":            {Concurrency: &one}, // its code knows no limit
	}
	for {
		for name, bounds := range tight {
			if x.rng.IntN(2) == 0 {
				continue
			}
			if err := x.throttle(ctx, name, bounds); err != nil {
				return err
			}
			select {
			case <-over:
				return nil
			default:
			}
		}
	}
}

// throttle sets a limit or pauses its workflow, and undoes that after a while.
func (x *dealing) throttle(ctx context.Context, name string, bounds limit.Bounds) error {
	by := admin.Note{By: operator, Reason: Reason}
	do := func(what string, call func(*admin.Client) error) error {
		return x.insist(ctx, what, func(c *perdure.Client) error { return call(admin.New(c)) })
	}
	set := func(a *admin.Client) error { return a.SetLimit(ctx, name, bounds, by) }
	reset := func(a *admin.Client) error { return a.ResetLimit(ctx, name, by) }
	if x.rng.IntN(3) == 0 {
		workflow := []string{"narrow", "brief", "program", admin.AllWorkflows}[x.rng.IntN(4)]
		set = func(a *admin.Client) error { return a.PauseWorkflow(ctx, workflow, by) }
		reset = func(a *admin.Client) error { return a.ResumeWorkflow(ctx, workflow, by) }
	}
	if err := do("throttle", set); err != nil {
		return err
	}
	for range 1 + x.rng.IntN(6) {
		if err := x.rest(ctx); err != nil {
			return err
		}
	}
	if err := do("look", func(a *admin.Client) error {
		all, err := a.Limits(ctx)
		if err != nil {
			return err
		}
		for _, l := range all {
			for _, use := range l.Uses {
				if _, err := a.LimitRuns(ctx, l.Name, use.Of, 10); err != nil {
					return err
				}
			}
		}
		_, err = a.Pauses(ctx)
		return err
	}); err != nil {
		return err
	}
	if err := do("throttle", reset); err != nil {
		return err
	}
	return x.rest(ctx)
}
