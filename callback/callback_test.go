package callback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/token"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// A Receipt is the answer of a bank.
type Receipt struct{ Number int }

// An order is the input of the workflows of these tests.
type order struct {
	ID    string
	Limit time.Duration // of the wait; 0 for none
	Late  time.Duration // how long the code does something else before it awaits the answer
	Naps  int           // how often it sleeps before the wait begins
}

// A bank keeps the tokens that it is given, and can answer later.
type bank struct {
	mu     sync.Mutex
	tokens map[string]string // by the ID of the order
}

func (b *bank) asked(id, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens == nil {
		b.tokens = map[string]string{}
	}
	b.tokens[id] = token
}

// token returns the token of an order; it is empty before the bank has one.
func (b *bank) token(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokens[id]
}

// payment is a workflow that asks the bank and waits for its answer.
func payment(now func() *bank) *perdure.Workflow[order, Receipt] {
	return perdure.Define("payment", func(ctx context.Context, o order) (Receipt, error) {
		for range o.Naps {
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return Receipt{}, err
			}
		}
		var limit []perdure.WaitOption
		if o.Limit > 0 {
			limit = append(limit, perdure.Within(o.Limit))
		}
		w, err := callback.New[Receipt](ctx, "card", limit...)
		if err != nil {
			return Receipt{}, err
		}
		err = perdure.Do(ctx, "ask", func(ctx context.Context) error {
			text, err := w.Token(ctx)
			if err == nil {
				now().asked(o.ID, text)
			}
			return err
		})
		if err != nil {
			return Receipt{}, err
		}
		if o.Late > 0 {
			if err := perdure.Sleep(ctx, o.Late); err != nil {
				return Receipt{}, err
			}
		}
		return w.Await(ctx)
	})
}

// withBank runs a test with the workflow payment and a bank.
func withBank(t *testing.T, test func(env *perduretest.Env, b *bank,
	w *perdure.Workflow[order, Receipt])) {
	t.Helper()
	b := &bank{}
	w := payment(func() *bank { return b })
	perduretest.Test(t, func(env *perduretest.Env) { test(env, b, w) }, w)
}

// is fails the test unless err is of that kind and has that code.
func is(t testing.TB, err, want error, code journal.Code) {
	t.Helper()
	if !errors.Is(err, want) || journal.CodeOf(err) != code {
		t.Errorf("error %v of code %s, want %v of code %s", err, journal.CodeOf(err), want, code)
	}
}

// no fails the test if there is an error.
func no(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// recorded returns what the store has of a run: its journal and its inbox.
func recorded(env *perduretest.Env, id string) string {
	env.Helper()
	env.Settle()
	entries, err := env.Engine().History(env.Context(), id, 0, 0)
	if err != nil {
		env.Fatal(err)
	}
	inbox, err := env.Engine().Sealed().FrontEnd.Unread(env.Context(), id, 0, 0)
	if err != nil {
		env.Fatal(err)
	}
	return fmt.Sprintf("%d entries, %d messages", len(entries), len(inbox))
}

// unchanged calls a function and fails the test if it records something.
func unchanged(env *perduretest.Env, id string, call func()) {
	env.Helper()
	before := recorded(env, id)
	call()
	if after := recorded(env, id); after != before {
		env.Errorf("%s has %s, had %s", id, after, before)
	}
}

// spec: B-23
func TestTheHolderOfATokenAnswers(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx := env.Context()
		run := perduretest.Start(env, w, order{ID: "o", Limit: time.Hour})
		env.Settle()
		run.Is(journal.Waiting)
		got, err := callback.Get(ctx, env.Engine(), b.token("o"))
		no(t, err)
		want := callback.Callback{
			RunID: run.RunID(), Path: "card", Open: true, Due: time.Now().Add(time.Hour),
		}
		if !got.Due.Equal(want.Due) {
			t.Errorf("due %v, want %v", got.Due, want.Due)
		}
		if got.Due = want.Due; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		no(t, callback.Succeed(ctx, env.Engine(), b.token("o"), Receipt{7}))
		run.Returns(Receipt{7})
		run.Unread()
		entries, err := env.Engine().History(ctx, run.RunID(), 0, 0)
		no(t, err)
		for _, e := range entries {
			if strings.Contains(string(e.Data)+e.Op.Key, b.token("o")) {
				t.Errorf("entry %d has the token", e.Seq)
			}
		}
	})
}

// spec: B-23
func TestTheHolderOfATokenFailsTheWait(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		run := perduretest.Start(env, w, order{ID: "o"})
		env.Settle()
		no(t, callback.Fail(env.Context(), env.Engine(), b.token("o"), "no money"))
		run.Fails(callback.ErrFailed)
		_, err := run.Result()
		is(t, err, callback.ErrFailed, journal.CodeFailed)
		if err == nil || !strings.Contains(err.Error(), "no money") {
			t.Errorf("the reason is not in %v", err)
		}
	})
}

// Only what this database has signed for this purpose and for this very wait is taken.
//
// spec: B-23
func TestATokenIsForOneWaitOfOneRun(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx, eng := env.Context(), env.Engine()
		one := perduretest.Start(env, w, order{ID: "one"})
		other := perduretest.Start(env, w, order{ID: "other"})
		env.Settle()
		f := eng.Sealed().FrontEnd
		made := func(c token.Claims) string {
			text, err := token.Make(ctx, f, c)
			no(t, err)
			return text
		}
		claims, err := token.Check(ctx, f, "callback", b.token("one"))
		no(t, err)
		approval, missing, gone := claims, claims, claims
		approval.Purpose, gone.Run = "approval", "no-such-run"
		missing.Subject = "cash"
		unchanged(env, one.RunID(), func() {
			for _, c := range []struct {
				text string
				want error
				code journal.Code
			}{
				{"", callback.ErrMalformed, journal.CodeInvalid},
				{b.token("one") + "x", callback.ErrMalformed, journal.CodeInvalid},
				{token.Sign(token.NewKey(), claims), callback.ErrForged, journal.CodeInvalid},
				{made(approval), callback.ErrPurpose, journal.CodeInvalid},
				{made(missing), callback.ErrEnded, journal.CodeWrongState},
				{made(gone), nil, journal.CodeNotFound},
			} {
				for _, call := range []func() error{
					func() error { return callback.Succeed(ctx, eng, c.text, Receipt{1}) },
					func() error { return callback.Fail(ctx, eng, c.text, "x") },
					func() error { return callback.Heartbeat(ctx, eng, c.text, time.Hour) },
				} {
					if err := call(); journal.CodeOf(err) != c.code ||
						c.want != nil && !errors.Is(err, c.want) {
						t.Errorf("%v of code %s, want %v", err, journal.CodeOf(err), c.want)
					}
				}
			}
		})
		no(t, callback.Succeed(ctx, eng, b.token("other"), Receipt{2}))
		other.Returns(Receipt{2})
		one.Is(journal.Waiting)
		no(t, callback.Succeed(ctx, eng, b.token("one"), Receipt{1}))
		one.Returns(Receipt{1})
	})
}

// Several waits of one run, of one name and of others, in loops, branches and scopes, each get
// their own answer, in whichever order the answers come.
//
// spec: B-23
func TestEachWaitOfARunHasItsOwnToken(t *testing.T) {
	var b bank
	one := func(ctx context.Context, name string, key int) *perdure.Future[int] {
		return perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
			w, err := callback.New[int](ctx, name, perdure.Key(fmt.Sprint("k", key%2)))
			if err != nil {
				return 0, err
			}
			if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
				text, err := w.Token(ctx)
				b.asked(fmt.Sprint(key), text)
				return err
			}); err != nil {
				return 0, err
			}
			return w.Await(ctx)
		}, perdure.Key(fmt.Sprint(key/2)))
	}
	w := perdure.Define("many", func(ctx context.Context, _ string) ([]int, error) {
		var all []*perdure.Future[int]
		for i := range 6 {
			all = append(all, one(ctx, "w", i))
		}
		var out []int
		for _, f := range all {
			n, err := f.Await(ctx)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		return out, nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, w, "")
		env.Settle()
		for _, i := range []int{3, 0, 5, 1, 4, 2} {
			no(t, callback.Succeed(env.Context(), env.Engine(), b.token(fmt.Sprint(i)), i*10))
		}
		run.Returns([]int{0, 10, 20, 30, 40, 50})
	}, w)
}

// After the limit nothing is taken, whether an engine has ended the wait or not, and nothing is
// recorded.
//
// spec: B-23
func TestATokenExpires(t *testing.T) {
	for _, c := range []struct {
		name    string
		suspend bool
		late    time.Duration
	}{
		{name: "waiting"}, {name: "suspended", suspend: true},
		{name: "not awaited", late: 3 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
				ctx := env.Context()
				run := perduretest.Start(env, w, order{ID: "o", Limit: time.Hour, Late: c.late})
				env.Settle()
				if c.suspend {
					no(t, env.Engine().Suspend(ctx, run.RunID(), "holiday"))
				}
				env.Sleep(time.Hour)
				unchanged(env, run.RunID(), func() {
					eng, text := env.Engine(), b.token("o")
					is(t, callback.Succeed(ctx, eng, text, Receipt{1}), callback.ErrExpired,
						journal.CodeTimedOut)
					is(t, callback.Fail(ctx, eng, text, "x"), callback.ErrExpired,
						journal.CodeTimedOut)
					is(t, callback.Heartbeat(ctx, eng, text, time.Hour), callback.ErrExpired,
						journal.CodeTimedOut)
					got, err := callback.Get(ctx, eng, text)
					no(t, err)
					is(t, got.Err, callback.ErrExpired, journal.CodeTimedOut)
					if got.Open {
						t.Error("it is open")
					}
				})
				if c.suspend {
					no(t, env.Engine().Resume(ctx, run.RunID()))
				}
				run.Fails(context.DeadlineExceeded)
				run.Unread()
			})
		})
	}
}

// An answer that has come before the limit counts, whenever the code takes it.
//
// spec: B-23
func TestAnAnswerInTimeCountsLater(t *testing.T) {
	for _, c := range []struct {
		name    string
		suspend bool
		late    time.Duration
	}{{name: "suspended", suspend: true}, {name: "not awaited", late: 3 * time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
				ctx := env.Context()
				run := perduretest.Start(env, w, order{ID: "o", Limit: time.Hour, Late: c.late})
				env.Settle()
				if c.suspend {
					no(t, env.Engine().Suspend(ctx, run.RunID(), "holiday"))
				}
				env.Sleep(time.Hour - 2)
				no(t, callback.Heartbeat(ctx, env.Engine(), b.token("o"), time.Hour))
				env.Sleep(time.Hour - 1)
				no(t, callback.Succeed(ctx, env.Engine(), b.token("o"), Receipt{1}))
				env.Sleep(time.Hour)
				if c.suspend {
					no(t, env.Engine().Resume(ctx, run.RunID()))
				}
				run.Returns(Receipt{1})
				run.Unread()
			})
		})
	}
}

// The first answer wins. The same one again is no error, also much later, and records nothing.
//
// spec: B-23
func TestTheFirstAnswerWins(t *testing.T) {
	large := strings.Repeat("x", 300_000) // it is spilled
	for _, c := range []struct {
		name             string
		first, different func(context.Context, perdure.Caller, string) error
	}{
		{
			"success",
			func(ctx context.Context, c perdure.Caller, text string) error {
				return callback.Succeed(ctx, c, text, large)
			},
			func(ctx context.Context, c perdure.Caller, text string) error {
				return callback.Succeed(ctx, c, text, large+"y")
			},
		},
		{
			"failure",
			func(ctx context.Context, c perdure.Caller, text string) error {
				return callback.Fail(ctx, c, text, "one")
			},
			func(ctx context.Context, c perdure.Caller, text string) error {
				return callback.Fail(ctx, c, text, "two")
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bank
			w := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
				w, err := callback.New[string](ctx, "card")
				if err != nil {
					return 0, err
				}
				err = perdure.Do(ctx, "ask", func(ctx context.Context) error {
					text, err := w.Token(ctx)
					b.asked("o", text)
					return err
				})
				if err != nil {
					return 0, err
				}
				v, err := w.Await(ctx)
				if errors.Is(err, callback.ErrFailed) {
					err = nil
				}
				return len(v), err
			})
			perduretest.Test(t, func(env *perduretest.Env) {
				ctx := env.Context()
				run := perduretest.Start(env, w, "")
				env.Settle()
				text := b.token("o")
				no(t, env.Engine().Suspend(ctx, run.RunID(), "so that it is not taken"))
				no(t, c.first(ctx, env.Engine(), text))
				again := func() {
					unchanged(env, run.RunID(), func() {
						no(t, c.first(ctx, env.Engine(), text))
						is(t, c.different(ctx, env.Engine(), text), callback.ErrAnswered,
							journal.CodeConflict)
						is(t, callback.Heartbeat(ctx, env.Engine(), text, time.Hour),
							callback.ErrAnswered, journal.CodeConflict)
						if c.name == "failure" {
							is(t, callback.Succeed(ctx, env.Engine(), text, ""),
								callback.ErrAnswered, journal.CodeConflict)
						} else {
							is(t, callback.Fail(ctx, env.Engine(), text, ""),
								callback.ErrAnswered, journal.CodeConflict)
						}
						got, err := callback.Get(ctx, env.Engine(), text)
						no(t, err)
						is(t, got.Err, callback.ErrAnswered, journal.CodeConflict)
					})
				}
				again()
				env.Crash()
				again()
				no(t, env.Engine().Resume(ctx, run.RunID()))
				if c.name == "failure" {
					run.Returns(0)
				} else {
					run.Returns(len(large))
				}
				run.Unread()
				again()
			}, w)
		})
	}
}

// When the run or the wait is over, an answer is refused and nothing is recorded.
//
// spec: B-23
func TestATokenIsOfNoUseAfterTheEnd(t *testing.T) {
	var b bank
	quit := perdure.NewSignal[string]("quit")
	w := perdure.Define("w", func(ctx context.Context, how string) (int, error) {
		inner := func(ctx context.Context) (int, error) {
			w, err := callback.New[int](ctx, "card")
			if err != nil {
				return 0, err
			}
			if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
				text, err := w.Token(ctx)
				b.asked(how, text)
				return err
			}); err != nil {
				return 0, err
			}
			return w.Await(ctx)
		}
		f := perdure.Go(ctx, "branch", inner)
		if _, err := quit.Wait(ctx); err != nil {
			return 0, err
		}
		switch how {
		case "branch cancelled":
			if _, err := f.Cancel(ctx, "enough"); err != nil {
				return 0, err
			}
			_, err := quit.Wait(ctx)
			return 0, err
		case "failed":
			return 0, errors.New("no")
		case "continued":
			return 0, perdure.ContinueAsNew(ctx, "again")
		case "again":
			return f.Await(ctx)
		}
		return 0, nil
	})
	for _, how := range []string{
		"completed", "failed", "cancelled", "continued", "branch cancelled",
	} {
		t.Run(how, func(t *testing.T) {
			perduretest.Test(t, func(env *perduretest.Env) {
				ctx := env.Context()
				run := perduretest.Start(env, w, how)
				env.Settle()
				if how == "cancelled" {
					run.Cancel("enough")
				} else {
					perduretest.Send(env, quit, run.ID(), "")
				}
				env.Settle()
				text := b.token(how)
				unchanged(env, run.RunID(), func() {
					unchanged(env, run.ID(), func() {
						is(t, callback.Succeed(ctx, env.Engine(), text, 1), callback.ErrEnded,
							journal.CodeWrongState)
						is(t, callback.Fail(ctx, env.Engine(), text, "x"), callback.ErrEnded,
							journal.CodeWrongState)
						is(t, callback.Heartbeat(ctx, env.Engine(), text, time.Hour),
							callback.ErrEnded, journal.CodeWrongState)
					})
				})
				if how == "continued" {
					no(t, callback.Succeed(ctx, env.Engine(), b.token("again"), 9))
					perduretest.Send(env, quit, run.ID(), "")
					run.Returns(9)
				}
			}, w)
		})
	}
}

// An answer that a run has not taken when it continues as new does not answer the wait of the same
// name of the next one, although the inbox moves along.
//
// spec: B-23
func TestAnAnswerDoesNotMoveAlong(t *testing.T) {
	var b bank
	quit := perdure.NewSignal[string]("quit")
	w := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		w, err := callback.New[int](ctx, "card", perdure.Within(time.Hour))
		if err != nil {
			return 0, err
		}
		if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
			text, err := w.Token(ctx)
			b.asked(fmt.Sprint(n), text)
			return err
		}); err != nil {
			return 0, err
		}
		if n == 0 {
			if _, err := quit.Wait(ctx); err != nil {
				return 0, err
			}
			return 0, perdure.ContinueAsNew(ctx, 1)
		}
		return w.Await(ctx)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		ctx := env.Context()
		run := perduretest.Start(env, w, 0)
		env.Settle()
		no(t, env.Engine().Suspend(ctx, run.ID(), "so that it takes nothing"))
		perduretest.Send(env, quit, run.ID(), "")
		head, err := env.Engine().Get(ctx, run.ID())
		no(t, err)
		no(t, callback.Heartbeat(ctx, env.Engine(), b.token("0"), 2*time.Hour))
		no(t, callback.Succeed(ctx, env.Engine(), b.token("0"), 1))
		no(t, env.Engine().Resume(ctx, run.ID()))
		env.Settle()
		run.Is(journal.Waiting)
		got, err := callback.Get(ctx, env.Engine(), b.token("1"))
		if no(t, err); !got.Open {
			t.Errorf("%+v, want it open", got)
		}
		f := env.Engine().Sealed().FrontEnd
		old, err := f.Find(ctx, head.RunID())
		no(t, err)
		d, _ := kernel.Answers{FrontEnd: f}.Send(ctx, old, journal.Entry{
			Op: journal.Op{Key: "card"}, Detail: &journal.Detail{Due: time.Now().Add(time.Hour)},
		})
		if !d.NotDelivered {
			t.Errorf("%+v: an answer follows the chain", d)
		}
		no(t, callback.Succeed(ctx, env.Engine(), b.token("1"), 2))
		run.Returns(2)
	}, w)
}

// A heartbeat moves the limit to a later time, over a crash, and never to an earlier one.
//
// spec: B-23
func TestAHeartbeatExtendsTheWait(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx, began := env.Context(), time.Now()
		run := perduretest.Start(env, w, order{ID: "o", Limit: time.Hour})
		env.Sleep(30 * time.Minute)
		beat := func(by time.Duration) {
			t.Helper()
			no(t, callback.Heartbeat(ctx, env.Engine(), b.token("o"), by))
			env.Settle()
		}
		due := func(after time.Duration) {
			t.Helper()
			run.WaitsUntil(began.Add(after))
			got, err := callback.Get(ctx, env.Engine(), b.token("o"))
			if no(t, err); !got.Due.Equal(began.Add(after)) || !got.Open {
				t.Errorf("%+v, want it open and due after %v", got, after)
			}
		}
		due(time.Hour)
		unchanged(env, run.RunID(), func() { beat(10 * time.Minute) })
		due(time.Hour)
		beat(time.Hour)
		due(90 * time.Minute)
		env.Crash()
		due(90 * time.Minute)
		env.Sleep(50 * time.Minute)
		beat(20 * time.Minute)
		beat(30 * time.Minute)
		unchanged(env, run.RunID(), func() { beat(25 * time.Minute) })
		due(110 * time.Minute)
		env.Sleep(30*time.Minute - 1)
		run.Is(journal.Waiting)
		env.Sleep(1)
		run.Fails(context.DeadlineExceeded)
	})
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		run := perduretest.Start(env, w, order{ID: "o"})
		env.Settle()
		unchanged(env, run.RunID(), func() {
			no(t, callback.Heartbeat(env.Context(), env.Engine(), b.token("o"), time.Hour))
		})
		err := callback.Heartbeat(env.Context(), env.Engine(), b.token("o"), 0)
		if journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%v, want invalid", err)
		}
	})
}

// Heartbeats that cross each other leave the latest limit, and one that comes after an answer is
// refused, also if the answer is empty.
//
// spec: B-23
func TestHeartbeatsCross(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx, began := env.Context(), time.Now()
		run := perduretest.Start(env, w, order{ID: "o", Limit: time.Hour})
		env.Settle()
		f := env.Engine().Sealed().FrontEnd
		head, err := f.Find(ctx, run.RunID())
		no(t, err)
		no(t, env.Engine().Suspend(ctx, run.RunID(), "so that it takes nothing"))
		for _, by := range []time.Duration{3 * time.Hour, 2 * time.Hour} {
			_, err := kernel.Answers{FrontEnd: f}.Send(ctx, head, journal.Entry{
				Op: journal.Op{Key: "card"}, Detail: &journal.Detail{Due: began.Add(by)},
			})
			no(t, err)
		}
		due := func() {
			t.Helper()
			got, err := callback.Get(ctx, env.Engine(), b.token("o"))
			if no(t, err); !got.Due.Equal(began.Add(3 * time.Hour)) {
				t.Errorf("due %v", got.Due)
			}
		}
		due()
		no(t, env.Engine().Resume(ctx, run.RunID()))
		run.WaitsUntil(began.Add(3 * time.Hour))
		due()
		no(t, callback.Succeed(ctx, env.Engine(), b.token("o"), []byte{}))
		is(t, callback.Heartbeat(ctx, env.Engine(), b.token("o"), 9*time.Hour),
			callback.ErrAnswered, journal.CodeConflict)
		run.Fails(&perdure.Error{Code: journal.CodeDecode})
	})
}

// An answer that the run has not taken when it ends is none.
//
// spec: B-23
func TestAnAnswerThatIsNotTakenIsNone(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx := env.Context()
		run := perduretest.Start(env, w, order{ID: "o"})
		env.Settle()
		no(t, env.Engine().Suspend(ctx, run.RunID(), "so that it takes nothing"))
		no(t, callback.Succeed(ctx, env.Engine(), b.token("o"), Receipt{1}))
		run.Cancel("enough")
		is(t, callback.Succeed(ctx, env.Engine(), b.token("o"), Receipt{1}), callback.ErrEnded,
			journal.CodeWrongState)
	})
}

// What has come before the code asks for it is replayed in the same way.
//
// spec: B-23
func TestAnswersThatWereThereAreReplayed(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			var b bank
			w := perdure.Define("w", func(ctx context.Context, _ string) (bool, error) {
				w, err := callback.New[int](ctx, "card", perdure.Within(3*time.Hour))
				if err != nil {
					return false, err
				}
				if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
					text, err := w.Token(ctx)
					b.asked("o", text)
					return err
				}); err != nil {
					return false, err
				}
				if err := perdure.Sleep(ctx, time.Hour); err != nil {
					return false, err
				}
				_, err = w.Await(ctx)
				if err := perdure.Sleep(ctx, time.Hour); err != nil {
					return false, err
				}
				return errors.Is(err, callback.ErrFailed), nil
			})
			perduretest.Test(t, func(env *perduretest.Env) {
				ctx := env.Context()
				run := perduretest.Start(env, w, "")
				env.Settle()
				for i := range 3 {
					no(t, callback.Heartbeat(ctx, env.Engine(), b.token("o"),
						time.Duration(i+4)*time.Hour))
				}
				if fails {
					no(t, callback.Fail(ctx, env.Engine(), b.token("o"), "no"))
				} else {
					no(t, callback.Succeed(ctx, env.Engine(), b.token("o"), 1))
				}
				env.Sleep(90 * time.Minute)
				env.Crash()
				run.Returns(fails)
			}, w)
		})
	}
}

// Whenever the engine dies, the answer arrives once, and the limit that a heartbeat has set holds.
//
// spec: B-23
func TestACallbackBearsCrashes(t *testing.T) {
	var now *bank
	w := payment(func() *bank { return now })
	for _, how := range []string{"succeed", "fail", "expire"} {
		t.Run(how, func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				now = &bank{}
				began := time.Now()
				run := perduretest.Start(env, w, order{ID: "o", Limit: time.Hour})
				env.Sleep(time.Minute)
				answer := func(call func(perdure.Caller) error) {
					no(env, env.Do(func(eng *perdure.Engine) error { return call(eng) }))
				}
				for range 2 {
					answer(func(c perdure.Caller) error {
						return callback.Heartbeat(env.Context(), c, now.token("o"), 2*time.Hour)
					})
					env.Sleep(time.Minute)
				}
				switch how {
				case "succeed":
					answer(func(c perdure.Caller) error {
						return callback.Succeed(env.Context(), c, now.token("o"), Receipt{1})
					})
					run.Returns(Receipt{1})
				case "fail":
					answer(func(c perdure.Caller) error {
						return callback.Fail(env.Context(), c, now.token("o"), "no")
					})
					run.Fails(callback.ErrFailed)
				default:
					run.Fails(context.DeadlineExceeded)
				}
				run.Unread()
				return time.Since(began).Round(time.Second)
			}, w)
		})
	}
}

// A retry of a failed run waits once more, for the same token.
//
// spec: B-23
func TestATokenIsForARetryToo(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx := env.Context()
		// the entries of a retry have other numbers: it has not been suspended
		run := perduretest.Start(env, w, order{ID: "o", Limit: time.Hour, Naps: 1})
		for range 10 {
			no(t, env.Engine().Suspend(ctx, run.RunID(), "why not"))
			no(t, env.Engine().Resume(ctx, run.RunID()))
		}
		env.Sleep(time.Minute)
		text := b.token("o")
		no(t, callback.Fail(ctx, env.Engine(), text, "no money"))
		run.Fails(callback.ErrFailed)
		retry := func() *perduretest.Run[Receipt] {
			t.Helper()
			next, err := env.Engine().Retry(ctx, run.ID())
			if err != nil {
				t.Fatal(err)
			}
			return perduretest.Get(env, w, next.RunID())
		}
		second := retry()
		second.Is(journal.Waiting)
		second.Executed("ask", 0)
		got, err := callback.Get(ctx, env.Engine(), text)
		if no(t, err); !got.Open || got.RunID != second.RunID() || got.Due.IsZero() {
			t.Errorf("%+v, want %s and open", got, second.RunID())
		}
		second.Fails(context.DeadlineExceeded)
		third := retry()
		no(t, callback.Succeed(ctx, env.Engine(), text, Receipt{3}))
		third.Returns(Receipt{3})
		no(t, callback.Succeed(ctx, env.Engine(), text, Receipt{3}))
		is(t, callback.Fail(ctx, env.Engine(), text, "x"), callback.ErrAnswered,
			journal.CodeConflict)
	})
}

// A fork hands out its own token, and is not ended by that of its source.
//
// spec: B-23
func TestAForkHasItsOwnToken(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx := env.Context()
		run := perduretest.Start(env, w, order{ID: "o"})
		env.Settle()
		text := b.token("o")
		run.Cancel("enough")
		made, err := admin.New(env.Engine()).Act(ctx, run.ID(), admin.Order{
			Action: journal.ActionFork, Step: "ask", By: "ada",
		})
		if err != nil {
			t.Fatal(err)
		}
		fork := perduretest.Get(env, w, made.RunID)
		fork.Is(journal.Waiting)
		if b.token("o") == text {
			t.Error("the fork has the token of its source")
		}
		is(t, callback.Succeed(ctx, env.Engine(), text, Receipt{1}), callback.ErrEnded,
			journal.CodeWrongState)
		no(t, callback.Succeed(ctx, env.Engine(), b.token("o"), Receipt{2}))
		fork.Returns(Receipt{2})
	})
}

// A run that goes on after a skipped step waits for the same token.
//
// spec: B-23
func TestATokenIsForARunThatSkipsAStep(t *testing.T) {
	var b bank
	w := perdure.Define("w", func(ctx context.Context, _ string) (int, error) {
		w, err := callback.New[int](ctx, "card", perdure.Within(time.Hour))
		if err != nil {
			return 0, err
		}
		if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
			text, err := w.Token(ctx)
			b.asked("o", text)
			return err
		}); err != nil {
			return 0, err
		}
		if err := perdure.Do(ctx, "other", func(context.Context) error {
			return errors.New("no")
		}, perdure.NoRetry); err != nil {
			return 0, err
		}
		return w.Await(ctx)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		ctx := env.Context()
		run := perduretest.Start(env, w, "")
		if _, err := run.Result(); err == nil {
			t.Error("it has not failed")
		}
		is(t, callback.Succeed(ctx, env.Engine(), b.token("o"), 1), callback.ErrEnded,
			journal.CodeWrongState)
		made, err := admin.New(env.Engine()).Act(ctx, run.ID(), admin.Order{
			Action: journal.ActionSkip, By: "ada",
		})
		if err != nil {
			t.Fatal(err)
		}
		no(t, callback.Succeed(ctx, env.Engine(), b.token("o"), 2))
		perduretest.Get(env, w, made.RunID).Returns(2)
	}, w)
}

// Of many answers at one time, one wins, and the others are told so.
//
// spec: B-23
func TestAnswersRace(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		for round := range 10 {
			id := fmt.Sprint(round)
			run := perduretest.Start(env, w, order{ID: id, Limit: time.Hour})
			env.Settle()
			var all sync.WaitGroup
			won := make([]bool, 12)
			for i := range won {
				all.Go(func() {
					var err error
					switch text := b.token(id); i % 3 {
					case 2:
						err = callback.Heartbeat(env.Context(), env.Engine(), text,
							time.Duration(i)*time.Hour)
						if err == nil {
							return
						}
					case 1:
						err = callback.Fail(env.Context(), env.Engine(), text, fmt.Sprint(i))
					default:
						err = callback.Succeed(env.Context(), env.Engine(), text, Receipt{i})
					}
					if won[i] = err == nil; !won[i] {
						is(t, err, callback.ErrAnswered, journal.CodeConflict)
					}
				})
			}
			all.Wait()
			winner := slices.Index(won, true)
			if winner < 0 || slices.Contains(won[winner+1:], true) {
				t.Fatalf("these have won: %v", won)
			}
			got, err := run.Result()
			if winner%3 == 0 && got != (Receipt{winner}) || winner%3 == 1 &&
				!strings.HasSuffix(fmt.Sprint(err), fmt.Sprint(winner)) {
				t.Errorf("%d has won, and the run got %v, %v", winner, got, err)
			}
		}
	})
}

// Nobody answers by a signal, whatever its name and key.
//
// spec: B-23
func TestASignalIsNoAnswer(t *testing.T) {
	withBank(t, func(env *perduretest.Env, b *bank, w *perdure.Workflow[order, Receipt]) {
		ctx := env.Context()
		run := perduretest.Start(env, w, order{ID: "o"})
		env.Settle()
		for _, name := range []string{"perdure:callback", "perdure:callback:card"} {
			_, err := env.Engine().Send(ctx, run.ID(), name, []byte(`{"Number":1}`))
			if journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("%v, want invalid", err)
			}
		}
		for _, name := range []string{"card", "callback"} {
			perduretest.Send(env, perdure.NewSignal[Receipt](name), run.ID(), Receipt{1})
		}
		run.Is(journal.Waiting)
		run.Unread("card", "callback")
		d, err := env.Engine().Describe(ctx, run.ID())
		if no(t, err); d.Why != "it waits for an answer to callback card" {
			t.Errorf("why: %s", d.Why)
		}
	})
}

// An end of the waiting does not end the wait, and two branches may await it. A run that is in
// memory hears of an answer at once.
//
// spec: B-23
func TestTheWaitingMayEndAndBeginAgain(t *testing.T) {
	for _, two := range []bool{false, true} {
		t.Run(fmt.Sprint(two), func(t *testing.T) { waitAgain(t, two) })
	}
}

func waitAgain(t *testing.T, two bool) {
	var b bank
	w := perdure.Define("w", func(ctx context.Context, _ string) ([2]int, error) {
		w, err := callback.New[int](ctx, "card", perdure.Within(time.Hour))
		if err != nil {
			return [2]int{}, err
		}
		if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
			text, err := w.Token(ctx)
			b.asked("o", text)
			return err
		}); err != nil {
			return [2]int{}, err
		}
		other := perdure.Go(ctx, "other", func(ctx context.Context) (int, error) {
			if !two {
				return 5, nil
			}
			return w.Await(ctx)
		})
		for {
			short, stop := context.WithTimeout(ctx, 10*time.Minute)
			n, err := w.Await(short)
			stop()
			if err == nil {
				m, err := other.Await(ctx)
				return [2]int{n, m}, err
			}
			if short.Err() == nil {
				return [2]int{}, err
			}
		}
	})
	perduretest.Setup{
		Workflows: []perdure.Definition{w}, Options: perdure.Options{IdleTimeout: time.Hour},
	}.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, w, "")
		for range 20 {
			env.Sleep(17 * time.Minute)
			no(t, callback.Heartbeat(env.Context(), env.Engine(), b.token("o"), time.Hour))
		}
		env.Sleep(3 * time.Minute)
		no(t, callback.Succeed(env.Context(), env.Engine(), b.token("o"), 5))
		run.Is(journal.Completed)
		run.Returns([2]int{5, 5})
	})
}

// Calls in the wrong place are refused with an error of code misuse or invalid.
//
// spec: B-23
func TestMisuseIsRefused(t *testing.T) {
	var errs []error
	var kept *callback.Wait[int]
	w := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		w, err := callback.New[int](ctx, "card")
		if err != nil {
			return 0, err
		}
		errs = nil
		note := func(err error) { errs = append(errs, err) }
		_, err = w.Token(ctx)
		note(err)
		for _, opt := range [][]perdure.WaitOption{
			{nil}, {perdure.Within(-1)}, {perdure.Where(func(int) bool { return true })},
			{perdure.Key("not a key")},
		} {
			_, err := callback.New[int](ctx, "x", opt...)
			note(err)
		}
		_, err = callback.New[int](ctx, "not a name")
		note(err)
		err = perdure.Do(ctx, "ask", func(ctx context.Context) error {
			if kept != nil {
				_, err := kept.Token(ctx)
				note(err)
			}
			kept = w
			_, err = callback.New[int](ctx, "x")
			note(err)
			_, err = w.Await(ctx)
			note(err)
			return nil
		})
		return 0, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, w, 1).Returns(0)
		perduretest.Start(env, w, 2).Returns(0)
		if len(errs) != 9 {
			t.Errorf("%d errors", len(errs))
		}
		for i, err := range errs {
			if c := journal.CodeOf(err); c != journal.CodeInvalid && c != journal.CodeMisuse {
				t.Errorf("error %d: %v of code %s", i, err, c)
			}
		}
		var nobody *perdure.Client
		for _, c := range []perdure.Caller{nil, nobody} {
			err := callback.Succeed(env.Context(), c, "x", 1)
			if journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("%v, want invalid", err)
			}
		}
		err := callback.Succeed(env.Context(), env.Engine(), "x", func() {})
		if journal.CodeOf(err) != journal.CodeEncode {
			t.Errorf("%v, want encode", err)
		}
	}, w)
}
