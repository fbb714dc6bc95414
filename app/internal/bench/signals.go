package bench

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
)

// signalled are runs that wait for one signal each.
type signalled struct {
	payload      string
	signal       perdure.Signal[string]
	w            *perdure.Workflow[string, string]
	taken, ended *count
}

func newSignalled(o Options) *signalled {
	g := &signalled{
		payload: strings.Repeat("x", o.Payload), signal: perdure.NewSignal[string]("go"),
		taken: newCount(o.Runs), ended: newCount(o.Runs),
	}
	g.w = perdure.Define("bench-signalled", func(ctx context.Context, _ string) (string, error) {
		return g.signal.Wait(ctx)
	})
	return g
}

// id returns the workflow ID of a run.
func (g *signalled) id(n int) string { return "bench-" + strconv.Itoa(n) }

// measureSignals starts runs that wait for a signal. When none of them is loaded, it sends
// the signals, and measures how fast the runs take them.
func (r *Report) measureSignals(ctx context.Context, d *database, o Options) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	g := newSignalled(o)
	e, err := startEngine(ctx, s, g.w,
		observe.Observer{Kinds: []observe.Kind{observe.SignalDelivered}, See: g.taken.see},
		observe.Observer{Kinds: []observe.Kind{observe.RunEnded}, See: g.ended.see})
	if err != nil {
		return err
	}
	err = r.sendAll(ctx, s, e, g, o)
	r.RSS, r.Commits = thousandths(residentMB()), s.commits.Load()
	if stopped := e.stop(); err == nil {
		err = stopped
	}
	return err
}

func (r *Report) sendAll(ctx context.Context, s *counting, e *engine, g *signalled,
	o Options) error {
	_, err := each(ctx, e, o.Runs, o.InFlight, func(ctx context.Context, n int) error {
		_, err := g.w.Start(ctx, e.Engine, g.payload, perdure.ID(g.id(n)))
		return err
	})
	if err != nil {
		return err
	}
	if _, err := asleep(ctx, s, e); err != nil {
		return err
	}
	began, cpu := time.Now(), processTime()
	took, err := each(ctx, e, o.Runs, o.InFlight, func(ctx context.Context, n int) error {
		_, err := g.signal.Send(ctx, e, g.id(n), g.payload)
		return err
	})
	if err != nil {
		return err
	}
	if err := g.taken.await(ctx, e); err != nil {
		return err
	}
	if err := g.ended.await(ctx, e); err != nil {
		return err
	}
	r.set(took, g.ended.at.Sub(began), processTime()-cpu, o.Runs)
	r.Sending = &Sending{
		SignalsPerS: thousandths(float64(o.Runs) / g.taken.at.Sub(began).Seconds()), SendP99: r.P99,
	}
	return nil
}
