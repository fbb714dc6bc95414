package perdure

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
)

// Sleep waits for a duration, durably: the run may leave memory and its process
// may die meanwhile; the time counts from the first call. It is never too early by
// the machine's clock, and a duration of 0 or less has passed. It ends early with
// the run, or with a context that the workflow has made.
func Sleep(ctx context.Context, d time.Duration, opts ...BranchOption) error {
	return sleep(ctx, kernel.Timer{Name: kernel.SleepName, For: d}, opts)
}

// SleepUntil waits until an instant, as [Sleep] does for a duration.
func SleepUntil(ctx context.Context, at time.Time, opts ...BranchOption) error {
	if err := instant("until", at); err != nil {
		return err
	}
	return sleep(ctx, kernel.Timer{Name: kernel.SleepName, At: at}, opts)
}

// instant says whether a journal can keep a time.
func instant(op string, at time.Time) error {
	switch year := at.UTC().Year(); {
	case at.IsZero():
		return failure.Invalid(op, "the time is zero")
	case year < 1 || year > 9999:
		return failure.Invalid(op, "the time is in year %d: from 1 to 9999", year)
	}
	return nil
}

func sleep(ctx context.Context, t kernel.Timer, opts []BranchOption) error {
	o, err := sealed.Branch("timer", t.Name, opts)
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

// Timer sets a timer with a name and goes on. The future ends at that time with
// it, in UTC, or with an [Error] of code cancelled where the timer is cancelled: by
// [Future.Cancel], or from outside by [Client.CancelTimer]. Open timers are listed
// by [Client.Describe]. Those of the run's own scope move along when it
// continues as new: the same name there has the same time, the first that is left
// first.
func Timer(ctx context.Context, name string, d time.Duration,
	opts ...BranchOption) *Future[time.Time] {
	return timer(ctx, kernel.Timer{Name: name, For: d}, opts)
}

// TimerUntil is [Timer] for an instant.
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
