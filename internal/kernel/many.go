package kernel

import (
	"context"
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Many starts or signals of one call share groups. An engine begins a start while others of the
// call are on their way, so the pipeline puts them into one group. Signals, and what a client or a
// transaction writes, are put into groups here.

// atOnce limits how many starts or signals of one call are on their way at a time.
const atOnce = 1000

// A starting is a start on its way.
type starting struct {
	k     *Kernel
	start Start
	run   *run // nil if it has not begun
	err   error
}

// StartAll makes n starts, each as Start does. spec returns the start of an item, and done takes
// its result. Both are called on this goroutine, and spec may be called again for an item. When ctx
// has ended, no further start begins.
func (e *Engine) StartAll(
	ctx context.Context, n int, spec func(i int) (Start, error),
	done func(i int, s Started, err error),
) {
	ring := make([]starting, min(n, atOnce))
	end := func(i int) {
		s := &ring[i%atOnce]
		started, err := e.endStart(ctx, s)
		*s = starting{}
		done(i, started, err)
	}
	for i := range n {
		if i >= atOnce {
			end(i - atOnce)
		}
		s := &ring[i%atOnce]
		if s.start, s.err = spec(i); s.err == nil {
			e.beginStart(ctx, s)
		}
	}
	for i := max(n-atOnce, 0); i < n; i++ {
		end(i)
	}
}

// beginStart begins a start and does not wait until it is durable.
func (e *Engine) beginStart(ctx context.Context, s *starting) {
	op := "start " + s.start.Workflow
	if s.err = notBegun(ctx, op); s.err != nil {
		return
	}
	if s.k, s.err = e.running(ctx, op); s.err == nil {
		s.run, s.err = s.k.begin(ctx, s.start)
	}
}

// endStart waits until a start is durable. One that was surely not sent begins again.
func (e *Engine) endStart(ctx context.Context, s *starting) (Started, error) {
	started, err := Started{}, s.err
	if s.run != nil {
		started, err = s.k.begun(ctx, s.start, s.run)
	}
	if errors.Is(err, errLost) {
		return e.Start(ctx, s.start)
	}
	return started, err
}

// notBegun returns an error if ctx has ended.
func notBegun(ctx context.Context, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &journal.Error{
		Code: journal.CodeUnavailable, Op: op, Message: "the context has ended: nothing was done",
		Err: context.Cause(ctx),
	}
}

// StartAll makes n starts, each as Start does; see [Engine.StartAll].
func (c *Client) StartAll(
	ctx context.Context, n int, spec func(i int) (Start, error),
	done func(i int, s Started, err error),
) {
	c.BeginAll(ctx, n, spec, done)
}

// BeginAll makes n starts, each as Begin does, many in one group; see [Engine.StartAll].
func (d *FrontEnd) BeginAll(
	ctx context.Context, n int, spec func(i int) (Start, error),
	done func(i int, s Started, err error),
) {
	d.together(ctx, "start", numbersTo(n), func(o writer, i int) (*store.Change, error) {
		s, err := spec(i)
		if err != nil {
			return nil, err
		}
		return d.start(o, "start "+s.Workflow, d.trace.start(ctx, s))
	}, func(i int, c *store.Change, err error) {
		var s Started
		if err == nil {
			s, err = startedBy(c)
		}
		done(i, s, err)
	})
}

// SignalAll sends n signals, each as Signal does, many in one group and in their order; see
// [Engine.StartAll].
func (d *FrontEnd) SignalAll(
	ctx context.Context, n int, signal func(i int) (Signal, error),
	done func(i int, out Delivery, err error),
) {
	d.together(ctx, "signal", numbersTo(n), func(o writer, i int) (*store.Change, error) {
		s, err := signal(i)
		if err != nil {
			return nil, err
		}
		p, err := d.post(o, "signal "+s.Name+" to "+s.ID, d.trace.signal(ctx, s))
		if err != nil {
			return nil, err
		}
		return &store.Change{Posts: []store.Post{*p}}, nil
	}, func(i int, c *store.Change, err error) {
		var out Delivery
		if err == nil {
			out, _ = delivered("", &c.Posts[0]) // one that is not delivered is no error
		}
		done(i, out, err)
	})
}

func numbersTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// A gathered is a group of changes that together makes durable.
type gathered struct {
	taken   int   // how many items it has come to, with those that have failed
	items   []int // of the changes
	changes []store.Change
}

// together makes the changes of items durable, one group after the other. prepare makes the change
// of an item, and done takes it with its verdict, or the error of the item. If the store refuses a
// group, its halves are tried, until the item at fault is alone. In a transaction of the user's all
// further items get the first error of the transaction.
func (d *FrontEnd) together(
	ctx context.Context, op string, items []int,
	prepare func(o writer, i int) (*store.Change, error),
	done func(i int, c *store.Change, err error),
) {
	_, inTransaction := d.writers.(*txWriter)
	fail := func(items []int, err error) {
		for _, i := range items {
			done(i, nil, err)
		}
	}
	for len(items) > 0 {
		if err := notBegun(ctx, op); err != nil {
			fail(items, err)
			return
		}
		var g gathered
		err := d.write(ctx, op, func(o writer) (err error) {
			g = gather(o, items, prepare, done)
			if len(g.items) > 0 {
				g.changes, err = o.submit(ctx, op, g.changes)
			}
			return err
		})
		items = items[g.taken:]
		switch half := len(g.items) / 2; {
		case err == nil:
			for at, i := range g.items {
				done(i, &g.changes[at], nil)
			}
		case inTransaction || g.taken == 0:
			fail(g.items, err)
			fail(items, err)
			return
		case half > 0 && journal.CodeOf(err) == journal.CodeInvalid:
			d.together(ctx, op, g.items[:half], prepare, done)
			d.together(ctx, op, g.items[half:], prepare, done)
		default:
			fail(g.items, err)
		}
	}
}

// gather prepares as many items as one group has room for.
func gather(
	o writer, items []int, prepare func(o writer, i int) (*store.Change, error),
	done func(i int, c *store.Change, err error),
) (g gathered) {
	size := 0
	for _, i := range items[:min(len(items), atOnce)] {
		if size > groupBytes {
			break
		}
		g.taken++
		c, err := prepare(o, i)
		if err != nil {
			done(i, nil, err)
			continue
		}
		size += sizeOf(c.Entries)
		for j := range c.Posts {
			size += c.Posts[j].Message.Size()
		}
		g.items, g.changes = append(g.items, i), append(g.changes, *c)
	}
	return g
}
