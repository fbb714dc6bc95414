package kernel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A caller that waits for the end of a run is notified wherever the run is: in memory here,
// unloaded, or with another engine. The kernel reports the end of a run that ends here. If other
// engines have the store too, one goroutine asks for all runs whose end is waited for: when the
// store's watcher has noticed a write, and now and then.

// An awaitedEnd is shared by the callers that wait for the end of a run that is not in memory.
type awaitedEnd struct {
	run     journal.Number
	ended   chan struct{} // closed when the run has ended
	waiters int
}

// Wait waits for a run to end and returns its head and its outcome. If the run continues as new,
// these are of the last run of the chain. The end of ctx ends only the waiting. While the store
// does not answer, Wait goes on.
func (e *Engine) Wait(ctx context.Context, s Started) (journal.Head, Outcome, error) {
	if s.run != nil {
		if err := e.await(ctx, s.run.done, s.run.k, s.Head); err != nil {
			return journal.Head{}, Outcome{}, err
		}
		if head, out, ended := s.run.howEnded(); ended && head.Status != journal.ContinuedAsNew {
			return head, out, nil
		}
	}
	id := s.Head.ID
	ch := e.awaitEnd(s.Head.Number)
	defer func() {
		if ch != nil {
			e.awaited(ch)
		}
	}()
	for tries := 1; ; {
		head, out, err := e.stands(ctx, id)
		switch {
		case errors.Is(err, &journal.Error{Code: journal.CodeUnavailable}) && ctx.Err() == nil:
			again := make(chan struct{})
			time.AfterFunc(jitter(tries), func() { close(again) })
			err = e.await(ctx, again, nil, s.Head)
			tries++
		case err != nil:
		case head.Status == journal.ContinuedAsNew:
			id, tries = out.Detail.Other, 1
			if ch != nil {
				e.awaited(ch)
				ch = nil
			}
		case head.Status.IsTerminal():
			return head, out, nil
		case ch == nil: // of the next run of the chain: it may end before it is waited for
			ch = e.awaitEnd(head.Number)
		default:
			err = e.await(ctx, ch.ended, nil, s.Head)
			e.awaited(ch)
			ch = nil
		}
		if err != nil {
			return journal.Head{}, Outcome{}, err
		}
	}
}

// stands returns a run's head and, if it has ended, its outcome.
func (e *Engine) stands(ctx context.Context, id journal.RunID) (journal.Head, Outcome, error) {
	head, err := e.Find(ctx, string(id))
	if err != nil || !head.Status.IsTerminal() {
		return head, Outcome{}, err
	}
	out, err := e.outcome(ctx, head)
	return head, out, err
}

// await waits until ch is closed. It returns an error if ctx ends or the engine has stopped, and
// nil if the kernel of is over and another one goes on.
func (e *Engine) await(ctx context.Context, ch <-chan struct{}, of *Kernel, h journal.Head) error {
	for {
		select {
		case <-ch:
			return nil
		default:
		}
		k, changed := e.current()
		if of != nil && k != of {
			return nil
		}
		select {
		case <-ch:
			return nil
		case <-ctx.Done():
			return waited(ctx, h)
		case <-changed:
		case <-k.dead:
			if !k.lost() {
				return k.cause()
			}
			select {
			case <-ch:
				return nil
			case <-ctx.Done():
				return waited(ctx, h)
			case <-changed:
			}
		}
	}
}

func waited(ctx context.Context, h journal.Head) error {
	return &journal.Error{
		Code: journal.CodeTimedOut, Op: "wait for " + string(h.ID), Message: "the run goes on",
		Err: context.Cause(ctx),
	}
}

// howEnded returns how a run has ended while it was in memory, if it has.
func (r *run) howEnded() (journal.Head, Outcome, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head(), r.ending.outcome(), r.ended() != nil && r.refusedBy() == nil && r.allDurable()
}

func (s *shared) awaitEnd(n journal.Number) *awaitedEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.ends[n]
	if e == nil {
		e = &awaitedEnd{run: n, ended: make(chan struct{})}
		s.ends[n] = e
	}
	e.waiters++
	if len(s.ends) == 1 {
		s.recheck()
	}
	return e
}

// awaited records that one caller does not wait any more.
func (s *shared) awaited(e *awaitedEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.waiters--; e.waiters == 0 && s.ends[e.run] == e {
		delete(s.ends, e.run)
	}
}

// hasEnded wakes the callers that wait for the end of a run.
func (s *shared) hasEnded(n journal.Number) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ends[n]; e != nil {
		close(e.ended)
		delete(s.ends, n)
	}
}

// recheck makes the engine ask the store which of the awaited runs have ended.
func (s *shared) recheck() {
	select {
	case s.asking <- struct{}{}:
	default:
	}
}

// awaitedRuns returns the runs whose end is waited for.
func (s *shared) awaitedRuns() []journal.Number {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := make([]journal.Number, 0, len(s.ends))
	for n := range s.ends {
		runs = append(runs, n)
	}
	return runs
}

// firstRecheck is the time until the first request to the store without a reason. The time between
// the following requests grows, up to one sweep.
const firstRecheck = 100 * time.Millisecond

// maxRecheck is the longest time between two requests of a caller that waits for news.
const maxRecheck = time.Second

// watchEnds reports the ends of runs that other engines have ended, until ctx ends.
func (e *Engine) watchEnds(ctx context.Context) {
	wait := firstRecheck
	for {
		var due <-chan time.Time
		if len(e.awaitedRuns()) > 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-e.asking:
			wait = firstRecheck
		case <-due:
			wait = max(min(2*wait, e.cfg.Sweep), firstRecheck)
		}
		e.askEnds(ctx)
	}
}

// askEnds asks the store which of the awaited runs have ended. A request without an answer is
// repeated.
func (e *Engine) askEnds(ctx context.Context) {
	runs := slices.DeleteFunc(e.awaitedRuns(), func(n journal.Number) bool {
		return e.Live(n).Loaded
	})
	for page := range slices.Chunk(runs, store.MaxLimit) {
		f := store.Filter{Limit: len(page)}
		for _, n := range page {
			f.Runs = append(f.Runs, journal.MakeRunID(e.database(), n))
		}
		heads, _, err := e.store.Find(ctx, f)
		if err != nil {
			return
		}
		for _, h := range heads {
			if h.Status.IsTerminal() {
				e.hasEnded(h.Number)
			}
		}
	}
}

// ReplyName is the name of the value that a run records as its reply to a message. Its key is the
// sender's ID of the message.
const ReplyName = ownNames + "reply"

// An awaitedNews has the callers that wait for replies to messages, by the senders' IDs of the
// messages, or for chunks of streams, by journal.StreamID. A caller hears of a reply or chunk, and
// of the end of the run, that become durable in this process.
type awaitedNews struct {
	n   atomic.Int64 // how many there are
	mu  sync.Mutex   // taken after every other lock
	all map[string][]*awaitedOne
}

type awaitedOne struct {
	run   journal.Number
	heard chan struct{}
	once  sync.Once
}

func (a *awaitedOne) hear() { a.once.Do(func() { close(a.heard) }) }

func (a *awaitedNews) add(about string, run journal.Number) *awaitedOne {
	w := &awaitedOne{run: run, heard: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string][]*awaitedOne{}
	}
	a.all[about] = append(a.all[about], w)
	a.n.Add(1)
	return w
}

func (a *awaitedNews) remove(about string, w *awaitedOne) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := slices.DeleteFunc(a.all[about], func(x *awaitedOne) bool { return x == w })
	if a.all[about] = left; len(left) == 0 {
		delete(a.all, about)
	}
	a.n.Add(-1)
}

// tell lets the callers hear that wait for news about that in a run, or in any run if that is 0.
func (a *awaitedNews) tell(about string, run journal.Number) {
	for _, w := range a.all[about] {
		if run == 0 || w.run == run {
			w.hear()
		}
	}
}

// durable lets the callers hear of the entries.
func (a *awaitedNews) durable(entries []journal.Entry) {
	if a.n.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Kind == journal.ValueRecorded && e.Op.Name == ReplyName:
			a.tell(e.Op.Key, 0)
		case e.Kind == journal.StepOutput:
			a.tell(journal.StreamID+e.Detail.Stream, e.Run)
		case e.Kind.EndsRun():
			for _, waiting := range a.all {
				for _, w := range waiting {
					if w.run == e.Run {
						w.hear()
					}
				}
			}
		}
	}
}

// AwaitNews calls look until that returns true or an error: at once, when a reply to the message
// with that ID, or a chunk of a stream (journal.StreamID), becomes durable in this process or the
// run h ends here, and now and then, since another engine may have the run. look returns the run
// that it waits for. AwaitNews returns an error if ctx ends or the engine stops.
func (e *Engine) AwaitNews(
	ctx context.Context, about string, h journal.Head,
	look func() (journal.Head, bool, error),
) error {
	wait := firstRecheck
	for {
		w := e.news.add(about, h.Number)
		in, done, err := look()
		if !done && err == nil {
			t := time.AfterFunc(wait, w.hear)
			wait = min(2*wait, maxRecheck)
			err = e.await(ctx, w.heard, nil, in)
			t.Stop()
		}
		e.news.remove(about, w)
		if err != nil || done {
			return err
		}
		h = in
	}
}

// AwaitNews calls look until that returns true or an error, at once and now and then. It returns
// an error if ctx ends.
func (c *Client) AwaitNews(
	ctx context.Context, _ string, _ journal.Head, look func() (journal.Head, bool, error),
) error {
	wait := 10 * time.Millisecond
	for {
		h, done, err := look()
		if err != nil || done {
			return err
		}
		t := time.NewTimer(wait)
		wait = min(2*wait, maxRecheck)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return waited(ctx, h)
		}
	}
}
