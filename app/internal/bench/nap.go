package bench

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
)

// A nap is the input of a run that sleeps.
type nap struct {
	Until   time.Time `json:"until"`
	Payload string    `json:"payload"`
}

// naps are runs that sleep once.
type naps struct {
	payload string
	w       *perdure.Workflow[nap, string]
	ended   *count

	mu   sync.Mutex
	late []time.Duration // delay of each run that has woken, in the order of waking
}

// newNaps returns runs of which this number will end.
func newNaps(o Options, ending int) *naps {
	n := &naps{payload: strings.Repeat("x", o.Payload), ended: newCount(ending)}
	n.w = perdure.Define("bench-nap", n.sleep)
	return n
}

// sleep is the workflow code of a nap. It records the time at which it goes on.
func (n *naps) sleep(ctx context.Context, in nap) (string, error) {
	if err := perdure.SleepUntil(ctx, in.Until); err != nil {
		return "", err
	}
	now, err := perdure.Now(ctx)
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	n.late = append(n.late, now.Sub(in.Until))
	n.mu.Unlock()
	return in.Payload, nil
}

// start starts runs. The function until returns the time at which each run wakes.
func (n *naps) start(ctx context.Context, e *engine, runs, inFlight int,
	until func(i int) time.Time) error {
	_, err := each(ctx, e, runs, inFlight, func(ctx context.Context, i int) error {
		_, err := n.w.Start(ctx, e.Engine, nap{Until: until(i), Payload: n.payload})
		return err
	})
	return err
}

// engine runs an engine for the naps, and counts their ends when these are durable.
func (n *naps) engine(ctx context.Context, s *counting) (*engine, error) {
	return startEngine(ctx, s, n.w, observe.Observer{
		Kinds: []observe.Kind{observe.RunEnded},
		See:   n.ended.see,
	})
}

// A count waits for a number of notices.
type count struct {
	left atomic.Int64
	at   time.Time // of the last notice; set before all is closed
	all  chan struct{}
}

func newCount(n int) *count {
	c := &count{all: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *count) see(observe.Notice) {
	if c.left.Add(-1) == 0 {
		c.at = time.Now()
		close(c.all)
	}
}

// await waits for all notices.
func (c *count) await(ctx context.Context, e *engine) error {
	select {
	case <-c.all:
		return nil
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// asleep waits until no run is loaded, and returns the time.
func asleep(ctx context.Context, s *counting, e *engine) (time.Time, error) {
	for {
		h, err := s.owned(ctx)
		if err != nil {
			return time.Time{}, unavailable("look for runs in memory", err)
		}
		if h == nil {
			return time.Now(), nil
		}
		if err := pause(ctx, e, 20*time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
}

// pause waits for this time.
func pause(ctx context.Context, e *engine, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A footprint is the memory and the goroutines of the process at rest.
type footprint struct {
	residentMB float64
	goroutines int
}

// settle is the time for ended goroutines and connections to go away.
const settle = 200 * time.Millisecond

// measureFootprint waits for settle, returns unused memory to the system, and measures.
func measureFootprint(ctx context.Context, e *engine) (footprint, error) {
	if err := pause(ctx, e, settle); err != nil {
		return footprint{}, err
	}
	debug.FreeOSMemory()
	debug.FreeOSMemory() // frees objects that pools have kept over the first
	return footprint{residentMB(), runtime.NumGoroutine()}, nil
}

// errSlow is the error of a machine that was too slow to put all runs to sleep before the
// first one was due.
var errSlow = errors.New("runs were due before all of them slept: take fewer with --runs")
