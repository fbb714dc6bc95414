package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
)

// A here is a transport to a world in this process.
type here struct{ *world }

func (h here) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	h.handle(answer, r)
	return answer.Result(), nil
}

// effectsOf returns the steps that called a world: one for each key.
func effectsOf(t testing.TB, w *world) []string {
	t.Helper()
	calls, err := ReadLedger(w.ledger.path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range effects(calls) {
		all = append(all, c.String())
	}
	return all
}

// Each call of the plan is made under one key, wherever a crash comes.
func TestEachJobBearsCrashes(t *testing.T) {
	// Virtual time begins then.
	p, err := NewPlan(1, 2, 0, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range p.Jobs {
		t.Run(j.ID, func(t *testing.T) {
			c := &client{}
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				w := testWorld(env, worldSetup{Stock: p.Stock, Accounts: p.Accounts})
				c.web.Transport = here{w}
				err := env.Do(func(e *perdure.Engine) error {
					_, err := e.Start(env.Context(), j.Workflow, j.Input, perdure.ID(j.ID),
						pattern.ModeSync)
					return err
				})
				if err != nil {
					env.Error(err)
				}
				env.Sleep(time.Hour)
				var want []string
				for _, target := range j.Calls {
					want = append(want, target.String())
				}
				got := effectsOf(env, w)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					env.Errorf("it was asked for %q, want %q", got, want)
				}
				return fmt.Sprint(got)
			}, workflows(c)...)
		})
	}
}
