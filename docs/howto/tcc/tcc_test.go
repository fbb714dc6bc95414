package howto

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	_ "github.com/perdure/perdure/store/sqlite" // it registers the driver
)

// open returns accounts of which ada has 100 and bob has nothing, and what shows them.
func open(t *testing.T) (Accounts, func() string) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if err := barrier.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(
		Schema + `; insert into accounts values ('ada', 100, 0), ('bob', 0, 0)`); err != nil {
		t.Fatal(err)
	}
	return Accounts{db}, func() string {
		var out string
		for _, id := range []string{"ada", "bob"} {
			var free, held int
			err := db.QueryRow(`select free, held from accounts where id = $1`, id).
				Scan(&free, &held)
			out += fmt.Sprint(id, " ", free, "+", held, " ")
			if err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
}

func TestATransferIsConfirmedOnBothSides(t *testing.T) {
	accounts, shown := open(t)
	move := Move(accounts)
	perduretest.Test(t, func(env *perduretest.Env) {
		lost := errors.New("the answer was lost")
		env.Step("try:debit").FailAfter(1, lost)
		env.Step("confirm:debit").FailAfter(1, lost)
		run := perduretest.Start(env, move.Workflow, Transfer{"ada", "bob", 30})
		_, err := run.Result()
		run.Is(journal.Confirmed)
		if got := shown(); got != "ada 70+0 bob 30+0 " || err != nil {
			t.Error(got, err)
		}
	}, move)
}

func TestATransferToAClosedAccountIsCancelled(t *testing.T) {
	accounts, shown := open(t)
	move := Move(accounts)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, move.Workflow, Transfer{"ada", "eve", 30})
		run.Fails(ErrClosed)
		run.Is(journal.Canceled)
		if got := shown(); got != "ada 100+0 bob 0+0 " {
			t.Error(got)
		}
	}, move)
}

func TestWhatWasConfirmedIsTakenBackWhenAnotherCannotConfirm(t *testing.T) {
	accounts, shown := open(t)
	move := Move(accounts)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("confirm:credit").Fail(20, perdure.Permanent(ErrClosed))
		run := perduretest.Start(env, move.Workflow, Transfer{"ada", "bob", 30})
		run.Fails(ErrClosed)
		run.Is(journal.Canceled)
		if got := shown(); got != "ada 100+0 bob 0+0 " {
			t.Error(got)
		}
	}, move)
}
