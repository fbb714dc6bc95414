package bench

import (
	"context"
	"slices"
	"time"
)

// duePerS is the number of timers that are due per second.
const duePerS = 1000

// measureTimers starts many runs with a timer. The timers are due one after the other, when
// no run is loaded. It measures the delay until the code of each run goes on.
func (r *Report) measureTimers(ctx context.Context, d *database, o Options) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	n := newNaps(o, o.Runs)
	e, err := n.engine(ctx, s)
	if err != nil {
		return err
	}
	err = r.timersDue(ctx, s, e, n, o)
	r.RSS, r.Commits = thousandths(residentMB()), s.commits.Load()
	if stopped := e.stop(); err == nil {
		err = stopped
	}
	return err
}

func (r *Report) timersDue(ctx context.Context, s *counting, e *engine, n *naps, o Options) error {
	first := time.Now().Add(spare + time.Duration(o.Runs)*time.Second/duePerS).Round(0)
	due := func(i int) time.Time { return first.Add(time.Duration(i) * time.Second / duePerS) }
	if err := n.start(ctx, e, o.Runs, o.InFlight, due); err != nil {
		return err
	}
	if _, err := asleep(ctx, s, e); err != nil {
		return err
	}
	if !time.Now().Before(first) {
		return errSlow
	}
	if err := pause(ctx, e, time.Until(first)); err != nil {
		return err
	}
	cpu := processTime()
	if err := n.ended.await(ctx, e); err != nil {
		return err
	}
	used := processTime() - cpu
	slices.Sort(n.late)
	r.set(n.late, n.ended.at.Sub(first), used, o.Runs)
	early, _ := slices.BinarySearch(n.late, 0)
	r.Timing = &Timing{
		DuePerS: duePerS, LateP99: r.P99, LateMost: ms(n.late[len(n.late)-1]), Early: early,
	}
	return nil
}
