package howto

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/schedule"
)

func TestThePage(t *testing.T) {
	sync := perdure.Define("sync", func(context.Context, map[string]string) (int, error) {
		return 0, nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		ctx := env.Context()
		err := env.Do(func(e *perdure.Engine) error { return Open(ctx, e, "ada") })
		if err != nil {
			env.Fatal(err)
		}
		env.Sleep(48*time.Hour + time.Minute)
		for name, want := range map[string]int64{"sync-ada": 193, "bill-nightly": 2} {
			s, err := schedule.Get(ctx, env.Engine(), name)
			if err != nil || s.Started != want {
				env.Errorf("%s has started %d runs (%v), want %d", name, s.Started, err, want)
			}
		}
		n, err := Repair(ctx, env.Engine(), time.Date(1999, 12, 27, 0, 0, 0, 0, time.UTC))
		if err != nil || n != 5 {
			env.Errorf("%d runs are asked for (%v), want 5", n, err)
		}
		env.Sleep(time.Minute)
		if s, err := schedule.Get(ctx, env.Engine(), "bill-nightly"); err != nil || s.Started != 7 {
			env.Errorf("%d runs (%v), want 7", s.Started, err)
		}
		if err := env.Do(func(e *perdure.Engine) error {
			return Remind(ctx, e, "b-1", time.Now().AddDate(0, 0, 3))
		}); err != nil {
			env.Fatal(err)
		}
		env.Sleep(47 * time.Hour)
		reminder := perduretest.Get(env, Reminder, "remind-b-1")
		reminder.Is(journal.Pending)
		env.Sleep(2 * time.Hour)
		reminder.Returns("pay b-1")
	}, Nightly, sync, Reminder)
}
