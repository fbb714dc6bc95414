package barrier_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/journal"
)

// spec: F-43
func TestACancelWithoutATryDoesNothingAndSucceeds(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		for _, phase := range []perdure.Phase{cancel, undo} {
			p := newStage(t).participant(db)
			p.expect(phase, 0, nil)
			p.expect(phase, 0, nil)
			p.tookEffect()
		}
	})
}

// spec: F-43
func TestATryAfterItsCancelDoesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		p := newStage(t).participant(db)
		p.expect(cancel, 0, nil)
		p.expect(try, 0, barrier.ErrCancelled)
		p.expect(try, 0, barrier.ErrCancelled)
		p.expect(confirm, 0, barrier.ErrCancelled)
		p.expect(cancel, 0, nil)
		p.expect(undo, 0, nil)
		p.expect(plain, 0, barrier.ErrCancelled)
		p.tookEffect()
	})
}

// spec: F-43
func TestWhatIsDeliveredTwiceTakesEffectOnceAndGivesTheFirstResult(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		s := newStage(t)
		p := s.participant(db)
		for n, phase := range []perdure.Phase{try, confirm, plain, undo} {
			p.expect(phase, n+1, nil)
			p.expect(phase, n+1, nil)
		}
		p.expect(try, 1, nil)
		p.expect(plain, 3, nil)
		p.tookEffect(entry{try, 1}, entry{confirm, 2}, entry{plain, 3}, entry{undo, 4})

		p = s.participant(db)
		p.expect(try, 1, nil)
		p.expect(cancel, 2, nil)
		p.expect(cancel, 2, nil)
		p.expect(try, 1, nil)
		p.tookEffect(entry{try, 1}, entry{cancel, 2})
	})
}

// spec: F-43
func TestAConfirmIsTakenBackAndACancelIsNot(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		s := newStage(t)
		p := s.participant(db)
		p.expect(confirm, 0, barrier.ErrNotTried)
		p.expect(try, 1, nil)
		p.expect(confirm, 2, nil)
		p.expect(cancel, 3, nil)
		p.expect(confirm, 2, nil)
		p.expect(cancel, 3, nil)
		p.tookEffect(entry{try, 1}, entry{confirm, 2}, entry{back, 3})

		p = s.participant(db)
		p.expect(try, 1, nil)
		p.expect(cancel, 2, nil)
		p.expect(confirm, 0, barrier.ErrCancelled)
		p.tookEffect(entry{try, 1}, entry{cancel, 2})
	})
}

// spec: F-43
func TestWhatFailsLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		s := newStage(t)
		for f, want := range map[fault]error{fails: errNo, panics: errPanic, lost: nil} {
			p := s.participant(db)
			for i, phase := range []perdure.Phase{try, confirm, plain, undo} {
				if _, err := p.deliver(phase, f); !errors.Is(err, want) {
					t.Errorf("%s with fault %d: %v", name(phase), f, err)
				}
				p.expect(phase, 2*i+2, nil)
			}
			p.tookEffect(entry{try, 2}, entry{confirm, 4}, entry{plain, 6}, entry{undo, 8})
		}
		p := s.participant(db)
		if _, err := p.deliver(cancel, lost); err != nil {
			t.Error(err)
		}
		p.expect(try, 1, nil)
		p.expect(cancel, 2, nil)
	})
}

func TestGoexitInTheFunctionLeavesNothing(t *testing.T) {
	p := newStage(t).participant(openSQLite(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		barrier.In(p.ctx[try], p.db, func(ctx context.Context, tx *sql.Tx) (int, error) {
			if _, err := p.effect(try, none)(ctx, tx); err != nil {
				t.Error(err)
			}
			runtime.Goexit()
			return 0, nil
		})
	}()
	<-done
	p.expect(try, 2, nil)
	p.tookEffect(entry{try, 2})
}

func TestATransactionThatIsCommittedAfterAFailureIsNoticed(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		p := newStage(t).participant(db)
		tx := must[*sql.Tx](t)(db.Begin())
		if n, err := barrier.Do(p.ctx[try], tx, p.effect(try, fails)); n != 0 ||
			!errors.Is(err, errNo) {
			t.Errorf("it gives %d, %v", n, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		misuse := &perdure.Error{Code: journal.CodeMisuse}
		p.expect(try, 0, misuse)
		p.expect(confirm, 0, misuse)
		p.expect(cancel, 0, misuse)
	})
}

func TestDoInItsOwnFunctionIsNoticed(t *testing.T) {
	p := newStage(t).participant(openSQLite(t))
	_, err := barrier.In(p.ctx[plain], p.db, func(ctx context.Context, tx *sql.Tx) (int, error) {
		return barrier.Do(ctx, tx, p.effect(plain, none))
	})
	if !errors.Is(err, &perdure.Error{Code: journal.CodeMisuse}) {
		t.Error(err)
	}
	p.tookEffect()
}

// spec: F-43
func TestParticipantsAreToldApart(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		s := newStage(t)
		short := cast{Keys: []string{"debit", "debit.2", "credit"}}
		scoped := cast{[]string{"bank", "main"}, short.Keys}
		long := cast{nil, short.Keys} // a path that is longer than the limit of a key
		for range 200 {
			long.Scopes = append(long.Scopes, rand.Text())
		}
		all := slices.Concat(s.participants(db, short), s.participants(db, short),
			s.participants(db, scoped), s.participants(db, long))
		for _, p := range all {
			for i, phase := range []perdure.Phase{try, cancel, plain, undo} {
				p.expect(phase, i+1, nil)
				p.expect(phase, i+1, nil)
			}
		}
		for _, p := range all {
			p.tookEffect(entry{try, 1}, entry{cancel, 2}, entry{plain, 3}, entry{undo, 4})
		}
	})
}

// An account encodes as one number and decodes as another one.
type account int

func (a *account) UnmarshalJSON(data []byte) error {
	var n int
	err := json.Unmarshal(data, &n)
	*a = account(n + 1)
	return err
}

// gives makes the function return a value twice, and returns both results.
func gives[T any](t *testing.T, p *participant, phase perdure.Phase, v T) (first, second T) {
	t.Helper()
	give := func(context.Context, *sql.Tx) (T, error) { return v, nil }
	first = must[T](t)(barrier.In(p.ctx[phase], p.db, give))
	var other T
	v = other
	second = must[T](t)(barrier.In(p.ctx[phase], p.db, give))
	return first, second
}

// spec: F-43
func TestTheResultIsTheSameFirstAndLater(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		s := newStage(t)
		all := s.participants(db, cast{Keys: []string{"a", "b", "c", "d", "e", "f"}})
		compare := func(want, first, second any) {
			t.Helper()
			if a, b, c := fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", first),
				fmt.Sprintf("%#v", second); a != b || a != c {
				t.Errorf("the first gives %s and the second %s, want %s", b, c, a)
			}
		}
		a, b := gives(t, all[0], try, []byte{0, 255})
		compare([]byte{0, 255}, a, b)
		a, b = gives(t, all[1], try, []byte{})
		compare([]byte{}, a, b)
		a, b = gives(t, all[2], try, []byte(nil))
		compare([]byte{}, a, b)
		c, d := gives(t, all[3], try, json.RawMessage(`{ "a" : 1}`))
		compare(json.RawMessage(`{ "a" : 1}`), c, d)
		e, f := gives(t, all[4], try, account(7))
		compare(account(8), e, f)
		g, h := gives(t, all[5], try, any(1))
		compare(any(1.0), g, h)
	})
}

// spec: F-43
func TestAResultThatCannotBeKeptIsAnErrorAndLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		p := newStage(t).participant(db)
		leaves := func(err error, code journal.Code) {
			t.Helper()
			if journal.CodeOf(err) != code {
				t.Errorf("%v, want code %s", err, code)
			}
			p.tookEffect()
		}
		_, err := barrier.In(p.ctx[try], db, func(ctx context.Context, tx *sql.Tx) (chan int,
			error) {
			_, err := p.effect(try, none)(ctx, tx)
			return make(chan int), err
		})
		leaves(err, journal.CodeEncode)
		_, err = barrier.In(p.ctx[try], db, func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := p.effect(try, none)(ctx, tx)
			return "\xff", err
		})
		leaves(err, journal.CodeEncode)
		_, err = barrier.In(p.ctx[try], db, func(ctx context.Context, tx *sql.Tx) (fmt.Stringer,
			error) {
			_, err := p.effect(try, none)(ctx, tx)
			return new(strings.Builder), err
		})
		leaves(err, journal.CodeDecode)
		p.expect(try, 4, nil)
	})
}

func TestWhereItCannotBeCalled(t *testing.T) {
	db := openSQLite(t)
	s := newStage(t)
	p := s.participant(db)
	do := p.effect(try, none)
	codes := func(err error, want journal.Code) {
		t.Helper()
		if got := journal.CodeOf(err); got != want {
			t.Errorf("%v has code %q, want %q", err, got, want)
		}
	}
	tx := must[*sql.Tx](t)(db.Begin())
	defer tx.Rollback()
	_, err := barrier.Do(context.Background(), tx, do)
	codes(err, journal.CodeMisuse)
	_, err = barrier.Do(p.ctx[try], nil, do)
	codes(err, journal.CodeInvalid)
	_, err = barrier.Do[int](p.ctx[try], tx, nil)
	codes(err, journal.CodeInvalid)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	_, err = barrier.In(context.Background(), db, do)
	codes(err, journal.CodeMisuse)
	_, err = barrier.In(p.ctx[try], nil, do)
	codes(err, journal.CodeInvalid)
	_, err = barrier.In[int](p.ctx[try], db, nil)
	codes(err, journal.CodeInvalid)
	codes(barrier.Create(t.Context(), nil), journal.CodeInvalid)
	_, err = barrier.Clean(t.Context(), nil, before)
	codes(err, journal.CodeInvalid)
	p.tookEffect()

	derived, stop := context.WithCancel(p.ctx[try])
	if n, err := barrier.In(derived, db, do); n != 1 || err != nil {
		t.Errorf("with a context made of the step's: %d, %v", n, err)
	}
	stop()
	if _, err = barrier.In(derived, db, do); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err = barrier.Do(p.ctx[try], tx, do); !errors.Is(err, sql.ErrTxDone) {
		t.Error(err)
	}
}
