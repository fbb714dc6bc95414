package howto

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/perduretest"
)

func TestAPaymentThatComesInTimeEndsTheWait(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Order, "ord-1", perdure.ID("ord-1"))
		env.Sleep(2 * day)
		run.Waits("paid")
		env.Crash()
		perduretest.Send(env, Paid, "ord-1", Payment{Event: "evt-1"})
		run.Returns("paid by evt-1")
		run.Executed("remind", 0)
	}, Order)
}

func TestTheCustomerIsRemindedAndTheOrderGivenUp(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, Order, "ord-1")
		run.Returns("not paid in a week")
		run.Executed("remind", 1)
		if took := time.Since(began); took != 7*day {
			t.Errorf("it took %v", took)
		}
	}, Order)
}

func TestAnOrderGrowsByUpdates(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Growing, 1000, perdure.ID("ord-1"))
		ctx, client := env.Context(), env.Engine()
		total, err := Raise.Send(ctx, client, "ord-1", 500, perdure.SendKey("click-17"))
		if err != nil || total != 1500 {
			t.Errorf("%d, %v", total, err)
		}
		if _, err = Raise.Send(ctx, client, "ord-1", 0); !errors.Is(err, errNotPositive) {
			t.Error(err)
		}
		if _, err = Raise.Send(ctx, client, "ord-1", 9000); err == nil {
			t.Error("it grows too much")
		}
		perduretest.Send(env, Paid, "ord-1", Payment{Event: "evt-1"})
		run.Returns(1500)
	}, Growing)
}

func TestAReportThatComesTwiceIsOnePayment(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Order, "ord-1", perdure.ID("ord-1"))
		for range 2 {
			w := httptest.NewRecorder()
			Webhook(env.Engine())(w, httptest.NewRequest(http.MethodPost, "/paid",
				strings.NewReader(`{"event":"evt-1","order":"ord-1","cents":4200}`)))
			if w.Code != http.StatusNoContent {
				t.Fatal(w.Code, w.Body)
			}
		}
		run.Returns("paid by evt-1")
		run.Unread()
	}, Order)
}

func TestAPaymentThatNoOpenOrderHasIsNotAcknowledged(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		report := func(event string, want int) {
			t.Helper()
			w := httptest.NewRecorder()
			Webhook(env.Engine())(w, httptest.NewRequest(http.MethodPost, "/paid",
				strings.NewReader(`{"event":"`+event+`","order":"ord-1","cents":4200}`)))
			if w.Code != want {
				t.Errorf("%s: %d %s", event, w.Code, w.Body)
			}
		}
		report("evt-1", http.StatusConflict)
		report("evt-1", http.StatusConflict) // the key was used, but no run has the payment
		run := perduretest.Start(env, Order, "ord-1", perdure.ID("ord-1"))
		run.Returns("paid by evt-1")
		report("evt-1", http.StatusNoContent)
		report("evt-2", http.StatusConflict) // too late
		run.Unread()
	}, Order)
}

func TestAPaymentBeforeItsOrderIsKept(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		d := perduretest.Send(env, Paid, "ord-1", Payment{Event: "evt-1"})
		if !d.Unrouted {
			t.Errorf("%+v", d)
		}
		run := perduretest.Start(env, Order, "ord-1", perdure.ID("ord-1"))
		run.Returns("paid by evt-1")
	}, Order)
}

func TestAnswersOfOthersStayInTheInbox(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Expense, "exp-1")
		perduretest.Send(env, Answered, run.ID(), Answer{By: "ada", Approved: true})
		env.Sleep(365 * day)
		run.Waits("answered")
		perduretest.Send(env, Answered, run.ID(), Answer{By: "manager"})
		run.Returns(false)
		run.Unread("answered")
	}, Expense)
}

func TestTheFirstOfTwoSignalsDecides(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Either, "ord-1")
		env.Sleep(day)
		perduretest.Send(env, Failed, run.ID(), Payment{Event: "evt-1"})
		run.Returns("the payment has failed")
	}, Either)
}

func TestTheBankAnswersByALink(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		link := ""
		Bank = func(_ context.Context, _, at string) error {
			link = at
			return nil
		}
		run := perduretest.Start(env, Charge, "ord-1")
		env.Sleep(day / 2)
		call := func(link, event string, want int) {
			t.Helper()
			w := httptest.NewRecorder()
			PaidLink(env.Engine())(w, httptest.NewRequest(http.MethodPost, link,
				strings.NewReader(`{"event":"`+event+`"}`)))
			if w.Code != want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, want)
			}
		}
		call(link+"x", "evt-1", http.StatusNotFound)
		call(link, "evt-1", http.StatusNoContent)
		call(link, "evt-1", http.StatusNoContent)
		call(link, "evt-2", http.StatusConflict)
		run.Returns("paid by evt-1")

		late := perduretest.Start(env, Charge, "ord-2")
		env.Sleep(day)
		call(link, "evt-3", http.StatusGone)
		late.Fails(context.DeadlineExceeded)
		failed := perduretest.Start(env, Charge, "ord-3")
		env.Settle()
		_, token, _ := strings.Cut(link, "token=")
		if err := callback.Fail(env.Context(), env.Engine(), token, "no money"); err != nil {
			t.Error(err)
		}
		failed.Returns("not paid")
	}, Charge)
}
