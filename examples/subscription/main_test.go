package main

import (
	"io"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/examples/subscription/billing"
	"github.com/perdure/perdure/perduretest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	terminal.Main(m, main)
}

// begin empties the books.
func begin() { charged, books = map[string]bool{}, nil }

const week = 7 * 24 * time.Hour

var ada = billing.Subscription{Customer: "ada", Plan: "basic", Card: "tok_1"}

func TestThreeYearsOfASubscription(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		// It is 2 January 2000: the trial ends on 1 February.
		env.Sleep(24 * time.Hour)
		run := perduretest.Start(env, Subscribe, ada)
		env.Sleep(3 * 366 * 24 * time.Hour)
		perduretest.Send(env, billing.Changed, run.ID(), billing.Change{Stop: true})
		s, err := run.Result()
		if err != nil || s.Months != 36 || s.Ended != "the customer left" {
			t.Errorf("%+v %v", s, err)
		}
	}, Subscribe)
	if len(books) != 36 || books[0] != "ada 2000-02-01 900" || books[35] != "ada 2003-01-01 900" {
		t.Errorf("%d charges: %q", len(books), books)
	}
}

func TestChargesStayOnTheLastDayOfTheMonth(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		// On 1 January 2000, so that the trial ends on the 31st.
		run := perduretest.Start(env, Subscribe, ada)
		for _, day := range []string{"2000-01-31", "2000-02-29", "2000-03-31", "2000-04-30"} {
			due, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			run.WaitsUntil(due)
			env.Sleep(time.Until(due) + time.Hour)
		}
		run.Cancel("seen enough")
	}, Subscribe)
}

func TestASubscriptionThatBeganBeforeIsChargedAtOnce(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		before := ada
		before.First = time.Date(1998, 12, 31, 0, 0, 0, 0, time.UTC) // it is January 2000
		run := perduretest.Start(env, Subscribe, before)
		env.Sleep(24 * time.Hour)
		run.WaitsUntil(time.Date(2000, 1, 31, 0, 0, 0, 0, time.UTC))
		run.Cancel("seen enough")
	}, Subscribe)
	if len(books) != 13 || books[2] != "ada 1999-02-28 900" || books[12] != "ada 1999-12-31 900" {
		t.Errorf("charges: %q", books)
	}
}

func TestANewCardSavesASubscription(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		empty := ada
		empty.Card = "tok_empty"
		run := perduretest.Start(env, Subscribe, empty)
		env.Sleep(billing.Trial + week + time.Hour) // the card was refused twice
		perduretest.Send(env, billing.Changed, run.ID(), billing.Change{Card: "tok_2", Plan: "pro"})
		env.Sleep(week)
		run.Executed("charge", 3)
		perduretest.Send(env, billing.Changed, run.ID(), billing.Change{Stop: true})
		if s, err := run.Result(); err != nil || s.Months != 1 || s.Plan != "pro" {
			t.Errorf("%+v %v", s, err)
		}
	}, Subscribe)
	if !slices.Equal(books, []string{"ada 2000-01-31 2900"}) {
		t.Errorf("charges: %q", books)
	}
}

func TestACardThatIsRefusedThreeTimesEndsASubscription(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		empty := ada
		empty.Card = "tok_empty"
		began := time.Now()
		s, err := perduretest.Start(env, Subscribe, empty).Result()
		if err != nil || s.Ended != "the card was refused" || s.Months != 0 {
			t.Errorf("%+v %v", s, err)
		}
		if took := time.Since(began); took != billing.Trial+2*week {
			t.Errorf("it took %v", took)
		}
	}, Subscribe)
}

func TestSubscriptionsBearCrashesEverywhere(t *testing.T) {
	setup := perduretest.Setup{Workflows: []perdure.Definition{Subscribe}, Crashes: 40}
	setup.CrashEverywhere(t, func(env *perduretest.Env) any {
		begin()
		run := perduretest.Start(env, Subscribe, ada)
		env.Sleep(4 * 31 * 24 * time.Hour)
		perduretest.Send(env, billing.Changed, run.ID(), billing.Change{Plan: "pro"})
		env.Sleep(12 * 31 * 24 * time.Hour) // beyond the end of a year
		perduretest.Send(env, billing.Changed, run.ID(), billing.Change{Stop: true})
		s, err := run.Result()
		s.First = s.First.Truncate(time.Hour) // a crash takes some time
		return []any{s, err, books}
	})
}

func TestASubscriptionIsChangedThoughNothingRuns(t *testing.T) {
	at := terminal.Open(t)
	kill := at.Serve()
	at.Run("start", "subscription", "--id", "sub-1", "-i",
		`{"customer":"ada","plan":"basic","card":"tok_1"}`)
	at.Until(func() bool { return strings.Contains(at.Run("runs", "get", "sub-1"), "WAITING") })
	kill()
	at.Run("runs", "signal", "sub-1", "change", "-i", `{"plan":"pro","stop":true}`)
	at.Serve()
	out := at.Run("runs", "wait", "sub-1")
	if !strings.Contains(out, `"plan":"pro"`) ||
		!strings.Contains(out, `"ended":"the customer left"`) {
		t.Errorf("it ended with %s", out)
	}
}
