package howto

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// A world is outside of the workflow. It does once what has one key.
type world struct {
	charged, packed map[string]int
	drawn           int
	printed         []string
	rang            int
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.charged[r.Header.Get("Idempotency-Key")]++
	return &http.Response{
		Status: "201 Created", StatusCode: http.StatusCreated,
		Body: io.NopCloser(strings.NewReader("")),
	}, nil
}

func newWorld() (*world, Shop) {
	w := &world{charged: map[string]int{}, packed: map[string]int{}}
	return w, Shop{
		Client: &http.Client{Transport: w},
		Bank:   "https://bank.example/charges",
		Pack: func(_ context.Context, key, item string) error {
			w.packed[item+" "+key]++
			return nil
		},
		Label: func() (string, error) { w.drawn++; return "L-" + strconv.Itoa(w.drawn), nil },
		Print: func(number string) error { w.printed = append(w.printed, number); return nil },
		Ring:  func(string) error { w.rang++; return nil },
	}
}

var tea = Order{ID: "ord-1", Items: []string{"pot", "tea"}, Cents: 4200}

func TestEachEffectHasOneKeyHoweverOftenItIsTried(t *testing.T) {
	w, shop := newWorld()
	fulfil := Fulfil(shop)
	perduretest.Test(t, func(env *perduretest.Env) {
		lost := errors.New("the answer was lost")
		env.Step("charge").FailAfter(2, lost)
		env.Step("pack").FailAfter(1, lost)
		env.Step("label").FailAfter(1, lost)
		run := perduretest.Start(env, fulfil, tea)
		run.Returns("L-1")
	}, fulfil)
	if len(w.charged) != 1 || len(w.packed) != 2 ||
		!slices.Equal(w.printed, []string{"L-1", "L-1"}) {
		t.Errorf("%+v", w)
	}
}

func TestACrashAnywhereChargesOnce(t *testing.T) {
	w, shop := newWorld()
	fulfil := Fulfil(shop)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		w.charged, w.packed = map[string]int{}, map[string]int{}
		run := perduretest.Start(env, fulfil, tea)
		_, err := run.Result()
		return []any{len(w.charged), len(w.packed), err}
	}, fulfil)
}

func TestACrashAnywhereRingsNoSecondTime(t *testing.T) {
	w, shop := newWorld()
	announce := Announce(shop)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		w.rang = 0
		run := perduretest.Start(env, announce, tea)
		env.Settle()
		d, err := env.Engine().Describe(env.Context(), run.ID())
		if err == nil && d.Head.Status == journal.Suspended {
			err = env.Engine().Decide(env.Context(), run.ID(), "ring",
				perdure.Decision{Choice: "yes"})
		}
		if err != nil || w.rang > 1 {
			env.Errorf("it rang %d times, %v", w.rang, err)
		}
		run.Returns(true)
		return nil
	}, announce)
}

func TestAStartThatIsRepeatedFindsTheRun(t *testing.T) {
	_, shop := newWorld()
	fulfil := Fulfil(shop)
	perduretest.Test(t, func(env *perduretest.Env) {
		for _, want := range []bool{true, false} {
			isNew, err := Begin(env.Context(), env.Engine(), fulfil, tea)
			if err != nil || isNew != want {
				t.Error(isNew, err)
			}
		}
	}, fulfil)
}
