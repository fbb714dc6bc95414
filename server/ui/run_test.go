package ui_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/approval/form"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
)

// forRuns returns workflows for the tests of the page of a run.
func forRuns() []perdure.Definition {
	return []perdure.Definition{flaky, asleep, puzzled, family, child, talker, carrier, discount}
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

// asleep waits for a timer. It reports whether somebody has ended the timer early.
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

var (
	verses = stream.New[string]("verses")
	counts = stream.New[int]("counts")
)

// coughs lets the first attempt of a talker that talks slowly end.
var coughs = make(chan struct{})

// talker has a step that logs and puts text into a stream, and is tried again once.
var talker = perdure.Define("talker", func(ctx context.Context, how string) (string, error) {
	word, err := perdure.Step(ctx, "talk", func(ctx context.Context) (string, error) {
		n, _, err := perdure.Attempt(ctx)
		if err != nil {
			return "", err
		}
		log := steplog.Logger(ctx)
		log.Info("attempt begins", "number", n)
		for _, word := range []string{"to be ", "or not"} {
			if err := verses.Append(ctx, word); err != nil {
				return "", err
			}
		}
		if n == 1 {
			log.Warn("lost the thread")
			if how == "slowly" {
				<-coughs
			}
			return "", errors.New("a cough")
		}
		return "said", counts.Append(ctx, n)
	}, perdure.Retry{Attempts: 2, First: time.Millisecond, Factor: 1})
	if err != nil {
		return "", err
	}
	last, err := ready.Wait(ctx)
	if err != nil {
		return "", err
	}
	return perdure.Step(ctx, "end", func(ctx context.Context) (string, error) {
		steplog.Logger(ctx).Error("it is over", "word", last)
		return word, verses.Append(ctx, last)
	})
}, steplog.Keep{})

// A Cargo has what a payload may have.
type Cargo struct {
	Lines  []map[string]string `json:"lines"`
	Blob   string              `json:"blob"`
	Secret string              `json:"secret"`
}

// carrier publishes a picture, which is no JSON.
var carrier = perdure.Define("carrier", func(ctx context.Context, p Cargo) (Cargo, error) {
	label := map[string][]byte{"base64": []byte("\x89PNG\r\n label")}
	return p, perdure.Publish(ctx, "label", label)
})

// discount asks for a decision with a form.
var discount = perdure.Define("discount", func(ctx context.Context, _ string) (string, error) {
	out, err := approval.Wait(ctx, approval.Ask{
		Key: "boss", Title: "30 % for order 1001", Role: "manager", Within: time.Hour,
		Form: form.Of(`{"type": "object", "required": ["percent"],
			"properties": {"percent": {"type": "integer", "title": "Percent", "minimum": 1}}}`),
	})
	if err != nil || len(out.Decisions) == 0 {
		return "", err
	}
	return string(out.Status) + " " + string(out.Decisions[0].Data), nil
})

// Each attempt of a step is told, with its error, its engine and the time of the next one.
//
// spec: B-17
func TestEachAttemptIsTold(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("runs/" + w.finish("flaky", "f1", false))
	b.until("document.querySelectorAll('[aria-label=\"Each attempt\"] li').length === 3")
	b.sees("fetch #1 failed: connection reset by the bank engine 1")
	b.sees("fetch #3 done engine 1")
	b.click("[aria-label='Each attempt'] button", "#2")
	b.sees("fetch, attempt 2")
	b.sees("Next attempt")
	b.click("label", "failed")
	b.until("document.querySelectorAll('[aria-label=\"Each attempt\"] li').length === 2")
	b.until("location.search === '?attempts=failed'")

	b.open("runs/" + w.start("flaky", "f2", true))
	b.sees("; next in 59 min")
	w.finish("order", "o1", "DE")
	b.open("runs/o1")
	b.click("[aria-label='Steps and waits'] button", "charge")
	b.until("location.search === '?step=charge'")
	b.until("document.querySelectorAll('[aria-label=\"Each attempt\"] li').length === 1")
	b.click("button", "show all steps")
	b.sees("none has failed")
	b.click("button", "show all")
	b.until("document.querySelectorAll('[aria-label=\"Each attempt\"] li').length === 3")
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

// What steps log is shown while it comes, and can be filtered.
//
// spec: B-17
func TestLogLinesOfARun(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("runs/" + w.start("talker", "t1", ""))
	b.until("document.querySelectorAll('[aria-label=\"Log lines\"] li').length === 3")
	b.sees("WARN lost the thread talk #1")
	w.send("t1", "adieu")
	b.sees(`ERROR it is over {"word":"adieu"} end #1`)
	b.choose("[aria-label=Level]", "WARN")
	b.until("document.querySelectorAll('[aria-label=\"Log lines\"] li').length === 2")
	b.choose("[aria-label=Step]", "end")
	b.until("document.querySelectorAll('[aria-label=\"Log lines\"] li').length === 1")
	b.until("location.search === '?level=WARN&step=end'")
	b.click("[aria-label='Log lines'] button", "it is over")
	b.sees("Attributes")
}

// A stream is shown while it comes. What an attempt has put in that does not count is marked.
//
// spec: B-17
func TestStreamsOfARun(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("runs/" + w.start("talker", "t1", "slowly"))
	b.sees("to be or not")
	b.sees("It goes on.")
	coughs <- struct{}{}
	b.click("section button", "verses, ")
	b.sees("attempt 1, 2 chunks replaced: the step was tried again")
	b.sees("It goes on.")
	w.send("t1", "adieu")
	b.sees("adieu")
	b.sees("The stream has ended.")
	b.click("section button", "counts, ")
	b.until("document.querySelector('[aria-label=\"Chunks of attempt 2\"] code').innerText === '2'")
	b.until("location.search === '?stream=counts'")
}

// A payload can be searched, and a path in it copied. What is large is drawn on request.
//
// spec: B-17
func TestAPayloadIsInspected(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	run := w.finish("carrier", "c1", Cargo{
		Lines: []map[string]string{{"a name": strings.Repeat("x", 300)}, {"sku": "tea"}},
		Blob:  strings.Repeat("y", 70_000), Secret: "[redacted]",
	})
	b.open("runs/" + run)
	b.sees("PNG image")
	b.sees("89 50 4e 47")
	b.click("section[aria-label=Input] button", "Show all")
	b.sees("hidden from you")
	b.fill("section[aria-label=Input] input", "TEA")
	b.until("!document.querySelector('section[aria-label=Input]').innerText.includes('yyy')")
	b.click("section[aria-label=Input] button", "sku")
	b.sees("$.lines[1].sku copy path copy value")
}

// Whoever has a link makes its decision without a login, and sees nothing else.
//
// spec: R-21, B-17
func TestADecisionBehindALink(t *testing.T) {
	_, hash := auth.NewToken()
	w := begin(t, "/ops", auth.Credential{Name: "oona", Role: auth.Operator, Hash: hash})
	b := browse(w, "status of 401")
	link := func(run string, d approval.Decision) string {
		t.Helper()
		text, err := approval.Token(t.Context(), w.engine, run, "boss", d, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return "decide#" + text
	}
	run := w.start("discount", "d1", "")
	for asks := []approval.Pending(nil); len(asks) == 0; {
		var err error
		asks, _, err = approval.List(t.Context(), w.engine, approval.Query{ID: run})
		if err != nil {
			t.Fatal(err)
		}
	}
	yes := link(run, approval.Decision{Approved: true, By: "gina", Role: "manager"})
	no := link(run, approval.Decision{By: "bob", Role: "manager"})
	b.size(320, 640)
	b.open(yes + "x")
	b.sees("This link is not valid.")
	b.open("decide")
	b.sees("Which decision?")
	b.open(yes)
	b.sees("30 % for order 1001")
	b.sees("You decide as gina, in the role manager: approve.")
	if n := b.number("document.documentElement.scrollWidth"); n > 320 {
		t.Errorf("%d pixels wide on a screen of 320", n)
	}
	b.until("!document.querySelector('nav')")
	b.fill("input[type=number]", "30")
	b.fill("input[maxlength='1000']", "it is fair")
	b.script("window.real = window.fetch; window.fetch = (at, o) => { " +
		"window.sent = o?.body; return window.real(at, o) }")
	b.click("form button", "Approve")
	b.until("window.sent.includes('it is fair')")
	b.sees("You have approved it, as gina. With it, the request is approved.")
	b.do(chromedp.Reload())
	b.sees("You have decided this already.")
	b.open(no)
	b.sees("This is over.")
	one, err := w.engine.Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := one.Result(t.Context()); err != nil ||
		string(out) != `"approved {\"percent\":30}"` {
		t.Errorf("%s, %v", out, err)
	}
	b.open("")
	b.sees("This server wants to know who you are")
}

// A page that is open and that nobody uses keeps no session alive.
//
// spec: B-18
func TestAnOpenPageIsNoSignOfAPerson(t *testing.T) {
	w := begin(t, "")
	asked := make(chan bool, 1000)
	inner := w.http.Handler
	w.http.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/executions/w1") {
			asked <- r.Header.Get("Perdure-Unattended") == ""
		}
		inner.ServeHTTP(rw, r)
	})
	run := w.start("waiting", "w1", "")
	b := browse(w)
	b.open("runs/w1")
	b.sees("It waits for signal ready")
	for len(asked) > 0 {
		<-asked
	}
	w.start("waiting", "w2", "") // the page hears of it, and of the next ones
	if err := w.engine.Cancel(t.Context(), run, "a test"); err != nil {
		t.Fatal(err)
	}
	b.sees("cancelled")
	if <-asked {
		t.Error("the page says that somebody is there")
	}
}

// choose chooses an option of the list that a selector selects.
func (b *browser) choose(selector, option string) {
	b.t.Helper()
	find := "document.querySelector(" + strconv.Quote(selector) + ")"
	b.until("[..." + find + ".options].some(o => o.value === " + strconv.Quote(option) + ")")
	b.script("{ const s = " + find + "; s.value = " + strconv.Quote(option) +
		"; s.dispatchEvent(new Event('change', {bubbles: true})) }")
}
