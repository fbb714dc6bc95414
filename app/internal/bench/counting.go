package bench

import (
	"context"
	"sync/atomic"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A counting is a store that counts the calls to it. It knows the engine that has joined
// it.
type counting struct {
	store.Store
	commits atomic.Int64 // groups
	calls   atomic.Int64 // of any kind
	engine  atomic.Int64
}

func (c *counting) Commit(ctx context.Context, g *store.Group) error {
	c.commits.Add(1)
	c.calls.Add(1)
	return c.Store.Commit(ctx, g)
}

func (c *counting) Claim(ctx context.Context, claim store.Claim) (store.Claimed, error) {
	c.calls.Add(1)
	claimed, err := c.Store.Claim(ctx, claim)
	if _, joins := claim.(store.Join); joins && err == nil {
		c.engine.Store(int64(claimed.Engine))
	}
	return claimed, err
}

func (c *counting) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	c.calls.Add(1)
	return c.Store.Load(ctx, run, r)
}

func (c *counting) Spill(ctx context.Context, engine journal.EngineID, id journal.Number,
	data []byte) error {
	c.calls.Add(1)
	return c.Store.Spill(ctx, engine, id, data)
}

func (c *counting) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor,
	error) {
	c.calls.Add(1)
	return c.Store.Find(ctx, f)
}

func (c *counting) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	c.calls.Add(1)
	return c.Store.Purge(ctx, p)
}

func (c *counting) Info(ctx context.Context) (store.Info, error) {
	c.calls.Add(1)
	return c.Store.Info(ctx)
}

// Watch watches the store if it can be watched. It makes no counted call before somebody
// else has written.
func (c *counting) Watch(ctx context.Context, f func()) {
	if w := store.AbilitiesOf(c.Store).Watcher; w != nil {
		w.Watch(ctx, f)
		return
	}
	<-ctx.Done()
}

// Lanes returns the number of lanes of the store.
func (c *counting) Lanes() int {
	if p := store.AbilitiesOf(c.Store).Parallel; p != nil {
		return p.Lanes()
	}
	return 1
}

// owned returns a run that the engine owns, which is a loaded run, or nil if there is none.
// The call is not counted.
func (c *counting) owned(ctx context.Context) (*journal.Head, error) {
	heads, _, err := c.Store.Find(ctx, store.Filter{
		Owner: journal.EngineID(c.engine.Load()), Open: true, Limit: 1,
	})
	if err != nil || len(heads) == 0 {
		return nil, err
	}
	return &heads[0], nil
}
