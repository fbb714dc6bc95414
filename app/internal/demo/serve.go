package demo

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/approval/expense"
	"github.com/perdure/perdure/examples/subscription/billing"
)

// serve lets the workers go on until the user ends the demo, and reports changes of the
// runs that wait. On a terminal, keys send the signals that these runs wait for.
func (s *supervisor) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	keyboard, ok := terminal(in, out)
	if !ok {
		s.report.line("        Ctrl-C ends the worker")
		return s.follow(ctx, nil)
	}
	return withKeys(ctx, keyboard, func(ctx context.Context, keys <-chan byte) error {
		cooked := s.report.out
		s.report.out = rawScreen{cooked}
		defer func() { s.report.out = cooked }()
		s.report.line("keys    a approves exp-9   s stops sub-5   q ends")
		return s.follow(ctx, keys)
	})
}

func (s *supervisor) follow(ctx context.Context, keys <-chan byte) error {
	clock := time.NewTicker(4 * glance) // people are slow: four glances are soon enough
	defer clock.Stop()
	for {
		select {
		case key := <-keys:
			if key == 'q' {
				return nil
			}
			if err := s.press(ctx, key); err != nil {
				return err
			}
		case <-clock.C:
			news, err := s.look(ctx)
			for _, id := range news {
				err = errors.Join(err, s.tell(id))
			}
			if err != nil {
				return err
			}
		case n := <-s.news:
			if n.over && n.worker == n.node.worker {
				return unasked("the worker", n.worker)
			}
		case _, more := <-s.world.events:
			if !more {
				return unasked("the outside world", s.world)
			}
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, errUnheard) {
				return cause
			}
			return ErrInterrupted
		}
	}
}

// press handles a key.
func (s *supervisor) press(ctx context.Context, key byte) error {
	switch key {
	case interruptKey:
		return ErrInterrupted
	case 'a':
		return send(ctx, s, expense.Answered, approvalID, expense.Answer{
			By: "manager", Approved: true,
		})
	case 's':
		return send(ctx, s, billing.Changed, subscriptionID, billing.Change{Stop: true})
	}
	return nil
}

// send sends a signal to an open run. All signals of the demo to a run have one key, so a
// second one is the same message.
func send[T any](ctx context.Context, s *supervisor, signal perdure.Signal[T], id string,
	v T) error {
	state, err := s.runs.state(ctx, id)
	if err != nil {
		return err
	}
	if state.Status.IsTerminal() {
		s.report.line("  %s has ended", id)
		return nil
	}
	_, err = signal.Send(ctx, s.runs, id, v, perdure.SendKey("demo"))
	return err
}
