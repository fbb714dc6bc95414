package perdure

import (
	"context"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// begin calls what begins with a definition, again until it succeeds, is refused, or ctx ends.
func (e *Engine) begin(ctx context.Context, def *sealed.Workflow,
	f func(context.Context, *sealed.Client) error) {
	for n := 1; ; n++ {
		err := f(ctx, &e.sealed)
		if err == nil || ctx.Err() != nil {
			return
		}
		e.observers.Tell(observe.Notice{
			Kind: observe.DefinitionAdvised, At: e.sealed.FrontEnd.Now(), Workflow: def.Name,
			Pattern: def.Pattern.String(), Reason: err.Error(),
		})
		if journal.CodeOf(err) == journal.CodeInvalid {
			return
		}
		after, _ := handOver.next(n, nil)
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
	}
}

// A begins has what begins with definitions. The goroutines of one engine begin when it runs, and
// those of later definitions at once.
type begins struct {
	mu      sync.Mutex
	ctx     context.Context // nil before Run
	waiting []func(context.Context)
	going   sync.WaitGroup
}

func (b *begins) add(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil {
		b.waiting = append(b.waiting, f)
	} else if ctx := b.ctx; ctx.Err() == nil {
		b.going.Go(func() { f(ctx) })
	}
}

func (b *begins) run(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx != nil {
		return
	}
	b.ctx = ctx
	for _, f := range b.waiting {
		b.going.Go(func() { f(ctx) })
	}
	b.waiting = nil
}

func (b *begins) wait() {
	b.mu.Lock() // so that nothing is added meanwhile
	defer b.mu.Unlock()
	b.going.Wait()
}
