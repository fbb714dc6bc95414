package actor

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
)

// Alarm changes alert rules beside programs, until over is closed. Whatever the rules are, each run
// that fails alerts. The tests of rules that it makes must all be sent.
func (d *Actor) Alarm(ctx context.Context, over <-chan struct{}) error {
	x := &dealing{
		Actor: d, Case: &Case{ID: "alerts"}, rng: rand.New(rand.NewPCG(d.Seed, 19)),
	}
	var tests []string
	for open := true; open; {
		if err := x.rest(ctx); err != nil {
			return err
		}
		sent, err := x.alarm(ctx)
		tests = append(tests, sent...)
		if err != nil {
			return err
		}
		select {
		case <-over:
			open = false
		default:
		}
	}
	for _, id := range tests {
		if err := x.insist(ctx, "alert-tested", func(c *perdure.Client) error {
			return sent(ctx, c, id)
		}); err != nil {
			return err
		}
	}
	return nil
}

// alarm makes one call now and then. It returns the run IDs of tests that are to be sent.
func (x *dealing) alarm(ctx context.Context) (tests []string, err error) {
	by := admin.Note{By: operator, Reason: Reason}
	switch x.rng.IntN(30) {
	case 0, 1, 2:
		return nil, x.insist(ctx, "alert-set", func(c *perdure.Client) error {
			return alert.Set(ctx, c, play.Fails, play.OwnRule(), by)
		})
	case 3, 4:
		return nil, x.insist(ctx, "alert-reset", func(c *perdure.Client) error {
			return alert.Reset(ctx, c, play.Fails, by)
		})
	case 5:
		return nil, x.insist(ctx, "alert-list", func(c *perdure.Client) error {
			all, err := alert.List(ctx, c)
			if err == nil && len(all) == 0 {
				return wrong("there is a rule, and none is listed")
			}
			return err
		})
	case 6:
		err = x.insist(ctx, "alert-test", func(c *perdure.Client) error {
			all, err := alert.Test(ctx, c, "brief") // by the default
			for _, t := range all {
				tests = append(tests, t.RunID)
			}
			return err
		})
	}
	return tests, err
}

// sent returns an error if the run that sends a test has not ended, or not well.
func sent(ctx context.Context, c *perdure.Client, id string) error {
	all, err := c.Statuses(ctx, id)
	switch {
	case err != nil:
		return err
	case !all[0].Found:
		return wrong("the test of an alert is not there")
	case !all[0].Head.Status.IsTerminal():
		return errors.New("the test of an alert is not sent yet")
	case all[0].Head.Status != journal.Completed:
		return wrong("the test of an alert was not sent")
	}
	return nil
}
