package ui_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// forRuns returns workflows for the tests of the page of a run.
func forRuns() []perdure.Definition {
	return []perdure.Definition{flaky, asleep, puzzled, family, child}
}

// flaky has a step whose first two attempts fail, and tries a third time at once or in an hour.
var flaky = perdure.Define("flaky", func(ctx context.Context, later bool) (string, error) {
	rest := perdure.Retry{Attempts: 3, First: time.Millisecond, Factor: 1}
	if later {
		rest.First = time.Hour
	}
	return perdure.Step(ctx, "fetch", func(ctx context.Context) (string, error) {
		n, _, err := perdure.Attempt(ctx)
		if err != nil || n == 3 {
			return "the page", err
		}
		return "", errors.New("connection reset by the bank")
	}, rest)
})

// asleep waits for a timer, and says whether somebody was in a hurry.
var asleep = perdure.Define("asleep", func(ctx context.Context, _ string) (string, error) {
	_, err := perdure.Timer(ctx, "cool-down", 24*time.Hour).Await(ctx)
	if errors.Is(err, &perdure.Error{Code: journal.CodeCancelled}) {
		return "somebody was in a hurry", nil
	}
	return "a day later", err
})

// puzzled asks an operator.
var puzzled = perdure.Define("puzzled", func(ctx context.Context, _ string) (string, error) {
	d, err := perdure.Park(ctx, "refund", "the bank is down", "again", "give up")
	return "an operator said " + d.Choice + " with " + string(d.Data), err
})

// child waits for a signal, as part of a family.
var child = perdure.Define("child", func(ctx context.Context, _ string) (string, error) {
	return ready.Wait(ctx)
})

// family is a workflow that waits for its child.
var family = perdure.Define("family", func(ctx context.Context, id string) (string, error) {
	return child.Child(ctx, "", perdure.ID(id)).Await(ctx)
})

// Each attempt of a step is told, with its error, its engine and the time of the next one.
//
// spec: B-17
func TestEachAttemptIsTold(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("runs/" + w.finish("flaky", "f1", false))
	b.until("document.querySelectorAll('[aria-label=Attempts] li').length === 3")
	b.sees("fetch #1 failed: connection reset by the bank engine 1")
	b.sees("fetch #3 done engine 1")
	b.click("[aria-label=Attempts] button", "#2")
	b.sees("fetch, attempt 2")
	b.sees("Next attempt")
	b.click("label", "failed")
	b.until("document.querySelectorAll('[aria-label=Attempts] li').length === 2")
	b.until("location.search === '?attempts=failed'")

	b.open("runs/" + w.start("flaky", "f2", true))
	b.sees("; next in 59 min")
	w.finish("order", "o1", "DE")
	b.open("runs/o1")
	b.click("[aria-label='Steps and waits'] button", "charge")
	b.until("location.search === '?step=charge'")
	b.until("document.querySelectorAll('[aria-label=Attempts] li').length === 1")
	b.click("button", "Show all steps")
	b.until("document.querySelectorAll('[aria-label=Attempts] li').length === 3")
}

// A timer can be ended, and a question answered, where the page shows them.
//
// spec: B-17
func TestTimersEndAndQuestionsAreAnswered(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("runs/" + w.start("asleep", "a1", ""))
	b.sees("timer cool-down")
	b.click("main li button", "End now")
	b.sees("The timer ends now, before its time")
	b.until("document.querySelector('dialog select').value === 'cool-down'")
	b.click("dialog form button", "End a timer")
	b.sees("somebody was in a hurry")
	b.click("[aria-label=Actions] button", "End a timer")
	b.sees("End a timer: the run has ended.")

	b.open("runs/" + w.start("puzzled", "p1", ""))
	b.sees("the bank is down")
	b.click("[aria-label=Actions] button:not([aria-disabled])", "Answer")
	b.choose("dialog label:nth-of-type(2) select", "give up")
	b.fill("dialog textarea", `{"cents": 5}`)
	b.click("dialog form button", "Answer")
	b.sees(`an operator said give up with {\"cents\":5}`)
}

// A run that has ended can go on with another input.
//
// spec: B-17
func TestARunGoesOnWithAnotherInput(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	w.finish("order", "o1", "XX")
	b.open("runs/o1")
	b.click("[aria-label=Actions] button:not([aria-disabled])", "Retry")
	b.click("dialog summary", "With another input")
	b.click("dialog button", "Edit that of this run")
	b.until(`document.querySelector('dialog textarea').value === '"XX"'`)
	b.fill("dialog textarea", `"DE"`)
	b.click("dialog form button.main", "Retry")
	b.sees("retry of")
	b.sees("with another input")
	b.sees("It has ended well.")
}

// The runs around a run are linked, and its children can be unfolded.
//
// spec: B-17
func TestTheFamilyOfARun(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("runs/" + w.start("family", "parent", "the-child"))
	b.click("section button", "its children")
	b.sees("waiting child the-child")
	b.click("section button", "Children of the-child")
	b.sees("It has started no other run.")
	w.send("the-child", "good")
	b.sees("completed child the-child")
	b.click("section li a", "the-child")
	b.sees("child of")
	b.click("section li a", "-")
	b.sees("its children")
}

// choose chooses an option of the list that a selector selects.
func (b *browser) choose(selector, option string) {
	b.t.Helper()
	find := "document.querySelector(" + strconv.Quote(selector) + ")"
	b.until("[..." + find + ".options].some(o => o.value === " + strconv.Quote(option) + ")")
	b.script("{ const s = " + find + "; s.value = " + strconv.Quote(option) +
		"; s.dispatchEvent(new Event('change', {bubbles: true})) }")
}
