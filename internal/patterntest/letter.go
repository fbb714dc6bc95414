package patterntest

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

// Letters returns the open dead letters. The test fails unless there are n.
func Letters(env *perduretest.Env, n int) (all []deadletter.Letter) {
	env.Helper()
	env.Settle()
	err := env.Do(func(eng *perdure.Engine) (err error) {
		all, _, err = admin.New(eng).DeadLetters(env.Context(), admin.DeadLetterQuery{})
		if err == nil && len(all) != n {
			err = fmt.Errorf("there are %d letters, want %d: %+v", len(all), n, all)
		}
		return err
	})
	if err != nil {
		env.Fatal(err)
	}
	return all
}

// Retry retries the run of a dead letter from the failed step, and returns the report of the retry
// when it has ended.
func Retry(env *perduretest.Env, l deadletter.Letter) (r report.Run) {
	env.Helper()
	err := env.Do(func(eng *perdure.Engine) error {
		_, err := admin.New(eng).RetryDeadLetter(env.Context(), l.ID)
		if errors.Is(err, &perdure.Error{Code: perdure.CodeNotFound}) {
			return nil // a crash has hidden that it was retried, and it is already settled
		}
		return err
	})
	for err == nil && (!r.Status.IsTerminal() || r.RunID == l.RunID) {
		env.Sleep(time.Second)
		err = env.Do(func(eng *perdure.Engine) (err error) {
			r, err = eng.Report(env.Context(), l.WorkflowID)
			return err
		})
	}
	if err != nil {
		env.Fatal(err)
	}
	return r
}

// Retried checks a run with one dead letter. It demands that the names in ran were tried so far.
// Then nothing is broken any more, and the run is retried. It demands that the retry ends with the
// status end, and tries the names in again.
func (l *Ledger) Retried(env *perduretest.Env, ran string, end perdure.RunStatus, again string) {
	env.Helper()
	if got := l.Ran(); got != ran {
		env.Fatalf("it ran %s, want %s", got, ran)
	}
	l.Break()
	if r := Retry(env, Letters(env, 1)[0]); r.Status != end {
		env.Errorf("retried, it is %v: %v", r.Status, r.Err)
	}
	if got := l.Ran(); got != again {
		env.Errorf("the retry ran %s, want %s", got, again)
	}
}
