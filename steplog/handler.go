package steplog

import (
	"bytes"
	"context"
	"log/slog"
	"slices"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A handler passes records on, and keeps those of steps.
type handler struct {
	next slog.Handler
	// the step or workflow code whose lines they are, whatever their context is; nil for none
	of   context.Context
	with []func(slog.Handler) slog.Handler // the attributes and groups, in their order
}

// Handler returns a handler that passes every record on to next, and also keeps it if its context
// is that of a step with [Keep]. Next decides by itself which levels it wants.
//
// A record whose context is that of a step gets the attributes run_id, workflow, step and attempt
// on its way to next, and one of workflow code gets run_id and workflow. Workflow code is replayed
// when its run is loaded again. What it logged before is not passed on again then; only after the
// death of a process may the lines since the last durable operation come twice.
func Handler(next slog.Handler) slog.Handler { return &handler{next: next} }

// Logger returns a logger of the step or workflow code of ctx, for code that logs without a
// context. Its lines are as those that [Handler] gets with that context, and are passed on to the
// handler of [slog.Default].
func Logger(ctx context.Context) *slog.Logger {
	h, is := slog.Default().Handler().(*handler)
	if is {
		own := *h
		h = &own
	} else {
		h = &handler{next: slog.Default().Handler()}
	}
	h.of = ctx
	return slog.New(h)
}

// A speaker is the step or the workflow code that a record is of; neither for other records.
type speaker struct {
	step  kernel.StepInfo
	keeps bool // the step keeps the record
	again bool // the code has logged it before
	attrs []slog.Attr
}

// heard marks the context of a record that another handler of this package has had.
type heard struct{}

func (h *handler) speaker(ctx context.Context, level slog.Level) (s speaker) {
	if ctx.Value(heard{}) != nil {
		return s
	}
	if h.of != nil {
		ctx = h.of
	}
	if run, again, is := kernel.CodeOf(ctx); is {
		s.again, s.attrs = again, attrsOf(run)
		return s
	}
	step, err := kernel.StepOf(ctx, "log")
	if err != nil {
		return s
	}
	n, _ := step.Attempt()
	s.step, s.keeps = step, step.Keeps(int(level))
	s.attrs = append(attrsOf(step.Run()), slog.String("step", step.Name()), slog.Int("attempt", n))
	return s
}

func attrsOf(run journal.Head) []slog.Attr {
	return []slog.Attr{
		slog.String("run_id", string(run.ID)), slog.String("workflow", run.Workflow),
	}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	if h.next.Enabled(ctx, level) {
		return true
	}
	return h.speaker(ctx, level).keeps
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	s := h.speaker(ctx, r.Level)
	if s.again {
		return nil
	}
	if s.keeps {
		if line := h.line(ctx, r); line != nil {
			s.step.Log(int(r.Level), line)
		}
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	if s.attrs != nil {
		r = r.Clone()
		r.AddAttrs(s.attrs...)
		ctx = context.WithValue(ctx, heard{}, true)
	}
	return h.next.Handle(ctx, r)
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
