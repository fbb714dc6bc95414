package perdure

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
)

// Sleep waits for a duration, durably. The run may be unloaded and its process may die meanwhile;
// the time counts from the first call. By the machine's clock, Sleep never returns too early. A
// duration of 0 or less has passed already. The wait ends early when the run ends, or when a
// context that the workflow has made ends.
func Sleep(ctx context.Context, d time.Duration, opts ...BranchOption) error {
	return sleep(ctx, kernel.Timer{For: d}, opts)
}

// SleepUntil waits until an instant, as [Sleep] waits for a duration.
func SleepUntil(ctx context.Context, at time.Time, opts ...BranchOption) error {
	if err := instant("until", at); err != nil {
		return err
	}
	return sleep(ctx, kernel.Timer{At: at}, opts)
}

// instant returns an error for a time that a journal cannot keep.
func instant(op string, at time.Time) error {
	switch year := at.UTC().Year(); {
	case at.IsZero():
		return failure.Invalid(op, "the time is zero")
	case year < 1 || year > 9999:
		return failure.Invalid(op, "year %d is not valid: allowed are 1 to 9999", year)
	}
	return nil
}

func sleep(ctx context.Context, t kernel.Timer, opts []BranchOption) error {
	o, err := sealed.Branch("timer", "sleep", opts)
	if err != nil {
		return err
	}
	t.Key, t.Change = o.Key, o.Change
	out, err := kernel.Sleep(ctx, t)
	if err == nil && out.Failure != nil {
		err = failure.Err(out.Failure)
	}
	return err
}

// Timer sets a named timer and does not wait for it. At its time the future ends with that time,
// in UTC. A timer that is cancelled, by [Future.Cancel] or from outside by [Client.CancelTimer],
// ends with an [Error] of code cancelled. [Client.Describe] lists open timers. When the run
// continues as new, the open timers of its own scope move along: the next run's timer of the same
// name has the time that was set before. Of several timers with one name, the first that is left
// is taken first.
func Timer(ctx context.Context, name string, d time.Duration,
	opts ...BranchOption) *Future[time.Time] {
	return timer(ctx, kernel.Timer{Name: name, For: d}, opts)
}

// TimerUntil sets a timer as [Timer] does, for an instant.
func TimerUntil(ctx context.Context, name string, at time.Time,
	opts ...BranchOption) *Future[time.Time] {
	if err := instant("timer "+name, at); err != nil {
		return &Future[time.Time]{name: name, err: err}
	}
	return timer(ctx, kernel.Timer{Name: name, At: at}, opts)
}

func timer(ctx context.Context, t kernel.Timer, opts []BranchOption) *Future[time.Time] {
	f := &Future[time.Time]{name: t.Name}
	o, err := sealed.Branch("timer", t.Name, opts)
	if err != nil {
		f.err = err
		return f
	}
	t.Key, t.Change = o.Key, o.Change
	var due time.Time
	f.op, due, f.err = kernel.StartTimer(ctx, t)
	f.value = func(kernel.Outcome) (time.Time, error) { return due, nil }
	return f
}
