package play

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/torture/program"
)

func (p *player) branches(ctx context.Context, op *program.Op) error {
	var all []*perdure.Future[int]
	for i, b := range op.Bodies {
		own := p
		if op.Way == "cancel" && i == 0 {
			// it does not count
			own = &player{Env: p.Env, in: p.in, numbers: map[string]int64{}, shared: map[int]int{}}
		}
		all = append(all, perdure.Go(ctx, op.Name(), func(ctx context.Context) (int, error) {
			return i, own.block(ctx, b)
		}, perdure.Key(fmt.Sprint("body-", i))))
	}
	rest := all
	var err error
	switch op.Way {
	case "all":
		_, err = perdure.All(ctx, func(i int) bool { return i >= 0 }, all...)
	case "any":
		_, err = perdure.Any(ctx, nil, all...)
	case "none":
		_, err = perdure.None(ctx, func(i int) bool { return i < 0 }, all...)
	case "completed":
		for f, e := range perdure.AsCompleted(ctx, all...) {
			if e != nil {
				return e
			}
			if _, err = f.Await(ctx); err != nil {
				return err
			}
		}
	case "set":
		err = gather(ctx, all)
	case "cancel":
		if _, err = all[0].Cancel(ctx, "not wanted"); err == nil {
			if _, e := all[0].Await(ctx); pattern.EndedBy(ctx) != nil {
				err = e
			}
		}
		rest = all[1:]
	}
	if err != nil {
		return err
	}
	for _, f := range rest {
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	p.fact(op, "gathered")
	return nil
}

// gather takes futures in the order in which they end.
func gather(ctx context.Context, all []*perdure.Future[int]) error {
	set, err := pattern.NewSet(ctx)
	if err != nil {
		return err
	}
	defer set.Close()
	for _, f := range all {
		if err := set.Add(f); err != nil {
			return err
		}
	}
	for set.Len() > 0 {
		f, err := set.Next()
		if err != nil {
			return err
		}
		if _, err := f.(*perdure.Future[int]).Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sharedCount runs branches that count in one variable after a wait. Each count is recorded, and
// must be the same on replay.
func (p *player) sharedCount(ctx context.Context, op *program.Op) error {
	type counted struct {
		Number int64
		Count  int
	}
	var all []*perdure.Future[int]
	for i := range op.N {
		label := p.label(op, fmt.Sprint("do", i))
		all = append(all, perdure.Go(ctx, op.Name(), func(ctx context.Context) (int, error) {
			if op.Way != "stepped" {
				if err := perdure.Sleep(ctx, time.Millisecond); err != nil {
					return 0, err
				}
			} else if _, err := perdure.Step(ctx, "wait", func(context.Context) (int, error) {
				return i, nil
			}); err != nil {
				return 0, err
			}
			if op.Way == "busy" && i == 0 { // others would overtake it if it lost its turn
				spin()
			}
			p.shared[op.ID]++
			mine := p.shared[op.ID]
			after, number := p.after()
			got, err := perdure.Step(ctx, "count", func(ctx context.Context) (counted, error) {
				n, err := p.call(ctx, label, after, number)
				return counted{n, mine}, err
			})
			if err != nil {
				return 0, err
			}
			if got.Count != mine {
				p.fact(op, "a branch that counted %d counts %d on replay", got.Count, mine)
			}
			p.did(label, got.Number)
			return mine, nil
		}, perdure.Key(fmt.Sprint(i))))
	}
	for _, f := range all {
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	p.fact(op, "%d", p.shared[op.ID])
	p.shared[op.ID] = 0
	return nil
}

// spin takes a while and waits for nothing.
func spin() {
	sum := sha256.Sum256(nil)
	for range 400_000 {
		sum = sha256.Sum256(sum[:])
	}
}

// blocked runs branches that wait for one another outside of the engine.
func (p *player) blocked(ctx context.Context, op *program.Op) error {
	var all []*perdure.Future[int64]
	var mu sync.Mutex
	pipe := []chan int64{
		make(chan int64, 1), make(chan int64), make(chan int64), make(chan int64, 1),
	}
	pipe[0] <- 0
	for i := range 3 {
		label := p.label(op, fmt.Sprint("do", i))
		all = append(all, perdure.Go(ctx, op.Name(), func(ctx context.Context) (int64, error) {
			if op.Way == "mutex" {
				mu.Lock()
				defer mu.Unlock()
				return perdure.Step(ctx, "do", p.effect(label))
			}
			select {
			case <-pipe[i]:
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			n, err := perdure.Step(ctx, "do", p.effect(label))
			if err != nil {
				return 0, err
			}
			select {
			case pipe[i+1] <- n:
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			return n, nil
		}, perdure.Key(fmt.Sprint(i))))
	}
	for i, f := range all {
		n, err := f.Await(ctx)
		if err != nil {
			return err
		}
		p.did(p.label(op, fmt.Sprint("do", i)), n)
	}
	p.fact(op, "3")
	return nil
}

func (p *player) scope(ctx context.Context, op *program.Op) error {
	var opts []perdure.BranchOption
	if op.Way == "stands" {
		other, err := perdure.Scope(ctx, op.Name()+".other")
		if err != nil {
			return err
		}
		opts = append(opts, pattern.StandsFor(other))
	}
	within, err := perdure.Scope(ctx, op.Name(), opts...)
	if err != nil {
		return err
	}
	return p.block(within, op.Bodies[0])
}

// walk executes tasks under a backpressure policy.
func (p *player) walk(ctx context.Context, op *program.Op) error {
	type argument struct {
		N int `perdure:"input"`
	}
	args := pattern.NewArguments[argument]()
	var policy backpressure.Policy = backpressure.Limit(2)
	if op.Way == "limited" {
		named, err := backpressure.Lookup("adaptive")
		if err != nil {
			return err
		}
		policy = named
	}
	var nodes []string
	for i := range op.N {
		nodes = append(nodes, fmt.Sprint("do", i))
	}
	task := func(node string, alone bool) (pattern.Awaitable, error) {
		t := pattern.Task{Name: op.Name(), Key: node,
			Call: pattern.TaskOf(args, func(ctx context.Context, _ argument) (int64, error) {
				if _, ok := pattern.SourcesOf(ctx); !ok {
					return 0, perdure.Permanent(ErrMeant)
				}
				return p.call(ctx, p.label(op, node), "", 0)
			})}
		given := pattern.Sources{Input: json.RawMessage("1")}
		if !alone {
			return t.Async(ctx, given), nil
		}
		out, err := t.Run(ctx, given)
		if err != nil {
			return nil, err
		}
		return nil, p.walked(op, node, out)
	}
	err := pattern.Walk{
		Layers: [][]string{nodes}, Policy: policy, Begin: task,
		Ended: func(node string, f pattern.Awaitable, refused error) (pattern.Awaitable, error) {
			if refused != nil {
				return nil, refused
			}
			out, err := f.(*perdure.Future[json.RawMessage]).Await(ctx)
			if err != nil {
				return nil, err
			}
			return nil, p.walked(op, node, out)
		},
	}.Run(ctx)
	if err != nil {
		return err
	}
	if _, ok := p.numbers[p.label(op, nodes[len(nodes)-1])]; !ok {
		return fmt.Errorf("the walk ended before %s", nodes[len(nodes)-1])
	}
	p.fact(op, "%d", op.N)
	return nil
}

func (p *player) walked(op *program.Op, node string, out json.RawMessage) error {
	n, err := pattern.Decode[int64](out)
	if err == nil {
		p.did(p.label(op, node), n)
	}
	return err
}
