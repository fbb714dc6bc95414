package alert_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/schedule"
)

// work returns a workflow that fails, or returns, as its input says.
func work(name string, opts ...perdure.WorkflowOption) *perdure.Workflow[bool, int] {
	return perdure.Define(name, func(ctx context.Context, fails bool) (int, error) {
		return perdure.Step(ctx, "work", func(context.Context) (int, error) {
			if fails {
				return 0, errors.New("the disk is full")
			}
			return 1, nil
		}, perdure.NoRetry)
	}, opts...)
}

var (
	bill, ship = work("bill"), work("ship")
	letters    = work("letters", deadletter.Automatic(true))
	wait       = perdure.Define("wait", waits)
	narrow     = perdure.Define("narrow", waits, limit.Control{Concurrency: 1})
)

func waits(ctx context.Context, _ int) (int, error) {
	return perdure.NewSignal[int]("go").Wait(ctx)
}

// A post office keeps the mails, by alert and address.
type office struct {
	mu    sync.Mutex
	mails []alert.Mail
	fails error // of the address bad@example.com
}

func (o *office) Mail(_ context.Context, m alert.Mail) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails != nil && m.Address == "bad@example.com" {
		return o.fails
	}
	if !slices.ContainsFunc(o.mails, func(x alert.Mail) bool { return x.ID == m.ID }) {
		o.mails = append(o.mails, m)
	}
	return nil
}

// texts returns the causes and texts of the mails that have come since the last call.
func (o *office) texts() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.mails {
		_, cause, _ := strings.Cut(m.Text, "Alert ")
		cause, _, _ = strings.Cut(cause, " ")
		all = append(all, cause+": "+strings.TrimPrefix(m.Subject, "perdure: "))
	}
	o.mails = nil
	return all
}

type bench struct {
	*world.World
	t    *testing.T
	post *office
}

func inTime(t *testing.T, test func(t *testing.T, b bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		post := &office{}
		w := world.New(t, bill, ship, letters, wait, narrow,
			alert.Workflow(alert.Options{Mail: post}))
		test(t, bench{w, t, post})
		if all := w.Seen(observe.DefinitionAdvised); len(all) > 0 {
			t.Errorf("%+v", all)
		}
		w.End()
	})
}

const ops = "mailto:ops@example.com"

func (b bench) set(workflow string, r alert.Rule) {
	b.t.Helper()
	if r.To == nil {
		r.To = []string{ops}
	}
	world.NoError(b.t, alert.Set(b.t.Context(), b.Engine, workflow, r, admin.Note{By: "ada"}))
	synctest.Wait()
}

// ends starts runs that fail (-) or succeed (+), one after the other.
func (b bench) ends(w *perdure.Workflow[bool, int], how string) {
	b.t.Helper()
	for _, c := range how {
		_, err := w.Start(b.t.Context(), b.Engine, c == '-')
		world.NoError(b.t, err)
		synctest.Wait()
	}
}

// hears fails the test unless these alerts have come, in any order.
func (b bench) hears(want ...string) {
	b.t.Helper()
	synctest.Wait()
	got := b.post.texts()
	slices.Sort(got)
	slices.Sort(want)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		b.t.Errorf("heard %q, want %q", got, want)
	}
}

// While no rule counts ends in a row, successes are not reported.
//
// spec: R-31
func TestACountInARowBeginsWhenARuleHasOne(t *testing.T) {
	inTime(t, func(_ *testing.T, b bench) {
		b.set("bill", alert.Rule{Times: 100, Within: time.Hour})
		b.ends(bill, "-+-+-+")
		b.set("bill", alert.Rule{Times: 100, Within: time.Hour, InARow: 3})
		b.ends(bill, "--")
		b.hears()
		b.ends(bill, "-")
		b.hears("ended: 3 runs of bill in a row have not succeeded")
	})
}

// An end is told when the run of alerts can take it, also after a restart. No start has its ID.
//
// spec: R-31
func TestNoEndIsLostWhileTheRunOfAlertsCannotBeStarted(t *testing.T) {
	for name, restarts := range map[string]bool{"": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, b bench) {
				const id = "perdure.alert"
				_, err := wait.Start(t.Context(), b.Engine, 0, perdure.ID(id))
				world.CodeIs(t, err, journal.CodeInvalid)
				b.set("bill", alert.Rule{Causes: []alert.Cause{alert.CauseEnded}})
				world.NoError(t, b.Engine.Cancel(t.Context(), id, ""))
				synctest.Wait()
				// an older build has started it
				_, err = b.Engine.Sealed().Runs.Start(t.Context(), kernel.Start{
					Workflow: "wait", ID: id, Input: []byte("0"), Pattern: journal.PatternWorkflow,
				})
				world.NoError(t, err)
				_, err = bill.Start(t.Context(), b.Engine, true, perdure.ID("b"))
				world.NoError(t, err)
				time.Sleep(time.Hour)
				b.hears()
				if restarts {
					b.End()
					b.DB = b.DB.Reopen()
					b.Begin()
				}
				world.NoError(t, b.Engine.Cancel(t.Context(), id, ""))
				time.Sleep(time.Minute)
				b.hears("ended: run b of bill has ended as FAILED")
			})
		})
	}
}

// The alerts come by a mailer of the test.
//
// spec: R-31, P-15
func TestEndsAlertAsTheThresholdsSay(t *testing.T) {
	row := func(n int) string {
		return fmt.Sprintf("ended: %d runs of bill in a row have not succeeded", n)
	}
	within := "ended: 3 runs of bill have not succeeded within 10m0s"
	for _, c := range []struct {
		name string
		rule alert.Rule
		how  string // a space is a pause of 5 minutes and a bit
		want []string
	}{
		{"in a row", alert.Rule{InARow: 3}, "--- -- -", []string{row(3), row(3)}},
		{"a success resets the count in a row", alert.Rule{InARow: 3}, "--+--+--", nil},
		{"in a time", alert.Rule{Times: 3, Within: 10 * time.Minute}, "-- +-", []string{within}},
		{"not in a time", alert.Rule{Times: 3, Within: 10 * time.Minute}, "- - - -", nil},
		{
			"the first threshold begins both anew",
			alert.Rule{InARow: 2, Times: 3, Within: 10 * time.Minute}, "--+-+-+-",
			[]string{row(2), within},
		},
		{
			"other statuses do not count",
			alert.Rule{InARow: 1, Statuses: []perdure.RunStatus{journal.TimedOut}}, "--", nil,
		},
		{
			"other causes are silent", alert.Rule{Causes: []alert.Cause{alert.CauseStalled}}, "--",
			nil,
		},
		{"a rule that is off is silent", alert.Rule{Off: true}, "--", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTime(t, func(_ *testing.T, b bench) {
				b.set(alert.Default, alert.Rule{})
				b.set("bill", c.rule)
				for _, part := range strings.SplitAfter(c.how, " ") {
					b.ends(bill, strings.TrimSpace(part))
					if strings.HasSuffix(part, " ") {
						time.Sleep(5*time.Minute + time.Second)
					}
				}
				b.hears(c.want...)
			})
		})
	}
}

// spec: R-31
func TestTheDefaultAlertsAtOnceForWorkflowsWithoutARule(t *testing.T) {
	inTime(t, func(t *testing.T, b bench) {
		b.ends(bill, "-") // no rule yet
		b.set(alert.Default, alert.Rule{})
		b.set("ship", alert.Rule{InARow: 2})
		_, err := bill.Start(t.Context(), b.Engine, true, perdure.ID("b1"))
		world.NoError(t, err)
		b.ends(bill, "+")
		b.ends(ship, "-")
		b.hears("ended: run b1 of bill has ended as FAILED")
		world.NoError(t, alert.Reset(t.Context(), b.Engine, alert.Default, admin.Note{}))
		synctest.Wait()
		b.ends(bill, "-")
		b.ends(ship, "-")
		b.hears("ended: 2 runs of ship in a row have not succeeded")
		all, err := alert.List(t.Context(), b.Engine)
		world.NoError(t, err)
		if len(all) != 1 || all[0].Workflow != "ship" || all[0].Rule.InARow != 2 ||
			all[0].Note.By != "ada" {
			t.Errorf("%+v", all)
		}
	})
}

// spec: R-31
func TestWithoutARuleNobodyCountsOrLooks(t *testing.T) {
	inTime(t, func(t *testing.T, b bench) {
		b.ends(bill, "--")
		time.Sleep(time.Hour)
		b.set("bill", alert.Rule{})
		world.NoError(t, alert.Reset(t.Context(), b.Engine, "bill", admin.Note{}))
		time.Sleep(time.Hour)
		before := len(b.History("perdure.alert"))
		b.ends(bill, "-")
		time.Sleep(24 * time.Hour)
		if after := len(b.History("perdure.alert")); after != before {
			t.Errorf("%d entries, and then %d", before, after)
		}
		b.hears()
	})
}

// spec: R-31
func TestARunThatStandsStillAlertsOnce(t *testing.T) {
	inTime(t, func(t *testing.T, b bench) {
		b.set(alert.Default, alert.Rule{
			Longest: 2 * time.Hour, LongestWait: 30 * time.Minute,
		})
		for _, id := range []string{"n1", "n2"} {
			_, err := narrow.Start(t.Context(), b.Engine, 0, perdure.ID(id))
			world.NoError(t, err)
		}
		_, err := wait.Start(t.Context(), b.Engine, 0, perdure.ID("w"))
		world.NoError(t, err)
		_, err = wait.Start(t.Context(), b.Engine, 0, perdure.ID("later"),
			schedule.At(time.Now().Add(10*time.Hour)))
		world.NoError(t, err)
		world.NoError(t, b.Engine.Suspend(t.Context(), "w", "ada looks"))
		b.ends(letters, "-")
		time.Sleep(90 * time.Second)
		b.post.mu.Lock()
		for _, m := range b.post.mails {
			if strings.Contains(m.Text, "stalled") && (!strings.Contains(m.Text, "\nw SUSPENDED") ||
				!strings.Contains(m.Text, "ada looks")) {
				t.Errorf("%+v", m)
			}
		}
		b.post.mu.Unlock()
		got := b.post.texts()
		if len(got) != 3 { // its end, its letter, the suspended run
			t.Errorf("heard %q", got)
		}
		time.Sleep(time.Hour)
		b.hears("waiting: 1 run of narrow has waited for a slot or an engine for too long")
		time.Sleep(time.Hour)
		b.hears("too-slow: 2 runs of narrow have been open for too long",
			"too-slow: 1 run of wait has been open for too long")
		time.Sleep(9 * time.Hour) // the delayed run has begun an hour ago
		b.hears()
		time.Sleep(2 * time.Hour)
		b.hears("too-slow: 1 run of wait has been open for too long")
		world.NoError(t, b.Engine.Resume(t.Context(), "w"))
		time.Sleep(2 * time.Minute)
		world.NoError(t, b.Engine.Suspend(t.Context(), "w", "once more"))
		time.Sleep(2 * time.Minute)
		b.hears("stalled: 1 run of wait has stalled")
	})
}

// spec: R-31
func TestARollbackThatHasStoppedAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := saga.New[int]("trip").ParkOnUndoError()
		saga.Add(s, "book", func(context.Context, int) (int, error) { return 1, nil }).
			Undo(func(context.Context, int, int) error {
				return perdure.Permanent(errors.New("the hotel is closed"))
			})
		saga.Add(s, "pay", func(context.Context, int) (int, error) {
			return 0, perdure.Permanent(errors.New("no money"))
		})
		post := &office{}
		w := world.New(t, s, alert.Workflow(alert.Options{Mail: post}))
		b := bench{w, t, post}
		b.set("trip", alert.Rule{Causes: []alert.Cause{alert.CauseEnded}})
		_, err := s.Start(t.Context(), w.Engine, 1, perdure.ID("t1"))
		world.NoError(t, err)
		time.Sleep(time.Hour)
		b.hears("ended: the rollback of run t1 of trip has stopped and is incomplete")
		w.End()
	})
}

// A timeout of the workflow, for which a run in line has a wake time, changes nothing.
//
// spec: R-31
func TestARunInLineThatHasATimeoutAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		post := &office{}
		line := perdure.Define("line", waits, limit.Control{Concurrency: 1},
			perdure.Timeout(24*time.Hour))
		w := world.New(t, line, alert.Workflow(alert.Options{Mail: post}))
		defer w.End()
		b := bench{w, t, post}
		b.set(alert.Default, alert.Rule{Longest: 2 * time.Hour, LongestWait: 30 * time.Minute})
		for _, id := range []string{"l1", "l2"} {
			_, err := line.Start(t.Context(), b.Engine, 0, perdure.ID(id))
			world.NoError(t, err)
		}
		_, err := line.Start(t.Context(), b.Engine, 0, schedule.At(time.Now().Add(8*time.Hour)))
		world.NoError(t, err)
		time.Sleep(time.Hour)
		b.hears("waiting: 1 run of line has waited for a slot or an engine for too long")
		time.Sleep(2 * time.Hour)
		b.hears("too-slow: 2 runs of line have been open for too long")
	})
}

// spec: R-31
func TestARunThatNoEngineHasAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		post := &office{}
		w := world.New(t, bill, alert.Workflow(alert.Options{Mail: post}))
		b := bench{w, t, post}
		b.set(alert.Default, alert.Rule{LongestWait: time.Hour})
		c, err := perdure.NewClient(t.Context(), w.DB)
		world.NoError(t, err)
		_, err = c.Start(t.Context(), "gone", []byte("1"), perdure.ID("g1"))
		world.NoError(t, err)
		time.Sleep(3 * time.Minute)
		b.hears("no-engine: 1 run of gone has been due for a minute, and no engine has the " +
			"workflow")
		time.Sleep(time.Hour)
		b.hears("waiting: 1 run of gone has waited for a slot or an engine for too long")
		time.Sleep(time.Hour)
		b.hears()
		w.End()
	})
}

// The node that looks does not have the workflow, and the one that has it is full.
//
// spec: R-31
func TestAWorkflowThatAnotherEngineHasIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		post := &office{}
		c := world.NewCluster(t, 1, alert.Workflow(alert.Options{Mail: post}))
		defer c.End()
		busy := perdure.Define("busy", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", time.Hour, nil))
		})
		full := c.Node(busy)
		full.Options.Capacity = 1
		full.Begin()
		b := bench{c.Nodes[0], t, post}
		b.set(alert.Default, alert.Rule{LongestWait: 2 * time.Minute})
		for range 2 {
			_, err := c.Nodes[0].Engine.Start(t.Context(), "busy", []byte("1"))
			world.NoError(t, err)
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		b.hears("waiting: 1 run of busy has waited for a slot or an engine for too long")
	})
}

// A recipient that cannot be reached is a dead letter of its own run. The run that the alert is
// about, the other recipients, and the alerts after it notice nothing.
//
// spec: R-31
func TestARecipientThatFailsTouchesNothing(t *testing.T) {
	inTime(t, func(t *testing.T, b bench) {
		b.post.fails = errors.New("the server is busy")
		b.set(alert.Default, alert.Rule{To: []string{
			"mailto:bad@example.com", ops, "https://hooks.example.com/x",
		}})
		run, err := bill.Start(t.Context(), b.Engine, true, perdure.ID("b1"))
		world.NoError(t, err)
		b.hears("ended: run b1 of bill has ended as FAILED")
		before := len(b.History(run.RunID()))
		time.Sleep(6 * time.Hour)
		b.ends(ship, "-")
		if got := b.post.texts(); len(got) != 1 {
			t.Errorf("%q", got)
		}
		time.Sleep(6 * time.Hour)
		if n := len(b.History(run.RunID())); n != before {
			t.Errorf("%d entries, and then %d", before, n)
		}
		open, _, err := admin.New(b.Engine).DeadLetters(t.Context(), admin.DeadLetterQuery{})
		world.NoError(t, err)
		var errs []string
		for _, l := range open {
			if l.Workflow != "perdure.alert-delivery" {
				t.Errorf("%+v", l)
			}
			errs = append(errs, l.Error)
		}
		all := strings.Join(errs, "\n")
		if len(open) != 4 || strings.Count(all, "the server is busy") != 2 ||
			strings.Count(all, "there is no secret to sign webhooks") != 2 {
			t.Errorf("%q", errs)
		}
		b.hears() // nobody is alerted about alerts
	})
}

// spec: R-31
func TestATestIsSentToEachRecipient(t *testing.T) {
	inTime(t, func(t *testing.T, b bench) {
		_, err := alert.Test(t.Context(), b.Engine, "bill")
		if journal.CodeOf(err) != journal.CodeNotFound {
			t.Error(err)
		}
		b.set("bill", alert.Rule{To: []string{ops, "mailto:night@example.com"}, Off: true})
		runs, err := alert.Test(t.Context(), b.Engine, "bill")
		world.NoError(t, err)
		b.hears("test: this is a test of the alerts for bill",
			"test: this is a test of the alerts for bill")
		for _, x := range runs {
			if s := b.Status(x.RunID); s != journal.Completed {
				t.Error(x, s)
			}
		}
	})
}

// An open ask reminds again and again, until somebody has decided.
//
// spec: R-21
func TestAnOpenApprovalReminds(t *testing.T) {
	asks := perdure.Define("asks", func(ctx context.Context, remind bool) (int, error) {
		a := approval.Ask{Key: "discount", Title: "30 % off", Role: "boss"}
		if remind {
			a.Remind = time.Hour
		}
		out, err := approval.Wait(ctx, a)
		return len(out.Decisions), err
	})
	synctest.Test(t, func(t *testing.T) {
		b := bench{t: t, post: &office{}}
		b.World = world.New(t, asks, alert.Workflow(alert.Options{Mail: b.post}))
		b.set(alert.Default, alert.Rule{})
		world.StartAndSettle(b.World, asks, false, perdure.ID("quiet"))
		world.StartAndSettle(b.World, asks, true, perdure.ID("a"))
		time.Sleep(59 * time.Minute)
		b.hears()
		for range 3 {
			time.Sleep(2 * time.Minute)
			b.hears("approval-due: 1 run of asks has asked for an approval, and nobody has decided")
			b.Crash()
			time.Sleep(58 * time.Minute)
			b.hears()
		}
		_, err := approval.Decide(t.Context(), b.Engine, "a", "discount", approval.Decision{
			Approved: true, By: "ada", Role: "boss",
		})
		world.NoError(t, err)
		time.Sleep(3 * time.Hour)
		b.hears()
		b.End()
	})
}
