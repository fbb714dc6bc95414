package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// Values that bodies set count from their records on. Of parallel writers, the later record wins.
// The values of a failed attempt are dropped. All of this is the same after a crash, inside and
// outside.
//
// spec: F-3
func TestVariablesCountFromTheRecord(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for _, large := range []bool{false, true} {
			t.Run(fmt.Sprintf("crash=%v/large=%v", crash, large), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testVariables(t, crash, large) })
			})
		}
	}
}

func testVariables(t *testing.T, crash, large bool) {
	value := func(s string) string {
		if large {
			return s + strings.Repeat(".", 1000)
		}
		return s
	}
	sets := func(name, v string, after time.Duration, fails int) func(context.Context) (int,
		error) {
		return func(ctx context.Context) (int, error) {
			if world.Pause(ctx, after); ctx.Err() != nil {
				return 0, ctx.Err()
			}
			n, _, err := perdure.Attempt(ctx)
			if err == nil {
				err = perdure.SetVariable(ctx, name, value(fmt.Sprint(v, n)))
			}
			if own, found, e := perdure.Variable[string](ctx, name); err != nil || e != nil ||
				!found || own != value(fmt.Sprint(v, n)) {
				t.Errorf("a body sees %q of what it has set, %v %v", own, err, e)
			}
			if n <= fails {
				if err := perdure.SetVariable(ctx, "failed", 1); err != nil {
					t.Error(err)
				}
				return 0, errors.New("not yet")
			}
			return 0, err
		}
	}
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
		var out []string
		see := func() {
			all, err := pattern.Variables(ctx)
			if err != nil {
				t.Error(err)
			}
			line := ""
			for _, name := range slices.Sorted(maps.Keys(all)) {
				line += name + "=" + strings.Trim(string(all[name]), `".`) + " "
			}
			out = append(out, strings.TrimSpace(line))
		}
		if err := perdure.SetVariable(ctx, "x", value("own")); err != nil {
			return nil, err
		}
		see()
		slow := perdure.Async(ctx, "slow", sets("x", "slow", 9*time.Second, 0))
		quick := perdure.Async(ctx, "quick", sets("x", "quick", time.Second, 1),
			perdure.Retry{Attempts: 2, First: time.Second})
		other := perdure.Async(ctx, "other", sets("y", "other", time.Second, 0))
		_, err := other.Await(ctx)
		see()
		_, err2 := quick.Await(ctx)
		_, err3 := slow.Await(ctx)
		see()
		if err := perdure.RemoveVariable(ctx, "y"); err != nil {
			return nil, err
		}
		if err := perdure.RemoveVariable(ctx, "never"); err != nil {
			return nil, err
		}
		see()
		err4 := perdure.Sleep(ctx, time.Hour)
		see()
		return out, errors.Join(err, err2, err3, err4)
	})
	w := world.With(t, perdure.Options{IdleTimeout: -1, SpillOver: 300}, wf)
	defer func() { w.End() }()
	world.StartAndSettle(w, wf, 0, perdure.ID("x"))
	if crash {
		time.Sleep(time.Minute)
		w.Crash()
	}
	seen, err := world.OutcomeOf(w, wf, "x")
	if want := []string{
		"x=own", "x=own y=other1", "x=slow1 y=other1", "x=slow1", "x=slow1",
	}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("it saw %q, want %q; %v", seen, want, err)
	}
	d, err := w.Engine.Describe(context.Background(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, found := d.State.Variables["x"]; len(d.State.Variables) != 1 || !found {
		t.Errorf("outside there are %v", d.State.Variables)
	}
}

// Of bodies that add one key at one time, one finds it new; after its record, none does. A failed
// attempt has added nothing.
//
// spec: F-3
func TestAKeyIsNewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adds := func(fails bool) func(context.Context) (bool, error) {
			return func(ctx context.Context) (bool, error) {
				isNew, err := pattern.AddKey(ctx, "debit:ORD 123")
				if has, e := pattern.HasKey(ctx, "debit:ORD 123"); !has || e != nil {
					t.Errorf("it has it: %v, %v", has, e)
				}
				world.Pause(ctx, time.Second)
				if fails {
					return isNew, errors.New("no")
				}
				return isNew, err
			}
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) ([]bool, error) {
			if _, err := perdure.Step(ctx, "fails", adds(true), perdure.NoRetry); err == nil {
				t.Error("it did not fail")
			}
			var out []bool
			a, b := perdure.Async(ctx, "a", adds(false)), perdure.Async(ctx, "b", adds(false))
			x, err := a.Await(ctx)
			y, err2 := b.Await(ctx)
			out = append(out, x != y)
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return nil, err
			}
			z, err3 := perdure.Step(ctx, "c", adds(false))
			own, err4 := pattern.AddKey(ctx, "debit:ORD 123")
			other, err5 := pattern.AddKey(ctx, "other")
			again, err6 := pattern.AddKey(ctx, "other")
			has, err7 := pattern.HasKey(ctx, "other")
			return append(out, z, own, other, again, has), errors.Join(err, err2, err3, err4, err5,
				err6, err7)
		})
		w := world.With(t, perdure.Options{IdleTimeout: -1}, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Minute)
		w.Crash()
		out, err := world.OutcomeOf(w, wf, "x")
		if want := []bool{true, false, false, true, false, true}; err != nil ||
			!slices.Equal(out, want) {
			t.Errorf("%v, %v, want %v", out, err, want)
		}
		d, err := w.Engine.Describe(context.Background(), "x")
		if want := []string{"debit:ORD 123", "other"}; err != nil ||
			!slices.Equal(d.State.Keys, want) {
			t.Errorf("outside it has the keys %q, %v", d.State.Keys, err)
		}
	})
}

func TestVariablesThatCannotBe(t *testing.T) {
	ctx := context.Background()
	world.CodeIs(t, perdure.SetVariable(ctx, "", 1), journal.CodeInvalid)
	world.CodeIs(t, perdure.RemoveVariable(ctx, "a b"), journal.CodeInvalid)
	world.CodeIs(t, perdure.SetVariable(ctx, "x", make(chan int)), journal.CodeEncode)
	world.CodeIs(t, perdure.SetVariable(ctx, "x", 1), journal.CodeMisuse)
	_, _, err := perdure.Variable[int](ctx, "x")
	world.CodeIs(t, err, journal.CodeMisuse)
	_, err = pattern.Variables(ctx)
	world.CodeIs(t, err, journal.CodeMisuse)
	_, err = pattern.AddKey(ctx, "")
	world.CodeIs(t, err, journal.CodeInvalid)
	_, err = pattern.AddKey(ctx, "k")
	world.CodeIs(t, err, journal.CodeMisuse)
	_, err = pattern.HasKey(ctx, "k")
	world.CodeIs(t, err, journal.CodeMisuse)
}

// A variable keeps values of every type: bytes too.
//
// spec: F-3
func TestAVariableOfBytesIsTheBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			if err := errors.Join(perdure.SetVariable(ctx, "bytes", []byte("\x00\xff")),
				perdure.SetVariable(ctx, "raw", json.RawMessage(`{"a":1}`))); err != nil {
				return "", err
			}
			b, found, err := perdure.Variable[[]byte](ctx, "bytes")
			raw, found2, err2 := perdure.Variable[json.RawMessage](ctx, "raw")
			all, err3 := pattern.Variables(ctx)
			return fmt.Sprintf("%q %v %s %v %s", b, found, raw, found2, all["bytes"]),
				errors.Join(err, err2, err3)
		})
		w := world.With(t, perdure.Options{}, wf)
		defer w.End()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		if got, err := world.OutcomeOf(w, wf, "x"); got != `"\x00\xff" true {"a":1} true "AP8="` ||
			err != nil {
			t.Errorf("it is %s, %v", got, err)
		}
	})
}
