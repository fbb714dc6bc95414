package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/approval/form"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/update"
)

const hour = time.Hour

// asking returns a workflow that asks, and returns the outcome as text.
func asking(a approval.Ask) *perdure.Workflow[int, string] {
	return perdure.Define("asking", func(ctx context.Context, _ int) (string, error) {
		out, err := approval.Wait(ctx, a)
		return textOf(out), err
	})
}

func textOf(out approval.Outcome) string {
	text := string(out.Status)
	for _, d := range out.Decisions {
		text += fmt.Sprintf(" %s:%v", d.By, d.Approved)
	}
	return text
}

// An office is a world with a run a that asks for key k.
type office struct {
	*world.World
	t  *testing.T
	wf *perdure.Workflow[int, string]
}

func inTime(t *testing.T, a approval.Ask, test func(d office)) {
	t.Helper()
	for name, idle := range world.IdleTimeouts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wf := asking(a)
				w := world.With(t, perdure.Options{IdleTimeout: idle}, wf)
				world.StartAndSettle(w, wf, 0, perdure.ID("a"))
				test(office{w, t, wf})
				w.End()
			})
		})
	}
}

func (d office) decide(by, role string, yes bool, data string,
	opts ...perdure.SendOption) (approval.Receipt, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	o := approval.Decision{Approved: yes, By: by, Role: role, Reason: "why " + by}
	if data != "" {
		o.Data = json.RawMessage(data)
	}
	return approval.Decide(ctx, d.Engine, "a", "k", o, opts...)
}

// refused checks that a decision is refused, and that the ask stays open.
func (d office) refused(code journal.Code, by, role string, yes bool, data string) {
	d.t.Helper()
	before := len(d.state().Decisions)
	_, err := d.decide(by, role, yes, data)
	world.CodeIs(d.t, err, code)
	if s := d.state(); s.Status != approval.Open || len(s.Decisions) != before {
		d.t.Errorf("%+v", s)
	}
}

func (d office) accepted(want, by, role string, yes bool, data string) {
	d.t.Helper()
	r, err := d.decide(by, role, yes, data)
	world.NoError(d.t, err)
	if r.String() != "k "+want {
		d.t.Errorf("%v, want %s", r, want)
	}
}

func (d office) state() approval.State {
	d.t.Helper()
	all, err := approval.States(d.t.Context(), d.Engine, "a")
	world.NoError(d.t, err)
	if len(all) != 1 {
		d.t.Fatalf("%+v", all)
	}
	return all[0]
}

func (d office) list(q approval.Query) (keys []string) {
	d.t.Helper()
	all, _, err := approval.List(d.t.Context(), d.Engine, q)
	world.NoError(d.t, err)
	for _, p := range all {
		keys = append(keys, p.WorkflowID+"/"+p.Key)
	}
	return keys
}

func (d office) returns(want string) {
	d.t.Helper()
	got, err := world.OutcomeOf(d.World, d.wf, "a")
	if err != nil || got != want {
		d.t.Errorf("%q, %v; want %q", got, err, want)
	}
	if all := d.list(approval.Query{}); len(all) > 0 {
		d.t.Errorf("still open: %v", all)
	}
	for _, name := range []string{"approval", "approval.remind"} {
		heads, _, err := d.Engine.List(d.t.Context(), perdure.Query{
			Attributes: map[string]string{name: "open"},
		})
		if err != nil || len(heads) > 0 {
			d.t.Errorf("still found: %v, %v", heads, err)
		}
	}
}

// spec: R-21
func TestADecisionNeedsTheRoleAndIsRecorded(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Title: "30 %", Role: "manager"}, func(d office) {
		began := time.Now().UTC()
		d.refused(journal.CodeUnauthorised, "ada", "", true, "")
		d.refused(journal.CodeUnauthorised, "ada", "clerk", true, "")
		d.refused(journal.CodeInvalid, "", "manager", true, "")
		time.Sleep(hour)
		d.accepted("is approved", "ada", "manager", true, `{"percent":30}`)
		d.returns("approved ada:true")
		s := d.state()
		if s.Status != approval.Approved || s.Title != "30 %" || !s.Asked.Equal(began) ||
			!s.Ended.Equal(began.Add(hour)) || len(s.Decisions) != 1 {
			d.t.Fatalf("%+v", s)
		}
		o := s.Decisions[0]
		if o.By != "ada" || o.Role != "manager" || o.Reason != "why ada" || !o.Approved ||
			string(o.Data) != `{"percent":30}` || !o.At.Equal(began.Add(hour)) ||
			o.Source != approval.Asserted {
			d.t.Errorf("%+v", o)
		}
		_, err := d.decide("bob", "manager", false, "")
		world.CodeIs(d.t, err, journal.CodeConflict)
		if !strings.Contains(err.Error(), `it is approved already, by "ada"`) {
			d.t.Error(err)
		}
	})
}

// spec: R-21
func TestARejectionRejects(t *testing.T) {
	inTime(t, approval.Ask{Key: "k"}, func(d office) {
		d.accepted("is rejected", "bob", "", false, "")
		d.returns("rejected bob:false")
		_, err := d.decide("ada", "", true, "")
		world.CodeIs(d.t, err, journal.CodeConflict)
	})
}

// spec: R-21
func TestADecisionAfterTheDeadlineIsRefused(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Within: hour}, func(d office) {
		due := time.Now().Add(hour)
		time.Sleep(hour)
		synctest.Wait()
		_, err := d.decide("ada", "", true, "")
		world.CodeIs(d.t, err, journal.CodeConflict)
		d.returns("expired")
		if s := d.state(); s.Status != approval.Expired || !s.Ended.Equal(due) {
			d.t.Errorf("%+v", s)
		}
	})
}

// While no engine runs the time goes on: who decides in time has decided, who is late has not.
//
// spec: R-21
func TestADecisionInTimeCountsHoweverLateItIsTaken(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			inTime(t, approval.Ask{Key: "k", Within: hour}, func(d office) {
				d.Kill()
				client, err := perdure.NewClient(t.Context(), d.DB)
				world.NoError(d.t, err)
				if late {
					time.Sleep(2 * hour)
				}
				got := make(chan error, 1)
				go func() {
					_, err := approval.Decide(context.Background(), client, "a", "k",
						approval.Decision{Approved: true, By: "ada"})
					got <- err
				}()
				time.Sleep(2 * hour)
				d.Begin()
				if err := <-got; late {
					world.CodeIs(d.t, err, journal.CodeConflict)
					d.returns("expired")
				} else {
					world.NoError(d.t, err)
					d.returns("approved ada:true")
				}
			})
		})
	}
}

// The run itself refuses what a sender has let through.
//
// spec: R-21
func TestTheRunJudgesEveryDecision(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Role: "manager", Within: hour, Quorum: 2}, func(d office) {
		ask := d.state().Ask
		send := func(text string) error {
			ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
			defer cancel()
			return sendRaw(ctx, d.Engine, "a", text)
		}
		late := time.Now().Add(2 * hour).UTC().Format(time.RFC3339)
		early := time.Now().Add(-2 * hour).UTC().Format(time.RFC3339)
		for text, code := range map[string]journal.Code{
			`5`:                             journal.CodeInvalid,
			`{}`:                            journal.CodeInvalid,
			`null`:                          journal.CodeInvalid,
			`{"by":"ada","role":"manager"}`: "invalid",
			`{"approved":1,"by":"ada","role":"manager"}`:                           "invalid",
			`{"approved":true,"role":"manager"}`:                                   "invalid",
			`{"approved":true,"by":"a\u0007","role":"manager"}`:                    "invalid",
			`{"approved":true,"by":"ada"}`:                                         "unauthorised",
			`{"approved":true,"by":"ada","role":"clerk"}`:                          "unauthorised",
			`{"approved":true,"by":"ada","role":"manager","ask":"another"}`:        "conflict",
			`{"approved":true,"by":"early","role":"manager","at":"` + early + `"}`: "",
		} {
			if err := send(text); journal.CodeOf(err) != code {
				d.t.Errorf("%s: %v", text, err)
			}
		}
		if err := send(`{"approved":true,"by":"early","role":"manager"}`); journal.CodeOf(
			err) != journal.CodeConflict {
			d.t.Error(err)
		}
		s := d.state()
		if len(s.Decisions) != 1 || s.Decisions[0].At.Before(s.Asked) {
			d.t.Errorf("%+v", s)
		}
		// a time to come is not believed
		world.NoError(d.t, send(`{"approved":true,"by":"late","role":"manager","ask":"`+ask+
			`","at":"`+late+`"}`))
		d.returns("approved early:true late:true")
	})
}

// sendRaw sends a decision with a payload that approval.Decide would not send.
func sendRaw(ctx context.Context, e *perdure.Engine, id, text string) error {
	return approval.SendRaw(ctx, e.Sealed(), id, "k", []byte(text))
}

// spec: R-21
func TestAPlainSignalIsNoDecision(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Role: "manager"}, func(d office) {
		yes := []byte(`{"approved":true,"by":"ada","role":"manager"}`)
		_, err := d.Engine.Send(d.t.Context(), "a", "Approve:k", yes)
		world.CodeIs(d.t, err, journal.CodeInvalid)
		sig := perdure.NewSignal[json.RawMessage]("Approve:k")
		_, err = sig.Send(d.t.Context(), d.Engine, "a", yes)
		world.CodeIs(d.t, err, journal.CodeInvalid)
		_, err = perdure.SendWithStart(d.t.Context(), d.Engine, sig, yes, d.wf, 0,
			perdure.ID("a"))
		world.CodeIs(d.t, err, journal.CodeInvalid)
		_, errs := sig.SendAll(d.t.Context(), d.Engine, []json.RawMessage{yes}, func(int) (string,
			[]perdure.SendOption) {
			return "a", nil
		})
		world.CodeIs(d.t, errs[0], journal.CodeInvalid)
		_, err = update.New[json.RawMessage, int]("Approve:k", nil).Send(d.t.Context(), d.Engine,
			"a", yes)
		world.CodeIs(d.t, err, journal.CodeInvalid)
		synctest.Wait()
		if s := d.state(); s.Status != approval.Open || d.Describe("a").Head.Mail != 0 {
			d.t.Errorf("%+v", s)
		}
		// one that got there all the same has no role
		approval.Smuggle(d.t.Context(), d.Engine.Sealed(), "a", "k", yes)
		synctest.Wait()
		if s := d.state(); s.Status != approval.Open {
			d.t.Errorf("%+v", s)
		}
		d.accepted("is approved", "ada", "manager", true, "")
		d.returns("approved ada:true")
	})
}

// Without a role, a message that got there decides: R-21 wants only "approved" in it.
//
// spec: R-21
func TestAMessageOfAnotherKindDecidesWithoutARole(t *testing.T) {
	inTime(t, approval.Ask{Key: "k"}, func(d office) {
		approval.Smuggle(d.t.Context(), d.Engine.Sealed(), "a", "k",
			[]byte(`{"approved":true,"reason":"fine","role":"king"}`))
		synctest.Wait()
		o := d.state().Decisions[0]
		if o.Source != approval.Message || o.Role != "" || o.Reason != "fine" {
			d.t.Errorf("%+v", o)
		}
		d.returns("approved :true")
	})
}

var errPercent = errors.New("percent is missing")

type percentForm struct{}

func (percentForm) Schema() json.RawMessage { return json.RawMessage(`{"required":["percent"]}`) }

// A panickyForm is a form whose schema nobody gets.
type panickyForm struct{ percentForm }

func (panickyForm) Schema() json.RawMessage { panic("schema") }

func (percentForm) Check(data json.RawMessage) error {
	var v struct{ Percent *int }
	switch err := json.Unmarshal(data, &v); {
	case err != nil:
		return err
	case v.Percent == nil:
		return errPercent
	case *v.Percent == 13:
		panic("13")
	}
	return nil
}

// spec: R-21
func TestDataThatDoesNotMatchTheFormIsRefused(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Form: percentForm{}}, func(d office) {
		if got := string(d.state().Form); got != `{"required":["percent"]}` {
			d.t.Error(got)
		}
		for _, data := range []string{"", "5", "{}", `{"percent":13}`} {
			d.refused(journal.CodeInvalid, "ada", "", true, data)
		}
		d.refused(journal.CodeInvalid, "ada", "", false, "{}")
		d.refused(journal.CodeInvalid, "ada", "", true, "{")
		d.accepted("is approved", "ada", "", true, `{"percent":5}`)
		d.returns("approved ada:true")
	})
	inTime(t, approval.Ask{Key: "k", Form: percentForm{}}, func(d office) {
		d.accepted("is rejected", "ada", "", false, "")
		d.returns("rejected ada:false")
	})
}

// spec: R-21
func TestAQuorumNeedsDifferentPeople(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Quorum: 2, Of: 3}, func(d office) {
		d.accepted("is open: 1 of 2 have approved", "ada", "", true, "")
		d.refused(journal.CodeConflict, "ada", "", true, "")
		d.refused(journal.CodeConflict, "ada", "", false, "")
		d.accepted("is open: 1 of 2 have approved", "bob", "", false, "")
		d.Crash()
		d.accepted("is approved", "cy", "", true, "")
		d.returns("approved ada:true bob:false cy:true")
	})
	inTime(t, approval.Ask{Key: "k", Quorum: 2, Of: 3}, func(d office) {
		d.accepted("is open: 0 of 2 have approved", "ada", "", false, "")
		d.accepted("is rejected", "bob", "", false, "")
		d.returns("rejected ada:false bob:false")
	})
	inTime(t, approval.Ask{Key: "k", Quorum: 2, Within: hour}, func(d office) {
		d.accepted("is open: 1 of 2 have approved", "ada", "", true, "")
		time.Sleep(2 * hour)
		d.returns("expired ada:true")
	})
	inTime(t, approval.Ask{Key: "k", Quorum: 2}, func(d office) {
		d.accepted("is open: 1 of 2 have approved", "ada", "", true, "")
		d.accepted("is rejected", "bob", "", false, "")
		d.returns("rejected ada:true bob:false")
	})
}

// spec: R-21
func TestAnEscalationLetsAnotherRoleDecide(t *testing.T) {
	a := approval.Ask{
		Key: "k", Role: "clerk", Within: 10 * hour, Quorum: 2, Escalate: []approval.Escalation{
			{After: 5 * hour, Role: "chief"}, {After: 2 * hour, Role: "boss"},
		},
	}
	inTime(t, a, func(d office) {
		same := func(what string, got, want any) {
			d.t.Helper()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				d.t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		d.refused(journal.CodeUnauthorised, "b", "boss", true, "")
		same("boss", d.list(approval.Query{Role: "boss"}), "[]")
		same("clerk", d.list(approval.Query{Role: "clerk"}), "[a/k]")
		time.Sleep(2 * hour)
		synctest.Wait()
		same("escalated", d.state().Escalated, 1)
		same("boss", d.list(approval.Query{Role: "boss"}), "[a/k]")
		d.refused(journal.CodeUnauthorised, "c", "chief", true, "")
		d.accepted("is open: 1 of 2 have approved", "b", "boss", true, "")
		d.Crash()
		time.Sleep(4 * hour)
		synctest.Wait()
		same("escalated", d.state().Escalated, 2)
		d.accepted("is approved", "c", "chief", true, "")
		d.returns("approved b:true c:true")
	})
}

// spec: R-21
func TestTheSameKeyIsTheSameDecision(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Quorum: 2}, func(d office) {
		for range 2 {
			r, err := d.decide("ada", "", true, "", perdure.SendKey("click"))
			if err != nil || r.Approved != 1 {
				d.t.Errorf("%+v, %v", r, err)
			}
		}
		for range 2 {
			r, err := d.decide("bob", "", true, "", perdure.SendKey("last"))
			if err != nil || r.Status != approval.Approved {
				d.t.Errorf("%+v, %v", r, err)
			}
			synctest.Wait()
		}
		_, err := d.decide("bob", "", true, "", perdure.SendKey("another"))
		world.CodeIs(d.t, err, journal.CodeConflict)
		d.returns("approved ada:true bob:true")
	})
}

// spec: R-21, L-10
func TestAnAskEndsWithItsRun(t *testing.T) {
	inTime(t, approval.Ask{Key: "k"}, func(d office) {
		world.NoError(d.t, d.Engine.Cancel(d.t.Context(), "a", "over"))
		synctest.Wait()
		_, err := d.decide("ada", "", true, "")
		world.CodeIs(d.t, err, journal.CodeNotFound)
		if all := d.list(approval.Query{}); len(all) > 0 {
			d.t.Errorf("%v", all)
		}
		if s := d.state(); s.Status != approval.Withdrawn {
			d.t.Errorf("%+v", s)
		}
	})
}

// While the run is suspended its ask is open, and a decision counts when it is resumed.
//
// spec: R-21, F-21
func TestADecisionForASuspendedRunCountsWhenItIsResumed(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Within: hour}, func(d office) {
		world.NoError(d.t, d.Engine.Suspend(d.t.Context(), "a", "lunch"))
		synctest.Wait()
		_, err := d.decide("ada", "", true, "")
		world.CodeIs(d.t, err, journal.CodeTimedOut)
		if all := d.list(approval.Query{}); len(all) != 1 {
			d.t.Errorf("%v", all)
		}
		time.Sleep(2 * hour)
		world.NoError(d.t, d.Engine.Resume(d.t.Context(), "a"))
		d.returns("approved ada:true")
	})
}

// A branch that is cancelled, or whose time is over, asks no longer.
//
// spec: R-21
func TestAnAskThatNobodyWaitsForIsWithdrawn(t *testing.T) {
	goOn := perdure.NewSignal[int]("go")
	for name, end := range map[string]func(ctx context.Context, f *perdure.Future[string]) error{
		"cancelled": func(ctx context.Context, f *perdure.Future[string]) error {
			_, err := f.Cancel(ctx, "another way")
			return err
		},
		"timeout": func(context.Context, *perdure.Future[string]) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				f := perdure.Go(ctx, "ask", func(ctx context.Context) (string, error) {
					if name == "timeout" {
						var cancel func()
						ctx, cancel = context.WithTimeout(ctx, hour)
						defer cancel()
					}
					out, err := approval.Wait(ctx, approval.Ask{Key: "k"})
					return textOf(out), err
				})
				if _, err := goOn.Wait(ctx); err != nil {
					return "", err
				}
				if err := end(ctx, f); err != nil {
					return "", err
				}
				_, err := goOn.Wait(ctx)
				return "", err
			})
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t, wf)
				d := office{w, t, wf}
				world.StartAndSettle(w, wf, 0, perdure.ID("a"))
				if all := d.list(approval.Query{}); len(all) != 1 {
					t.Errorf("%v", all)
				}
				time.Sleep(2 * hour)
				_, err := goOn.Send(t.Context(), w.Engine, "a", 1)
				world.NoError(t, err)
				synctest.Wait()
				if all := d.list(approval.Query{}); len(all) > 0 {
					t.Errorf("%v", all)
				}
				if s := d.state(); s.Status != approval.Withdrawn {
					t.Errorf("%+v", s)
				}
				var s approval.State // as it is published: the end of a branch publishes nothing
				data := w.Describe("a").State.Published["approval:k"].Data
				world.NoError(t, json.Unmarshal(data, &s))
				if name == "timeout" && s.Status != approval.Withdrawn {
					t.Errorf("%+v", s)
				}
				_, err = d.decide("ada", "", true, "")
				world.CodeIs(t, err, journal.CodeConflict)
				w.End()
			})
		})
	}
}

// A decision about one ask is none about the next one of the same key: not in the same run, and not
// in a run that continues it.
//
// spec
func TestADecisionIsAboutOneAsk(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, left int) (string, error) {
		out, err := approval.Wait(ctx, approval.Ask{Key: "k", Within: hour})
		if err != nil || left == 0 {
			return textOf(out), err
		}
		if left == 1 {
			out, err = approval.Wait(ctx, approval.Ask{Key: "k", Within: hour})
			return textOf(out), err
		}
		return "", perdure.ContinueAsNew(ctx, left-1)
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		d := office{w, t, wf}
		world.StartAndSettle(w, wf, 2, perdure.ID("a"))
		for range 2 {
			ask := d.state().Ask
			time.Sleep(hour)
			synctest.Wait()
			err := sendRaw(t.Context(), w.Engine, "a", `{"approved":true,"by":"ada","ask":"`+ask+
				`"}`)
			world.CodeIs(t, err, journal.CodeConflict)
			if s := d.state(); s.Status != approval.Open || s.Ask == ask {
				t.Errorf("%+v", s)
			}
		}
		d.accepted("is approved", "ada", "", true, "")
		d.returns("approved ada:true")
		w.End()
	})
}

// spec: R-21
func TestOpenAsksAreListedByRoleAndAge(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, n int) (string, error) {
		for _, key := range []string{"x", "y"} {
			perdure.Go(ctx, key, func(ctx context.Context) (string, error) {
				a := approval.Ask{Key: key, Role: fmt.Sprint("r", n%2)}
				if key == "y" {
					a.Remind = hour
				}
				out, err := approval.Wait(ctx, a)
				return textOf(out), err
			})
		}
		_, err := perdure.NewSignal[int]("go").Wait(ctx)
		return "", err
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		d := office{w, t, wf}
		for i := range 4 {
			world.StartAndSettle(w, wf, i, perdure.ID(fmt.Sprint("w", i)))
			time.Sleep(hour)
		}
		got := d.list(approval.Query{Role: "r1"})
		if want := []string{"w1/x", "w1/y", "w3/x", "w3/y"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		all, next, err := approval.List(t.Context(), w.Engine, approval.Query{Limit: 3})
		if err != nil || next.IsZero() || len(all) != 3 ||
			all[0].Age != 4*hour || all[2].Age != 3*hour {
			t.Errorf("%+v, %v, %v", all, next, err)
		}
		_, err = approval.Decide(t.Context(), w.Engine, "w2", "x", approval.Decision{
			Approved: true, By: "ada", Role: "r0",
		})
		world.NoError(t, err)
		synctest.Wait()
		if got := d.list(approval.Query{ID: "w2"}); !slices.Equal(got, []string{"w2/y"}) {
			t.Errorf("%v", got)
		}
		reminding := func() string {
			heads, _, err := w.Engine.List(t.Context(), perdure.Query{
				Attributes: map[string]string{"approval.remind": "open"},
			})
			world.NoError(t, err)
			return fmt.Sprint(len(heads), d.list(approval.Query{Reminds: true}))
		}
		if got := reminding(); got != "4 [w0/y w1/y w2/y w3/y]" {
			t.Errorf("%v", got)
		}
		for _, key := range []string{"x", "y"} {
			_, err = approval.Decide(t.Context(), w.Engine, "w3", key, approval.Decision{
				Approved: true, By: "ada", Role: "r1",
			})
			world.NoError(t, err)
			synctest.Wait()
			want := map[string]string{
				"x": "4 [w0/y w1/y w2/y w3/y]", "y": "3 [w0/y w1/y w2/y]",
			}
			if got := reminding(); got != want[key] {
				t.Errorf("%v, want %v", got, want[key])
			}
		}
		_, err = approval.Decide(t.Context(), w.Engine, "w2", "z", approval.Decision{By: "ada"})
		world.CodeIs(t, err, journal.CodeNotFound)
		if e := new(perdure.Error); !errors.As(err, &e) || e.Hint != "it asks for y" {
			t.Error(err)
		}
		_, _, err = approval.List(t.Context(), w.Engine, approval.Query{Limit: -1})
		world.CodeIs(t, err, journal.CodeInvalid)
		w.End()
	})
}

// The pages of a list are the list, whatever is asked and decided between two of them.
//
// spec: R-21, P-10
func TestTheListOfAsksHasPages(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		perdure.Go(ctx, "y", func(ctx context.Context) (string, error) {
			out, err := approval.Wait(ctx, approval.Ask{Key: "y", Role: "clerk"})
			return textOf(out), err
		})
		out, err := approval.Wait(ctx, approval.Ask{Key: "x", Role: "boss"})
		return textOf(out), err
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		for i := range 4 {
			world.StartAndSettle(w, wf, i, perdure.ID(fmt.Sprint("w", i)))
			if i%2 == 1 { // two of each time
				time.Sleep(hour)
			}
		}
		q := approval.Query{Role: "boss", Limit: 1}
		var got []string
		for page := 0; ; page++ {
			all, next, err := approval.List(t.Context(), w.Engine, q)
			world.NoError(t, err)
			for _, p := range all {
				got = append(got, p.WorkflowID)
			}
			if next.IsZero() {
				break
			}
			q.After, err = approval.ParseCursor(next.String())
			world.NoError(t, err)
			switch page {
			case 0: // the cursor is of an ask that is over
				_, err = approval.Decide(t.Context(), w.Engine, all[0].RunID, "x",
					approval.Decision{By: "ada", Role: "boss"})
				world.NoError(t, err)
			case 1:
				world.StartAndSettle(w, wf, 4, perdure.ID("w4"))
			}
			synctest.Wait()
		}
		if want := []string{"w0", "w1", "w2", "w3", "w4"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		for _, text := range []string{"x", "//", "2000-01-01T00:00:00Z/r", " "} {
			_, err := approval.ParseCursor(text)
			world.CodeIs(t, err, journal.CodeInvalid)
		}
		w.End()
	})
}

// spec: R-21
func TestAnAskThatIsNotValidIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a approval.Ask
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, err := approval.Wait(ctx, a)
			return 0, err
		})
		w := world.New(t, wf)
		for _, a = range []approval.Ask{
			{}, {Key: "a b"}, {Key: strings.Repeat("x", 250)}, {Key: "k", Role: " x"},
			{Key: "k", Within: -1}, {Key: "k", Quorum: -1}, {Key: "k", Quorum: 3, Of: 2},
			{Key: "k", Remind: time.Second}, {Key: "k", Until: time.Unix(1<<50, 0)},
			{Key: "k", Form: form.Of("{")}, {Key: "k", Title: "\xff"}, {Key: "k", Role: "\n"},
			{Key: "k", Escalate: []approval.Escalation{{hour, "x"}}},
			{Key: "k", Role: "r", Escalate: []approval.Escalation{{0, "x"}}},
			{Key: "k", Role: "r", Escalate: []approval.Escalation{{hour, ""}}},
		} {
			_, _, err := world.Result(w, wf, 0)
			world.CodeIs(t, err, journal.CodeInvalid)
		}
		w.End()
		_, err := approval.Decide(t.Context(), (*perdure.Client)(nil), "a", "k",
			approval.Decision{By: "ada"})
		world.CodeIs(t, err, journal.CodeInvalid)
	})
}

// spec: R-21
func TestADecisionIsRefusedInWorkflowCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world.World
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, err := approval.Decide(ctx, w.Engine, "nobody", "k", approval.Decision{By: "ada"})
			return 0, err
		})
		w = world.New(t, wf)
		_, _, err := world.Result(w, wf, 0)
		world.CodeIs(t, err, journal.CodeMisuse)
		_, err = approval.Decide(t.Context(), w.Engine.In(nil), "nobody", "k",
			approval.Decision{By: "ada"})
		world.CodeIs(t, err, journal.CodeMisuse)
		w.End()
	})
}

// spec: R-21
func TestOneAskOfAKeyIsOpenAtATime(t *testing.T) {
	for name, idle := range world.IdleTimeouts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ask := approval.Ask{Key: "k", Role: "boss"}
				wf := perdure.Define("asking", func(ctx context.Context, _ int) (string, error) {
					beside := func(ctx context.Context) (string, error) {
						out, err := approval.Wait(ctx, ask)
						return textOf(out), err
					}
					given := perdure.Go(ctx, "given", beside)
					if err := perdure.Sleep(ctx, time.Minute); err != nil {
						return "", err
					}
					if _, err := given.Cancel(ctx, "enough"); err != nil {
						return "", err
					}
					first := perdure.Go(ctx, "first", beside)
					second := perdure.Go(ctx, "second", beside)
					_, err := second.Await(ctx)
					out, e := first.Await(ctx)
					return fmt.Sprint(out, ", ", journal.CodeOf(err)), e
				})
				w := world.With(t, perdure.Options{IdleTimeout: idle}, wf)
				run := world.StartAndSettle(w, wf, 0, perdure.ID("a"))
				time.Sleep(2 * time.Minute)
				d := office{w, t, wf}
				if r, err := d.decide("ann", "boss", true, ""); err != nil ||
					r.Status != approval.Approved {
					t.Errorf("the decision is %v, %v", r, err)
				}
				if out, err := run.Result(t.Context()); err != nil ||
					out != "approved ann:true, conflict" {
					t.Errorf("%q, %v", out, err)
				}
				w.End()
			})
		})
	}
}

// spec: R-21
func TestAFormWithoutASchemaStillChecks(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Form: panickyForm{}}, func(d office) {
		if got := d.state().Form; got != nil {
			d.t.Errorf("the schema is %s", got)
		}
		d.refused(journal.CodeInvalid, "ann", "", true, `{"percent":13}`)
		d.accepted("is approved", "ann", "", true, `{"percent":1}`)
	})
}

// spec: R-21
func TestACancelledAskMakesRoomThoughItsDecisionHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := perdure.NewSignal[int]("go")
		ask := approval.Ask{Key: "k", Within: hour}
		wf := perdure.Define("asking", func(ctx context.Context, _ int) (string, error) {
			given := perdure.Go(ctx, "given", func(ctx context.Context) (string, error) {
				out, err := approval.Wait(ctx, ask)
				return textOf(out), err
			})
			if _, err := goOn.Wait(ctx); err != nil {
				return "", err
			}
			if _, err := given.Cancel(ctx, "enough"); err != nil {
				return "", err
			}
			out, err := approval.Wait(ctx, ask)
			return textOf(out), err
		})
		w := world.New(t, wf)
		run := world.StartAndSettle(w, wf, 0, perdure.ID("a"))
		if err := w.Engine.Suspend(t.Context(), "a", "so that both come at once"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := goOn.Send(t.Context(), w.Engine, "a", 1); err != nil {
			t.Fatal(err)
		}
		d := office{w, t, wf}
		go func() {
			_, err := d.decide("ann", "", true, "")
			world.CodeIs(t, err, journal.CodeConflict)
		}()
		synctest.Wait()
		if err := w.Engine.Resume(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(t.Context()); err != nil || out != "expired" {
			t.Errorf("%q, %v", out, err)
		}
		w.End()
	})
}

// A retry asks anew. The decision about the ask before does not count for it, and its sender still
// has the receipt.
//
// spec: P-4, R-21
func TestADecisionDoesNotCountForTheAskOfARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := true
		wf := perdure.Define("asking", func(ctx context.Context, _ int) (string, error) {
			_, err := perdure.Step(ctx, "charge", func(context.Context) (int, error) {
				if bad {
					return 0, errPercent
				}
				return 1, nil
			}, perdure.NoRetry)
			out, e := approval.Wait(ctx, approval.Ask{Key: "k"})
			return textOf(out), errors.Join(e, err)
		})
		w := world.New(t, wf)
		run := world.StartAndSettle(w, wf, 0, perdure.ID("a"))
		d := office{w, t, wf}
		first, err := d.decide("ann", "", true, "", perdure.SendKey("q"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err == nil {
			t.Fatal("it has not failed")
		}
		bad = false
		time.Sleep(time.Second)
		again, err := w.Engine.Retry(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := d.state(); s.Status != approval.Open || len(s.Decisions) > 0 {
			t.Errorf("the new ask is %+v", s)
		}
		same, err := d.decide("ann", "", true, "", perdure.SendKey("q"))
		if err != nil || same != first {
			t.Errorf("the same message has the receipt %v, %v", same, err)
		}
		d.accepted("is approved", "bob", "", true, "")
		if out, err := again.Result(t.Context()); string(out) != `"approved bob:true"` || err != nil {
			t.Errorf("%s, %v", out, err)
		}
		w.End()
	})
}
