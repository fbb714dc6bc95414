package schedule

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sealed"
)

// A Planned is a nominal time of a past period.
type Planned struct {
	Time
	ID string `json:"id"` // the workflow ID of its run
	// Started is set if the time has started its run, or counts as if it had: a backfill leaves it
	// out.
	Started bool `json:"started"`
}

// maxBackfill limits the nominal times of one backfill.
const maxBackfill = 10_000

// PreviewBackfill returns the nominal times of a schedule from a time to another, both included,
// and which of them a [Backfill] would start. There are at most 10,000. Times that have not come
// yet are left out.
func PreviewBackfill(ctx context.Context, c perdure.Caller, name string, from,
	to time.Time) ([]Planned, error) {
	op := "preview backfill of " + name
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, err
	}
	if err := checkName(op, name); err != nil {
		return nil, err
	}
	s, err := get(ctx, client, op, name)
	if err != nil {
		return nil, err
	}
	return planned(ctx, client, op, s, from, to)
}

// Backfill starts the runs of the nominal times from a time to another, both included, that have
// not started theirs: one after the other, or with Allow all at once. It returns the number of them
// when the request is durable. A time in a period in which the schedule has started its runs counts
// as started, even if its spec was another one then. While a schedule is paused, its backfills
// wait.
func Backfill(ctx context.Context, c perdure.Caller, name string, from, to time.Time,
	by Note) (int, error) {
	op, n := "backfill schedule "+name, 0
	client, err := opened(ctx, op, name, c)
	if err != nil {
		return 0, err
	}
	_, err = alter(ctx, c, op, name, change{
		Backfill: &Filling{From: from.Round(0).UTC(), To: to.Round(0).UTC()}, Note: by,
	}, func(s Schedule) error {
		if len(s.Backfills) >= maxFills {
			return invalid(op, "wait for one of them to end", "%d backfills wait already", maxFills)
		}
		all, err := planned(ctx, client, op, s, from, to)
		for _, p := range all {
			if !p.Started {
				n++
			}
		}
		return err
	})
	return n, err
}

// planned returns the nominal times of a past period.
func planned(ctx context.Context, c *sealed.Client, op string, s Schedule, from,
	to time.Time) (out []Planned, err error) {
	switch {
	case s.Spec.After > 0:
		return nil, invalid(op, "perdure schedules run starts a run now",
			"a schedule with a fixed delay has no past times")
	case from.IsZero() || to.IsZero() || to.Before(from):
		return nil, invalid(op, "", "the period from %s to %s is not valid: the end is not before "+
			"the beginning", from.Format(time.RFC3339),
			to.Format(time.RFC3339))
	}
	t, err := s.state.timetable()
	if err != nil {
		return nil, invalid(op, "set the schedule again", "%v", err)
	}
	t, until := t.since(from), s.state.Floor
	if s.Paused != nil {
		until = c.FrontEnd.Now() // it waits until the schedule goes on, and the times are past then
	}
	until = earliest(to, until)
	for at := from.Add(-time.Nanosecond); ; {
		next, found := t.next(at)
		if !found || next.At.After(until) {
			break
		}
		if at = next.At; len(out) == maxBackfill {
			return nil, invalid(op, "take shorter periods, one after the other",
				"the period has more than %d times", maxBackfill)
		}
		out = append(out, Planned{
			Time: next, ID: runID(s.Name, start{At: at}), Started: s.state.isCovered(at),
		})
	}
	return out, markExisting(ctx, c, out)
}

// markExisting marks the times whose runs are in the store.
func markExisting(ctx context.Context, c *sealed.Client, all []Planned) error {
	const page = 1000
	for from := 0; from < len(all); from += page {
		some := all[from:min(from+page, len(all))]
		ids := make([]string, len(some))
		for i, p := range some {
			ids[i] = p.ID
		}
		heads, err := c.FrontEnd.Stand(ctx, ids)
		if err != nil {
			return err
		}
		for i, h := range heads {
			some[i].Started = some[i].Started || h.Number != 0
		}
	}
	return nil
}
