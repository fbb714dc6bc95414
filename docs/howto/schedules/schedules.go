// Package howto is the code of the page about schedules.
package howto

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/schedule"
)

// A Bill is the input of a run.
type Bill struct {
	Month string `json:"month,omitempty"`
}

// Nightly bills at two at night, and on the first of a month for the month before.
var Nightly = perdure.Define("bill", bill,
	schedule.Declare("bill-nightly", schedule.Spec{
		Cron: "0 2 * * *", Zone: "Europe/Berlin", Jitter: 10 * time.Minute,
	}),
	schedule.Declare("bill-monthly", schedule.Spec{
		Cron: "0 4 1 * *", Zone: "Europe/Berlin", Overlap: schedule.Buffer,
		CatchUp: schedule.All, Window: 7 * 24 * time.Hour,
	}))

func bill(ctx context.Context, _ Bill) (time.Time, error) {
	times, _, err := schedule.TimesOf(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return perdure.Step(ctx, "bill", func(context.Context) (time.Time, error) {
		return times.Time, nil
	})
}

// Open sets a schedule for a new customer, while the engine runs.
func Open(ctx context.Context, engine *perdure.Engine, customer string) error {
	return schedule.Set(ctx, engine, "sync-"+customer, schedule.Spec{
		Workflow: "sync", Every: 15 * time.Minute, Input: []byte(`{"customer":"` + customer + `"}`),
	}, schedule.Note{By: "signup"})
}

// Reminder is sent for a bill.
var Reminder = perdure.Define("remind", func(_ context.Context, bill string) (string, error) {
	return "pay " + bill, nil
})

// Remind starts a reminder that is sent a day before the bill is due.
func Remind(ctx context.Context, engine *perdure.Engine, bill string, due time.Time) error {
	_, err := Reminder.Start(ctx, engine, bill, perdure.ID("remind-"+bill),
		schedule.At(due.AddDate(0, 0, -1)))
	return err
}

// Repair starts the runs of a past week that are missing.
func Repair(ctx context.Context, engine *perdure.Engine, monday time.Time) (int, error) {
	return schedule.Backfill(ctx, engine, "bill-nightly", monday, monday.AddDate(0, 0, 7),
		schedule.Note{By: "ada", Why: "the bank was down"})
}
