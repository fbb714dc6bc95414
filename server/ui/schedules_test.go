package ui_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/perdure/perdure/schedule"
)

// schedule sets a schedule of the workflow long.
func (w *world) schedule(name string, spec schedule.Spec) {
	w.t.Helper()
	spec.Workflow = "long"
	if spec.Input == nil {
		spec.Input = json.RawMessage("1")
	}
	err := schedule.Set(w.t.Context(), w.engine, name, spec, schedule.Note{By: "ada"})
	if err != nil {
		w.t.Fatal(err)
	}
}

// spec: B-17, R-40
func TestASchedule(t *testing.T) {
	w := begin(t, "")
	w.schedule("nightly", schedule.Spec{
		Cron: "30 2 26-31 3 *", Zone: "Europe/Berlin", Overlap: schedule.Buffer,
	})
	b := browse(w)
	b.open("schedules")
	b.sees("30 2 26-31 3 * Europe/Berlin")
	b.click("tbody a", "nightly")
	b.sees("buffer: a run starts when it has ended")
	b.sees("last: the last of them starts a run")
	b.until("document.querySelectorAll('[aria-labelledby=times] li').length === 10")
	b.sees("the clock goes from 02:00:00 to 03:00:00 and skips 02:30:00")
	b.until("!document.querySelector('[aria-labelledby=times] li').innerText.includes('UTC')")
	b.sees("It has started none yet")

	b.click("[aria-label=Actions] button", "Pause")
	b.fill("dialog label input", "the bank is closed")
	b.sees("The schedule starts nothing by itself")
	b.click("dialog form button", "Pause")
	b.sees("“the bank is closed”")
	b.sees("None: the schedule is paused")
	b.click("[aria-label=Actions] button", "Resume")
	b.click("dialog form button", "Resume")
	b.until("document.querySelector('.status').innerText.includes('active')")
	b.click("[aria-label=Actions] button", "Resume")
	b.sees("Resume: the schedule is not paused.")

	b.click("[aria-label=Actions] button", "Run now")
	b.click("dialog form button", "Run now")
	b.sees("asked for, took")
	b.sees("1 started, 0 missed")
	b.until("document.querySelector('[aria-labelledby=runs] .status')" +
		".innerText.includes('completed')")

	b.click("[aria-label=Actions] button", "Delete")
	b.click("dialog form button", "Delete")
	b.until("location.pathname === '/schedules'")
	b.sees("There are no schedules that go on")
	b.click("label", "finished and deleted ones too")
	b.sees("nightly")
}

// A schedule is made by a form, which shows its next times before.
//
// spec: B-17, R-40
func TestAScheduleIsMadeAndChanged(t *testing.T) {
	w := begin(t, "")
	b := browse(w, "status of 400")
	b.open("schedules")
	b.click("button", "Make one")
	b.fill("dialog input[placeholder=nightly]", "often")
	b.script("const s = document.querySelector('dialog select'); s.value = 'expense'; " +
		"s.dispatchEvent(new Event('change', {bubbles: true}))")
	b.fill("#time", "0 9 * * mon-fr")
	b.until("document.querySelector('dialog .problem')")
	b.fill("#time", "0 9 * * mon-fri")
	b.fill("dialog input[list=zones]", "Europe/Rome")
	b.sees("Monday to Friday at 09:00: the next times are")
	b.fill("dialog fieldset input", "Ada")
	b.click("dialog form button", "Create")
	b.until("location.pathname === '/schedules/often'")
	b.sees("Monday to Friday at 09:00 0 9 * * mon-fri in Europe/Rome")
	b.sees(`by: "Ada"`)

	b.click("[aria-label=Actions] button", "Change")
	b.until("document.querySelector('dialog fieldset input')?.value === 'Ada'")
	b.script("const k = document.querySelectorAll('dialog select')[1]; k.value = 'every'; " +
		"k.dispatchEvent(new Event('change', {bubbles: true}))")
	b.fill("#time", "6h")
	b.sees("every 6h: the next times are")
	b.click("dialog form button", "Change")
	b.sees("When every 6h")
	s, err := schedule.Get(t.Context(), w.engine, "often")
	if err != nil || s.Spec.Every != 6*time.Hour || s.Spec.Zone != "" || s.By.Why == "" ||
		string(s.Spec.Input) != `{"by":"Ada","cents":1,"urgent":false}` {
		t.Errorf("%+v (%s): %v", s.Spec, s.Spec.Input, err)
	}
}

// spec: B-17, R-40
func TestABackfillHasAPreview(t *testing.T) {
	w := begin(t, "")
	w.schedule("hourly", schedule.Spec{Every: 10 * time.Hour})
	b := browse(w)
	b.open("schedules/hourly")
	b.click("[aria-label=Actions] button", "Backfill")
	b.until("/^[23] of [23] times have not started a run/.test(" +
		"document.querySelector('#preview')?.innerText)")
	b.click("dialog form button", "Start")
	b.sees("backfilled, took")
	b.click("[aria-label=Actions] button", "Backfill")
	b.sees("times have started their runs")
	b.until("document.querySelector('dialog form button').disabled")
}
