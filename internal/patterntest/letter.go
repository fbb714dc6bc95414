package patterntest

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
)

// Letter gives the only dead letter that is open.
func Letter(env *perduretest.Env) (l perdure.Letter) {
	env.Helper()
	env.Settle()
	err := env.Do(func(eng *perdure.Engine) error {
		all, _, err := eng.DeadLetters(env.Context(), perdure.DeadLetterQuery{})
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("there are %d letters: %+v", len(all), all)
		}
		if err == nil {
			l = all[0]
		}
		return err
	})
	if err != nil {
		env.Fatal(err)
	}
	return l
}

// Retry retries what a letter is about from the failed step, and gives how that ends.
func Retry(env *perduretest.Env, l perdure.Letter) (r perdure.Report) {
	env.Helper()
	var run string
	err := env.Do(func(eng *perdure.Engine) error {
		again, err := eng.RetryDeadLetter(env.Context(), l.ID)
		if err == nil {
			run = string(again.RunID())
		}
		return err
	})
	for err == nil && !r.Status.IsTerminal() {
		env.Sleep(time.Second)
		err = env.Do(func(eng *perdure.Engine) (err error) {
			r, err = eng.Report(env.Context(), run)
			return err
		})
	}
	if err != nil {
		env.Fatal(err)
	}
	return r
}

// NoLetters checks that no dead letter is open any more.
func NoLetters(env *perduretest.Env) {
	env.Helper()
	env.Settle()
	err := env.Do(func(eng *perdure.Engine) error {
		all, _, err := eng.DeadLetters(env.Context(), perdure.DeadLetterQuery{})
		if len(all) > 0 {
			env.Errorf("letters are left: %+v", all)
		}
		return err
	})
	if err != nil {
		env.Fatal(err)
	}
}
