package steplog

import (
	"bytes"
	"context"
	"log/slog"
	"slices"

	"github.com/perdure/perdure/internal/kernel"
)

// A handler passes records on, and keeps those of steps.
type handler struct {
	next slog.Handler
	// the step whose lines they are, whatever their context is; nil for none
	step context.Context
	with []func(slog.Handler) slog.Handler // the attributes and groups, in their order
}

// Handler returns a handler that passes every record on to next, and also keeps it if its context
// is that of a step with [Keep]. Next decides by itself which levels it wants. A record whose
// context is that of any step gets the attributes run_id, workflow, step and attempt on its way to
// next. The code of a workflow is replayed, and what it logs outside its steps comes again then.
func Handler(next slog.Handler) slog.Handler { return &handler{next: next} }

// Logger returns a logger of the step of ctx, for code that logs without a context. Its lines are
// kept, and passed on to the handler of [slog.Default]. With a context of no step it keeps nothing.
func Logger(ctx context.Context) *slog.Logger {
	h, is := slog.Default().Handler().(*handler)
	if is {
		own := *h
		h = &own
	} else {
		h = &handler{next: slog.Default().Handler()}
	}
	h.step = ctx
	return slog.New(h)
}

// kept marks the context of a record that is kept already.
type kept struct{}

// of returns the step that keeps a record of that level; false if none does.
func (h *handler) of(ctx context.Context, level slog.Level) (kernel.StepInfo, bool) {
	if ctx.Value(kept{}) != nil {
		return kernel.StepInfo{}, false
	}
	if h.step != nil {
		ctx = h.step
	}
	step, err := kernel.StepOf(ctx, "log")
	if err != nil {
		return step, false
	}
	return step, step.Keeps(int(level))
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	_, keeps := h.of(ctx, level)
	return keeps || h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if step, keeps := h.of(ctx, r.Level); keeps {
		if line := h.line(ctx, r); line != nil {
			step.Log(int(r.Level), line)
		}
		ctx = context.WithValue(ctx, kept{}, true)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(h.named(ctx, r))
}

// named marks the context of a record that has the name of its step already.
type named struct{}

// named returns a record that names its step, if it is of one, and its context.
func (h *handler) named(ctx context.Context, r slog.Record) (context.Context, slog.Record) {
	of := ctx
	if h.step != nil {
		of = h.step
	}
	step, err := kernel.StepOf(of, "log")
	if err != nil || ctx.Value(named{}) != nil {
		return ctx, r
	}
	n, _ := step.Attempt()
	run := step.Run()
	r = r.Clone()
	r.AddAttrs(slog.String("run_id", string(run.ID)), slog.String("workflow", run.Workflow),
		slog.String("step", step.Name()), slog.Int("attempt", n))
	return context.WithValue(ctx, named{}, true), r
}

// line returns the kept form of a record; nil if it has none.
func (h *handler) line(ctx context.Context, r slog.Record) []byte {
	var b bytes.Buffer
	var json slog.Handler = slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: r.Level})
	json = json.WithGroup("attrs")
	for _, with := range h.with {
		json = with(json)
	}
	if json.Handle(ctx, r) != nil {
		return nil
	}
	return b.Bytes()
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.and(func(in slog.Handler) slog.Handler { return in.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return h.and(func(in slog.Handler) slog.Handler { return in.WithGroup(name) })
}

func (h *handler) and(with func(slog.Handler) slog.Handler) slog.Handler {
	own := *h
	own.next, own.with = with(h.next), append(slices.Clip(h.with), with)
	return &own
}
