package operators

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// A run that goes on from another one stays as long as that one, whatever its own retention is. If
// it went earlier, the other run could be rolled back once more.
//
// spec: L-1, R-10, P-3
func TestARunThatGoesOnIsKeptAsLongAsItsSource(t *testing.T) {
	for name, kept := range map[string]time.Duration{"a day": 24 * time.Hour, "for ever": -1} {
		t.Run(name, func(t *testing.T) {
			undone := 0
			s := saga.New[int]("saga", perdure.Retention{
				Period:   kept,
				ByStatus: map[perdure.RunStatus]time.Duration{journal.Compensated: time.Minute},
			})
			saga.Add(s, "a", func(context.Context, none) (string, error) {
				return "a", nil
			}).Undo(func(context.Context, none, string) error {
				undone++
				return nil
			})
			perduretest.Test(t, func(env *perduretest.Env) {
				source := perduretest.Start(env, s.Workflow, 1, perdure.ID("x"), perdure.Dedup(0))
				becomes(env, source.RunID(), journal.Completed)
				do := admin.Order{Action: journal.ActionCompensate}
				undoes := act(env, source.RunID(), do).RunID
				becomes(env, undoes, journal.Compensated)
				purge := func(after time.Duration) {
					env.Sleep(after)
					if _, _, err := env.Engine().Purge(env.Context()); err != nil {
						env.Fatal(err)
					}
				}
				purge(23 * time.Hour)
				if again := act(env, source.RunID(), do); again.New || again.RunID != undoes {
					t.Errorf("%+v, want run %s", again, undoes)
				}
				becomes(env, undoes, journal.Compensated)
				purge(2 * time.Hour)
				if undone != 1 {
					t.Errorf("undone %d times", undone)
				}
				_, err := env.Engine().Get(env.Context(), undoes)
				if gone := journal.CodeOf(err) == journal.CodeNotFound; gone != (kept > 0) {
					t.Errorf("the rollback: %v", err)
				}
			}, s)
		})
	}
}
