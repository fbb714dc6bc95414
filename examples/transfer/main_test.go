package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/examples/transfer/money"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

func TestMain(m *testing.M) { terminal.Main(m, main) }

// spec: F-36, F-43
func TestTheBankHasAsMuchAsBefore(t *testing.T) {
	at := terminal.Open(t)
	told := at.Run("-transfers", "200", "-kills", "3", "-seed", "7")
	for _, want := range []string{
		"before: 20 accounts have 2000000 cents", "3 kills",
		"after:  20 accounts have 2000000 cents, 0 set aside", "CONFIRMED", "CANCELED",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, which has no %q", told, want)
		}
	}
}

func TestMoneyOnItsWayWaitsForAnOperatorWhenTheBankDoesNotAnswer(t *testing.T) {
	var done []money.Action
	closed := true
	move := money.Move(func(_ context.Context, do money.Action, _ string, _ int64) error {
		if do == money.Book && closed {
			return errors.New("no answer")
		}
		done = append(done, do)
		return nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, move.Workflow, money.Transfer{
			From: "ada", To: "bob", Cents: 5,
		})
		env.Sleep(time.Hour)
		run.Is(journal.Suspended)
		closed = false
		decide := func(e *perdure.Engine) error {
			return e.Decide(env.Context(), run.ID(), "confirm:credit",
				perdure.Decision{Choice: "retry"})
		}
		if err := env.Do(decide); err != nil {
			t.Error(err)
		}
		run.Is(journal.Confirmed)
	}, move)
	slices.Sort(done)
	if want := []money.Action{
		money.Announce, money.Book, money.Hold, money.Take,
	}; !slices.Equal(done, want) {
		t.Errorf("the bank did %q, want %q", done, want)
	}
}
