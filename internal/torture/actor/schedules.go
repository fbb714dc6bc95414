package actor

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
)

// A Timed is a schedule beside the programs, as the outside knows it.
type Timed struct {
	Name    string
	Every   time.Duration
	Overlap schedule.Overlap
	Calm    bool     // nobody changes or pauses it
	Asked   []string // the workflow IDs of runs that were asked for
	// Before is the schedule when nothing was due and nobody had deleted it, and After when it has
	// ended.
	Before, After schedule.Schedule
}

// Schedules returns the schedules beside programs.
func (d *Actor) Schedules(prefix string) []*Timed {
	every := max(10*d.Pace, time.Second) // no schedule is faster
	return []*Timed{
		{Name: prefix + "-beside", Every: every, Overlap: schedule.Allow, Calm: true},
		{Name: prefix + "-skips", Every: every, Overlap: schedule.Skip, Calm: true},
		{Name: prefix + "-changed", Every: every, Overlap: schedule.Skip},
	}
}

// Keep makes a schedule, and makes calls for it until over is closed. Then it waits until nothing
// is due, and deletes the schedule. It returns when all of its runs have ended.
func (d *Actor) Keep(ctx context.Context, t *Timed, over <-chan struct{}) error {
	x := &dealing{
		Actor: d, Case: &Case{ID: t.Name}, rng: rand.New(rand.NewPCG(d.Seed, uint64(len(t.Name)))),
	}
	k := keeper{x, t, schedule.Note{By: operator, Why: Reason}}
	if err := k.set(ctx, t.Every); err != nil {
		return err
	}
	for open := true; open; {
		if err := x.rest(ctx); err != nil {
			return err
		}
		if err := k.meddle(ctx); err != nil {
			return err
		}
		select {
		case <-over:
			open = false
		default:
		}
	}
	if err := k.resume(ctx); err != nil {
		return err
	}
	if err := k.until(ctx, k.isIdle); err != nil {
		return err
	}
	if err := k.do(ctx, "schedule-delete", func(c *perdure.Client) error {
		return schedule.Delete(ctx, c, t.Name, k.by)
	}); err != nil {
		return err
	}
	if err := k.until(ctx, k.hasEnded); err != nil {
		return err
	}
	return k.do(ctx, "schedule-get", func(c *perdure.Client) (err error) {
		t.After, err = schedule.Get(ctx, c, t.Name)
		return err
	})
}

// ScheduleAttribute is the attribute with the name of a schedule, of its run and those that it
// starts.
const ScheduleAttribute = "perdure.schedule"

// A keeper makes the calls for one schedule.
type keeper struct {
	*dealing
	*Timed
	by schedule.Note
}

// do repeats a call as long as its outcome is unknown. A schedule that is not in the state for it,
// because the call was made before, is no error.
func (k keeper) do(ctx context.Context, what string, call func(*perdure.Client) error) error {
	err := k.insist(ctx, what, call)
	if is(err, journal.CodeWrongState) {
		return nil
	}
	return err
}

func (k keeper) set(ctx context.Context, every time.Duration) error {
	return k.do(ctx, "schedule-set", func(c *perdure.Client) error {
		return schedule.Set(ctx, c, k.Name, play.TickSpec(k.Name, every, k.Overlap), k.by)
	})
}

func (k keeper) resume(ctx context.Context) error {
	return k.do(ctx, "schedule-resume", func(c *perdure.Client) error {
		return schedule.Resume(ctx, c, k.Name, k.by)
	})
}

// meddle makes one call now and then.
func (k keeper) meddle(ctx context.Context) error {
	n := k.rng.IntN(40)
	if k.Calm && n > 3 {
		return nil
	}
	switch n {
	case 0, 1:
		return k.do(ctx, "schedule-run", func(c *perdure.Client) error {
			id, err := schedule.RunNow(ctx, c, k.Name, k.by)
			if err == nil && !slices.Contains(k.Asked, id) {
				k.Asked = append(k.Asked, id)
			}
			return err
		})
	case 2, 3:
		return k.do(ctx, "schedule-look", func(c *perdure.Client) error { return k.look(ctx, c) })
	case 4, 5:
		return k.do(ctx, "schedule-pause", func(c *perdure.Client) error {
			return schedule.Pause(ctx, c, k.Name, k.by)
		})
	case 6, 7, 8:
		return k.resume(ctx)
	case 9, 10:
		return k.set(ctx, k.Every*time.Duration(1+k.rng.IntN(3)))
	case 11:
		return k.do(ctx, "schedule-backfill", func(c *perdure.Client) error {
			now := time.Now()
			_, err := schedule.Backfill(ctx, c, k.Name, now.Add(-5*k.Every), now, k.by)
			if is(err, journal.CodeInvalid) || is(err, journal.CodeConflict) {
				return nil // there is nothing to fill, or another one goes on
			}
			return err
		})
	}
	return nil
}

// look reads everything of the schedule that can be read.
func (k keeper) look(ctx context.Context, c *perdure.Client) error {
	s, e1 := schedule.Get(ctx, c, k.Name)
	_, e2 := s.Coming(3)
	_, _, e3 := schedule.List(ctx, c, schedule.Query{Workflow: play.Ticks})
	n, e4 := schedule.Count(ctx, c)
	_, e5 := schedule.Preview(s.Spec, time.Now(), 3)
	_, e6 := schedule.PreviewBackfill(ctx, c, k.Name, time.Now().Add(-k.Every), time.Now())
	if e1 == nil && e4 == nil && n == 0 {
		e4 = wrong("there is a schedule, and none is counted")
	}
	return errors.Join(e1, e2, e3, e4, e5, e6, s.Spec.Check())
}

// until looks at the schedule until something holds.
func (k keeper) until(ctx context.Context, holds func(context.Context, *perdure.Client) (bool,
	error)) error {
	for ok := false; !ok; {
		if err := k.do(ctx, "schedule-get", func(c *perdure.Client) (err error) {
			ok, err = holds(ctx, c)
			return err
		}); err != nil {
			return err
		}
		if err := k.rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// isIdle reports whether the schedule has started what is due and what was asked for.
func (k keeper) isIdle(ctx context.Context, c *perdure.Client) (bool, error) {
	s, err := schedule.Get(ctx, c, k.Name)
	if err != nil {
		return false, err
	}
	idle := s.Next != nil && s.Next.At.After(time.Now()) && len(s.Backfills) == 0
	if len(k.Asked) > 0 {
		all, err := c.Statuses(ctx, k.Asked...)
		if err != nil {
			return false, err
		}
		idle = idle && !slices.ContainsFunc(all, func(r perdure.Status) bool { return !r.Found })
	}
	k.Before = s
	return idle, nil
}

// hasEnded reports whether the schedule and its runs have ended. A list does not have the run of
// the schedule itself, which may start another one until it has taken in that it is deleted.
func (k keeper) hasEnded(ctx context.Context, c *perdure.Client) (bool, error) {
	own, err := c.Statuses(ctx, "perdure.schedule:"+k.Name)
	if err != nil || !own[0].IsTerminal() {
		return false, err
	}
	q := perdure.Query{Attributes: map[string]string{ScheduleAttribute: k.Name}, Open: true}
	for {
		open, next, err := c.List(ctx, q)
		if err != nil || len(open) > 0 || next.IsZero() {
			return err == nil && len(open) == 0, err
		}
		q.After = next
	}
}
