package judge

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store"
)

// ReadTicks reads the runs that some schedules have started.
func ReadTicks(ctx context.Context, s store.Store, all []*actor.Timed) (out []*Run, err error) {
	for _, t := range all {
		runs, err := readAll(ctx, s, store.Filter{
			Workflow: play.Ticks, Attributes: map[string]string{actor.ScheduleAttribute: t.Name},
			Limit: store.MaxLimit,
		})
		if err != nil {
			return nil, err
		}
		out = append(out, runs...)
	}
	return out, nil
}

// schedules judges what schedules have started: each nominal time at most one run, and none is
// lost.
func (b *bench) schedules() {
	for _, t := range b.Schedules {
		if t.After.Name == "" {
			continue // the actor has failed
		}
		n := int64(0)
		var times []time.Time // nominal, of the timetable
		for id, runs := range b.byID {
			nominal, ok := strings.CutPrefix(id, t.Name+"@")
			if !ok {
				continue
			}
			n++
			if len(runs) > 1 {
				b.wrong("schedule %s has started %d runs of %s", t.Name, len(runs), nominal)
			}
			if s := runs[0].Head.Status; s != journal.Completed {
				b.wrong("run %s of a schedule is %v", id, s)
			} else if len(b.calls[play.TickLabel(t.Name, id)]) == 0 {
				b.wrong("run %s of a schedule has done nothing", id)
			}
			if at, err := time.Parse(time.RFC3339Nano, nominal); err == nil {
				times = append(times, at)
			}
		}
		if n != t.After.Started {
			b.wrong("schedule %s says that it has started %d runs, and there are %d", t.Name,
				t.After.Started, n)
		}
		for _, id := range t.Asked {
			if len(b.byID[id]) == 0 {
				b.wrong("schedule %s was asked for %s, which is not there", t.Name, id)
			}
		}
		if t.Calm {
			slices.SortFunc(times, time.Time.Compare)
			b.timetable(t, times)
		}
	}
}

// timetable judges the nominal times that have started a run of a schedule which nobody changes.
func (b *bench) timetable(t *actor.Timed, times []time.Time) {
	first, next := t.Before.Created, t.Before.Next.At
	if len(times) > 0 && times[0].Before(next) {
		first = times[0]
	}
	started := int64(0)
	for _, at := range times {
		if at.Sub(first)%t.Every != 0 {
			b.wrong("schedule %s has started a run of %v, which is no time of it", t.Name, at)
		}
		if at.Before(next) {
			started++
		}
	}
	due := int64((next.Sub(first) + t.Every/2) / t.Every)
	if len(times) == 0 {
		due-- // the first time is one period after the creation
	}
	if started+t.Before.Missed != due || t.Overlap == schedule.Allow && t.Before.Missed != 0 {
		b.wrong("schedule %s has started runs of %d times, and missed %d: due were %d from %v "+
			"until %v", t.Name, started, t.Before.Missed, due, first, next)
	}
	if first.Sub(t.Before.Created) > t.Every && t.Before.Missed == 0 {
		b.wrong("schedule %s was made at %v, and its first time is %v", t.Name, t.Before.Created,
			first)
	}
}
