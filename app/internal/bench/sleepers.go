package bench

import (
	"context"
	"slices"
	"time"
)

const (
	// aYear is longer than a benchmark takes.
	aYear = 365 * 24 * time.Hour

	// duePart is the number of sleepers for each sleeper that wakes.
	duePart = 10

	// warmUp is the number of runs that sleep before the first footprint is measured.
	warmUp = 256

	// spare is the extra time, beside the expected time, until all runs sleep. A run that
	// is due within a second is not unloaded.
	spare = 2 * time.Second
)

// measureSleepers starts runs that sleep, most of them for a year. It measures the engine
// while no run is due, and then how fast the due runs wake, all at one time.
func (r *Report) measureSleepers(ctx context.Context, d *database, o Options) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r.Sleeping = &Sleeping{Due: max(1, o.Runs/duePart)}
	n := newNaps(o, r.Due)
	e, err := n.engine(ctx, s)
	if err != nil {
		return err
	}
	err = r.sleepAndWake(ctx, s, e, n, o)
	r.RSS, r.Commits = thousandths(residentMB()), s.commits.Load()
	if stopped := e.stop(); err == nil {
		err = stopped
	}
	return err
}

func (r *Report) sleepAndWake(ctx context.Context, s *counting, e *engine, n *naps,
	o Options) error {
	before, err := warm(ctx, s, e, n, o)
	if err != nil {
		return err
	}
	began := time.Now()
	long := began.Add(aYear)
	if err := n.start(ctx, e, o.Runs-r.Due, o.InFlight, func(int) time.Time {
		return long
	}); err != nil {
		return err
	}
	now := time.Now()
	due := now.Add(now.Sub(began)*2/(duePart-1) + spare + 2*o.Idle).Round(0)
	if err := n.start(ctx, e, r.Due, o.InFlight, func(int) time.Time { return due }); err != nil {
		return err
	}
	all, err := asleep(ctx, s, e)
	if err != nil {
		return err
	}
	r.AsleepPerS = thousandths(float64(o.Runs) / all.Sub(began).Seconds())
	after, err := measureFootprint(ctx, e)
	if err != nil {
		return err
	}
	r.RSSGrowth, r.Goroutines = thousandths(after.residentMB-before.residentMB),
		after.goroutines-before.goroutines
	began, calls := time.Now(), s.calls.Load()
	if err := pause(ctx, e, o.Idle); err != nil {
		return err
	}
	calls, watched := s.calls.Load()-calls, time.Since(began)
	r.IdleS, r.IdleQueries = thousandths(watched.Seconds()),
		thousandths(float64(calls)/watched.Minutes())
	if !time.Now().Before(due) {
		return errSlow
	}
	return r.wake(ctx, e, n, due)
}

// warm starts a few runs that sleep, and measures the footprint then. It has the memory
// that the first run of an engine takes.
func warm(ctx context.Context, s *counting, e *engine, n *naps, o Options) (footprint, error) {
	long := time.Now().Add(aYear)
	if err := n.start(ctx, e, warmUp, o.InFlight, func(int) time.Time { return long }); err != nil {
		return footprint{}, err
	}
	if _, err := asleep(ctx, s, e); err != nil {
		return footprint{}, err
	}
	return measureFootprint(ctx, e)
}

// wake measures how fast the due runs go on.
func (r *Report) wake(ctx context.Context, e *engine, n *naps, due time.Time) error {
	if err := pause(ctx, e, time.Until(due)); err != nil {
		return err
	}
	cpu := processTime()
	if err := n.ended.await(ctx, e); err != nil {
		return err
	}
	used := processTime() - cpu
	slices.Sort(n.late)
	last, ended := n.late[len(n.late)-1], n.ended.at.Sub(due)
	r.WakePerS = thousandths(float64(r.Due) / last.Seconds())
	r.EndsPerS = thousandths(float64(r.Due) / ended.Seconds())
	r.set(n.late, ended, used, r.Due)
	return nil
}
