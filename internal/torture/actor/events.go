package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/orchestrator"
)

// mostTallies is the number of instances that one call of Tell begins.
const mostTallies = 40

// Tell sends events to instances of an orchestrator and to a gateway, many of them twice, until
// over is closed. When the instances have ended, it judges what they have kept and emitted. It
// returns the workflow IDs, which the prefix makes unique.
func (d *Actor) Tell(ctx context.Context, prefix string, over <-chan struct{}) (ids []string,
	err error) {
	x := &dealing{
		Actor: d, Case: &Case{ID: prefix}, rng: rand.New(rand.NewPCG(d.Seed, 29)),
	}
	for open := true; open && len(ids) < mostTallies; {
		subject := fmt.Sprintf("%s/%d", prefix, len(ids))
		n := 1 + x.rng.IntN(20)
		if x.rng.IntN(10) == 0 {
			n = 230 // more than one journal has
		}
		ids = append(ids, "tally:"+url.PathEscape(subject), subject)
		if err := x.tally(ctx, subject, n); err != nil {
			return ids, err
		}
		if err := x.hears(ctx, subject); err != nil {
			return ids, err
		}
		select {
		case <-over:
			open = false
		default:
		}
	}
	return ids, nil
}

// tally sends n events to an instance, in any order between the first and the last one.
func (x *dealing) tally(ctx context.Context, subject string, n int) error {
	send := func(kind string, i int) error {
		e := event.Event{
			ID: fmt.Sprint(i), Source: "/torture", Type: kind, Subject: subject,
			Data: fmt.Append(nil, i),
		}
		for range 1 + x.rng.IntN(2) {
			if err := x.insist(ctx, "event", func(c *perdure.Client) error {
				out, err := play.Tally.On(ctx, c, e)
				if err == nil && out == orchestrator.EventIgnored && kind != "tally.end" {
					err = wrong(fmt.Sprintf("event %d of %s is ignored", i, subject))
				}
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := send("tally.begin", 0); err != nil {
		return err
	}
	for _, i := range x.rng.Perm(n) {
		if err := send("tally.add", 1+i); err != nil {
			return err
		}
	}
	if err := send("tally.end", n+1); err != nil {
		return err
	}
	return x.insist(ctx, "tally", func(c *perdure.Client) error {
		return judgeTally(ctx, c, "tally:"+url.PathEscape(subject), n+2)
	})
}

// judgeTally judges an instance: it has kept n numbers, and emitted each of them, once.
func judgeTally(ctx context.Context, c *perdure.Client, id string, n int) error {
	run, err := play.Tally.Get(ctx, c, id)
	if err != nil {
		return err
	}
	data, err := run.Result(ctx)
	if err != nil {
		return err
	}
	var kept []int
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	emitted, err := emittedBy(ctx, c, id)
	if err != nil {
		return err
	}
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(emitted, kept) {
		return wrong(fmt.Sprintf("%s has kept %v and emitted %v", id, kept, emitted))
	}
	if slices.Sort(kept); !slices.Equal(kept, want) {
		return wrong(fmt.Sprintf("%s has kept %v of %d numbers", id, kept, n))
	}
	return nil
}

// emittedBy returns the numbers of the events that an instance has emitted, in their order.
func emittedBy(ctx context.Context, c *perdure.Client, id string) (all []int, err error) {
	heads, _, err := c.List(ctx, perdure.Query{WorkflowID: id})
	if err != nil {
		return nil, err
	}
	for _, h := range slices.Backward(heads) { // the newest is the first
		entries, err := c.History(ctx, string(h.ID), 1, 10_000)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if entry.Detail == nil || entry.Detail.Event == "" {
				continue
			}
			var e event.Event
			var n int
			if err := errors.Join(json.Unmarshal(entry.Data, &e), json.Unmarshal(e.Data,
				&n)); err != nil {
				return nil, err
			}
			all = append(all, n)
		}
	}
	return all, nil
}

// hears starts a run by an event, and sends others to it until one has woken it.
func (x *dealing) hears(ctx context.Context, id string) error {
	g, err := play.Inbound()
	if err != nil {
		return err
	}
	told := func(kind string, value int) error {
		data, err := json.Marshal(play.Heard{ID: id, Value: value})
		if err != nil {
			return err
		}
		return x.insist(ctx, "event to a run", func(c *perdure.Client) error {
			return g.On(ctx, c, event.Event{
				ID: fmt.Sprint(id, " ", value), Source: "/torture", Type: kind, Data: data,
			})
		})
	}
	for range 2 {
		if err := told("torture.asked", 0); err != nil {
			return err
		}
	}
	for value := 1; ; value++ {
		if err := told("torture.told", value); err != nil {
			return err
		}
		if err := x.rest(ctx); err != nil {
			return err
		}
		var out string
		if err := x.insist(ctx, "heard", func(c *perdure.Client) error {
			all, err := c.Statuses(ctx, id)
			if err != nil || !all[0].Head.Status.IsTerminal() {
				return err
			}
			run, err := c.Get(ctx, id)
			if err != nil {
				return err
			}
			data, err := run.Result(ctx)
			out = string(data)
			return err
		}); err != nil {
			return err
		}
		var got int
		switch {
		case out == "":
			continue
		case json.Unmarshal([]byte(out), &got) != nil || got < 1 || got > value:
			return fmt.Errorf("%s has heard %s of %d", id, out, value)
		}
		return nil
	}
}
