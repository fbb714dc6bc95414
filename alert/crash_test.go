package alert_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/perduretest"
)

// Wherever a crash comes, each end counts once: of five runs that fail, one alert tells. One end
// that counted twice would make a second alert.
//
// spec: R-31
func TestEachEndCountsOnceWhereverACrashComes(t *testing.T) {
	post := &office{}
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		post.texts()
		err := env.Do(func(e *perdure.Engine) error {
			return alert.Set(env.Context(), e, "bill", alert.Rule{
				InARow: 3, To: []string{ops}, Causes: []alert.Cause{alert.CauseEnded},
			}, admin.Note{})
		})
		if err != nil {
			env.Fatal(err)
		}
		env.Sleep(time.Minute)
		for i := range 5 {
			perduretest.Start(env, bill, true, perdure.ID(fmt.Sprint("b", i)))
			env.Sleep(time.Minute)
		}
		env.Sleep(10 * time.Minute)
		all := post.texts()
		if len(all) != 1 || all[0] != "ended: 3 runs of bill in a row have not succeeded" {
			env.Errorf("%q", all)
		}
		return all
	}, bill, alert.Workflow(alert.Options{Mail: post}))
}
