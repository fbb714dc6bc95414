package perdure

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// An Info has the data of its run that workflow code may read.
type Info struct {
	RunID      string
	WorkflowID string
	Workflow   string
	Pattern    journal.Pattern
	Status     RunStatus
	Payload    []byte            // the input, or its replacement, as encoded
	Headers    map[string]string // those of the start, and those that Headers.Set has set since
	Attributes map[string]string // search attributes
	Started    time.Time
	Steps      []string // names of the steps that the code has run so far, in order
	DryRun     bool     // nothing is to be done: see pattern.DryRun
	// The path of the scope that ctx belongs to, with a slash at its end. It is empty for the
	// run's own scope.
	Scope string

	// Predecessor is the run that this run continues; the fields below it are when that run began
	// and ended.
	Predecessor      string
	PredecessorBegan time.Time
	PredecessorEnded time.Time
}

// InfoOf returns the data of the run of ctx, in workflow code and in the body of a step. On replay,
// workflow code gets the same data.
func InfoOf(ctx context.Context) (Info, error) {
	i, err := kernel.InfoOf(ctx)
	dry := i.Headers[sealed.HeaderDryRun] == "true"
	delete(i.Headers, sealed.HeaderDryRun)
	delete(i.Headers, sealed.HeaderTriggered)
	delete(i.Headers, sealed.HeaderPolicy)
	delete(i.Headers, sealed.HeaderSchedule)
	return Info{
		RunID: string(i.RunID), WorkflowID: i.WorkflowID, Workflow: i.Workflow, Pattern: i.Pattern,
		Status: i.Status, Payload: i.Payload, Headers: i.Headers,
		Attributes: i.Attributes, Started: i.Started, Steps: i.Steps, DryRun: dry, Scope: i.Scope,
		Predecessor: string(i.Predecessor), PredecessorBegan: i.PredecessorBegan,
		PredecessorEnded: i.PredecessorEnded,
	}, err
}

// Payload returns the payload of the run of ctx: its input, or the value that [SetPayload]
// replaced it with.
func Payload[T any](ctx context.Context) (T, error) {
	var zero T
	i, err := kernel.InfoOf(ctx)
	if err != nil {
		return zero, err
	}
	v, err := payload.Decode[T](i.Payload)
	if err != nil {
		return zero, payload.DecodeError("payload", zero, err)
	}
	return v, nil
}

// SetPayload replaces the payload of the run of ctx by v. [Payload] returns v from then on, and
// [Client.Describe] shows it outside once it is durable. It is recorded in the commit of the turn
// and does not wait.
func SetPayload(ctx context.Context, v any) error {
	return show(ctx, journal.PayloadSet, "payload", v)
}

// Publish shows v outside under a name: [Client.Describe] returns it while the run goes on and
// afterwards. It is recorded in the commit of the turn and does not wait.
func Publish(ctx context.Context, name string, v any) error {
	return show(ctx, journal.StatePublished, name, v)
}

// show records a value that is visible outside.
func show(ctx context.Context, kind journal.Kind, name string, v any) error {
	if !journal.ValidName(name) {
		return failure.BadName("name", name)
	}
	data, err := payload.EncodeAny(v)
	if err != nil {
		return &Error{
			Code: journal.CodeEncode, Op: "record " + name,
			Message: fmt.Sprintf("a value of type %T does not encode", v), Err: err,
		}
	}
	return note(ctx, kernel.Note{
		Kind:    kind,
		Name:    name,
		Produce: func() ([]byte, *journal.Failure) { return data, nil },
	})
}

// note records a note in the commit of the turn.
func note(ctx context.Context, n kernel.Note) error {
	out, err := kernel.TakeNote(ctx, n)
	if err == nil && out.Failure != nil {
		err = failure.Err(out.Failure)
	}
	return err
}

// SetAttribute sets a search attribute of the run of ctx, by which [Client.List] finds the run.
// An empty value removes it. A value has at most 1,024 bytes: for a longer one, it returns an
// [Error] of code too_large and sets nothing.
func SetAttribute(ctx context.Context, name, value string) error {
	if err := checkAttribute(name, value); err != nil {
		return err
	}
	n := kernel.Note{Kind: journal.AttributeSet, Name: name}
	if value != "" {
		n.Produce = func() ([]byte, *journal.Failure) { return []byte(value), nil }
	}
	return note(ctx, n)
}

// maxAttribute is the largest value of a search attribute, in bytes. Stores keep values in an
// index, and an index row of PostgreSQL has less than 2,704 bytes.
const maxAttribute = 1024

// checkAttribute returns an error for an attribute that no run can have.
func checkAttribute(name, value string) error {
	if !journal.ValidName(name) {
		return failure.BadName("attribute", name)
	}
	if len(value) > maxAttribute {
		return &Error{
			Code: journal.CodeTooLarge, Op: "attribute " + name,
			Message: fmt.Sprintf("the value has %d bytes; the limit is %d", len(value),
				maxAttribute),
			Hint: "search attributes are for what runs are found by; the rest belongs into " +
				"the payload",
		}
	}
	return nil
}

// SideEffect returns the result of the first call of fn, also if it was an error. It is for
// values that are read from outside between steps and may differ on replay. The result is
// recorded in the commit of the turn. SideEffect does not wait for the commit, so a crash may
// call fn again; an effect belongs in a [Step].
func SideEffect[T any](ctx context.Context, name string, fn func() (T, error),
	opts ...BranchOption) (T, error) {
	var zero T
	o, err := sealed.Branch("value", name, opts)
	if err != nil {
		return zero, err
	}
	if fn == nil {
		return zero, failure.Invalid("value "+name, "a value needs a function")
	}
	out, err := kernel.TakeNote(ctx, kernel.Note{Kind: journal.ValueRecorded, Name: name,
		Key: o.Key, Produce: func() ([]byte, *journal.Failure) {
			v, err := fn()
			if err != nil {
				return nil, failure.Of(err)
			}
			data, err := payload.Encode(v)
			if err != nil {
				return nil, payload.Failure("value "+name, v, err)
			}
			return data, nil
		}})
	return result[T]("value", name, out, err)
}

// Now returns the time of the first call, on replay too, by the clock of the engine
// ([Options].Clock).
func Now(ctx context.Context) (time.Time, error) {
	return SideEffect(ctx, "now", func() (time.Time, error) {
		return kernel.Now(ctx).Round(0), nil
	})
}

// Random returns a source of random numbers that is the same on replay. It is for workflow code,
// and not for secrets.
func Random(ctx context.Context) (*rand.Rand, error) {
	seed, err := SideEffect(ctx, "random", func() ([]byte, error) {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rand.Uint64()),
			rand.Uint64()), nil
	})
	if err != nil {
		return nil, err
	}
	if len(seed) != 16 {
		return nil, payload.DecodeError("random", seed, payload.ErrMangled)
	}
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(seed), binary.BigEndian.Uint64(seed[8:]))),
		nil
}

// Version decides once per run which code the run takes at a change. It returns max for runs that
// come here first with the changed code, and 0 for runs whose journals show that they passed here
// before the change. The decision holds for the whole run.
//
//	if v, err := perdure.Version(ctx, "two-carriers", 1); err == nil && v >= 1 {
//
// A build whose max is below the recorded number suspends the run. The run goes on when it is
// resumed under a build that knows the number.
//
// When no open run has an old number (admin.Client.Versions), the old code can be removed. The
// call stays until no run has the marker.
func Version(ctx context.Context, change string, max int) (int, error) {
	switch {
	case !journal.ValidName(change):
		return 0, failure.BadName("change", change)
	case max < 1:
		return 0, failure.Invalid("version "+change, "max %d is not valid: at least 1", max)
	}
	return kernel.Version(ctx, change, max, false)
}
