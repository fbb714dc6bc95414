package races

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// raceSignals are the signals that runs of a race wait for. A message is a unique number.
var raceSignals = []perdure.Signal[int]{perdure.NewSignal[int]("a"), perdure.NewSignal[int]("b")}

// A racing is the input of a run of a race: a random program, which does what
// follows from its seed.
type racing struct {
	Seed  uint64
	Call  int // that started it; 0 of a child
	Round int // of its chain, from 0
	Depth int // of a child, from 1
}

// A report has what the code of a run saw of one operation. A run publishes each of them and
// returns all of them.
type report struct {
	What   string // wait, take, decision, child, time
	ID     int    // of the message
	Number int64  // of a message that is about to be taken
	Code   journal.Code
	Asked  time.Duration // of a time
	Took   time.Duration
	Child  journal.RunID
	Status journal.Status
}

// A racer is one execution of a program.
type racer struct {
	in  racing
	saw []report
}

// race is the workflow function.
func race(ctx context.Context, in racing) ([]report, error) {
	p := &racer{in: in}
	rng := rand.New(rand.NewPCG(in.Seed, uint64(in.Round)))
	if err := p.block(ctx, rng, 1); err != nil {
		return nil, err
	}
	switch k := rng.IntN(6); {
	case k <= 1 && in.Round < 2:
		in.Round++
		return p.saw, perdure.ContinueAsNew(ctx, in)
	case k == 2:
		return nil, world.ErrOdd
	}
	return p.saw, nil
}

// see records the result of an operation.
func (p *racer) see(ctx context.Context, r report) error {
	p.saw = append(p.saw, r)
	return perdure.Publish(ctx, "saw", r)
}

// block does some operations, one after the other. What each of them does follows
// from numbers that are drawn in the order of the program.
func (p *racer) block(ctx context.Context, rng *rand.Rand, depth int) error {
	var loose []*perdure.Future[int]
	n := 1 + rng.IntN(4)
	if depth > 1 {
		n = 1 + rng.IntN(2)
	}
	for i := range n {
		sub := rand.New(rand.NewPCG(rng.Uint64(), 3))
		f, err := p.operation(ctx, sub, depth, i)
		if err != nil {
			return err
		}
		if f != nil {
			loose = append(loose, f)
		}
	}
	for _, f := range loose {
		switch rng.IntN(4) {
		case 0:
			v, err := f.Await(ctx)
			if err != nil {
				return err
			}
			if err := p.see(ctx, report{What: "wait", ID: v}); err != nil {
				return err
			}
		case 1:
			if _, err := f.Cancel(ctx, "not wanted"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *racer) operation(ctx context.Context, rng *rand.Rand, depth, i int) (*perdure.Future[int],
	error) {
	switch k := rng.IntN(20); {
	case k < 8:
		return nil, p.wait(ctx, rng, i)
	case k < 10:
		s, _ := p.which(rng, "loose", i)
		return s.Future(ctx, perdure.Key(fmt.Sprint("loose-", i))), nil
	case k < 13 && depth < 3:
		return nil, p.branches(ctx, rng, depth, i)
	case k < 15:
		return nil, p.sleep(ctx, rng, i)
	case k == 15 && p.in.Depth < 1:
		return nil, p.child(ctx, rng, i)
	case k == 16:
		return nil, p.park(ctx, i)
	case k == 17:
		return nil, p.take(ctx, rng)
	case k == 18:
		return nil, p.hurry(ctx, rng, i)
	}
	_, err := perdure.Step(ctx, "step",
		world.Work("step", time.Duration(rng.IntN(50))*time.Millisecond, nil))
	return nil, err
}

// which draws a signal, and the messages of it that a wait takes. The key of the wait shows the
// judge which these are.
func (p *racer) which(rng *rand.Rand, class string, i int) (perdure.Signal[int],
	[]perdure.WaitOption) {
	s := raceSignals[rng.IntN(len(raceSignals))]
	opts := []perdure.WaitOption{perdure.Key(fmt.Sprint(class, "-", i))}
	if class == "odd" || class == "even" {
		opts = append(opts, perdure.Where(func(v int) bool { return fits(class, v) }))
	}
	return s, opts
}

// fits reports whether a wait whose key begins like that takes a message.
func fits(key string, v int) bool {
	switch class, _, _ := strings.Cut(key, "-"); class {
	case "odd":
		return v%2 == 1
	case "even":
		return v%2 == 0
	}
	return true
}

func (p *racer) wait(ctx context.Context, rng *rand.Rand, i int) error {
	s, opts := p.which(rng, []string{"any", "any", "any", "odd", "even"}[rng.IntN(5)], i)
	within := time.Duration(0)
	if rng.IntN(3) == 0 {
		within = time.Duration(1 + rng.Int64N(int64(2*time.Second)))
		opts = append(opts, perdure.Within(within))
	}
	return p.timed(ctx, within, func() (report, error) {
		v, err := s.Wait(ctx, opts...)
		if within > 0 && errors.Is(err, &perdure.Error{Code: journal.CodeTimedOut}) {
			return report{What: "time", Code: journal.CodeTimedOut}, nil
		}
		return report{What: "wait", ID: v}, err
	})
}

// timed adds to the report of an operation how long it took by the recorded clock.
func (p *racer) timed(ctx context.Context, asked time.Duration, do func() (report, error)) error {
	began, err := perdure.Now(ctx)
	if err != nil {
		return err
	}
	r, err := do()
	if err != nil {
		return err
	}
	ended, err := perdure.Now(ctx)
	if err != nil {
		return err
	}
	r.Asked, r.Took = asked, ended.Sub(began)
	return p.see(ctx, r)
}

// hurry waits in a context of the author that ends.
func (p *racer) hurry(ctx context.Context, rng *rand.Rand, i int) error {
	s, opts := p.which(rng, "any", i)
	hurried, cancel := context.WithTimeout(ctx, time.Duration(1+rng.Int64N(int64(time.Second))))
	defer cancel()
	v, err := s.Wait(hurried, opts...)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.see(ctx, report{What: "wait", ID: v})
}

func (p *racer) branches(ctx context.Context, rng *rand.Rand, depth, i int) error {
	var all []*perdure.Future[int]
	for n := range 2 + rng.IntN(2) {
		sub := rand.New(rand.NewPCG(rng.Uint64(), 4))
		all = append(all, perdure.Go(ctx, fmt.Sprintf("branch%d-%d", i, n),
			func(ctx context.Context) (int, error) {
				return 0, p.block(ctx, sub, depth+1)
			}))
	}
	for _, f := range all {
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sleep sleeps, or waits for a timer that may be cancelled from outside.
func (p *racer) sleep(ctx context.Context, rng *rand.Rand, i int) error {
	d := time.Duration(1 + rng.Int64N(int64(3*time.Second)))
	if rng.IntN(3) > 0 {
		return p.timed(ctx, d, func() (report, error) {
			return report{What: "time"}, perdure.Sleep(ctx, d)
		})
	}
	return p.timed(ctx, d, func() (report, error) {
		_, err := perdure.Timer(ctx, "alarm", d, perdure.Key(fmt.Sprint(i))).Await(ctx)
		var e *perdure.Error
		if errors.As(err, &e) && e.Code == journal.CodeCancelled &&
			strings.Contains(e.Message, "by race") {
			return report{What: "alarm", Code: e.Code}, nil
		}
		return report{What: "alarm"}, err
	})
}

func (p *racer) park(ctx context.Context, i int) error {
	d, err := perdure.Park(ctx, fmt.Sprint("ask-", i), "what now?")
	if err != nil {
		return err
	}
	r := report{What: "decision"}
	if _, err := fmt.Sscan(string(d.Data), &r.ID); err != nil {
		return err
	}
	return p.see(ctx, r)
}

// take takes messages that are in the inbox; it announces each of them before.
func (p *racer) take(ctx context.Context, rng *rand.Rand) error {
	messages, err := perdure.Inbox(ctx, raceSignals[rng.IntN(len(raceSignals))].Name())
	if err != nil {
		return err
	}
	for _, m := range messages[:min(len(messages), 2)] {
		r := report{What: "take", Number: m.Number}
		if _, err := fmt.Sscan(string(m.Data), &r.ID); err != nil {
			return err
		}
		if err := p.see(ctx, r); err != nil {
			return err
		}
		if _, err := perdure.Take(ctx, m.Number); err != nil {
			return err
		}
	}
	return nil
}

// child starts a child, and mostly waits for it.
func (p *racer) child(ctx context.Context, rng *rand.Rand, i int) error {
	opts := []perdure.ChildOption{perdure.Key(fmt.Sprint(i)), perdure.Dedup(0)}
	switch rng.IntN(4) {
	case 0:
		opts = append(opts, perdure.ChildDetached)
	case 1:
		opts = append(opts, perdure.ChildEnds)
	}
	if rng.IntN(3) == 0 {
		opts = append(opts, perdure.ID(raceIDs[rng.IntN(len(raceIDs))]))
	}
	c := raceWorkflow.Child(ctx, racing{Seed: rng.Uint64(), Depth: p.in.Depth + 1}, opts...)
	if rng.IntN(4) == 0 {
		return nil
	}
	out, err := c.Outcome(ctx)
	if err != nil {
		return err
	}
	return p.see(ctx, report{What: "child", Child: journal.RunID(c.RunID()), Status: out.Status})
}

// Workflow IDs are few, so that calls meet.
var raceIDs = []string{"one", "two", "three"}

// Two workflows of the same code.
var (
	raceWorkflow = &perdure.Workflow[racing, []report]{}
	raceRival    = perdure.Define("rival", race)
)

func init() { *raceWorkflow = *perdure.Define("race", race) }
