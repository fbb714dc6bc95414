package perdure_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
)

// lingers are how long runs that wait stay in memory: not at all, and for a while. What
// comes of them must not depend on it.
var lingers = map[string]time.Duration{"rests": -1, "lingers": 0}

// eachLinger runs f in a bubble where a run rests at every wait, and where it lingers.
func eachLinger(t *testing.T, f func(t *testing.T, o perdure.Options)) {
	t.Helper()
	for name, linger := range lingers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, perdure.Options{Linger: linger}) })
		})
	}
}

// inBothModes runs a test in a world whose runs rest at every wait, and in one whose runs
// linger.
func inBothModes(t *testing.T, test func(*testing.T, *world), workflows ...perdure.Definition) {
	t.Helper()
	inBothModesWith(t, perdure.Options{}, test, workflows...)
}

// inBothModesWith is inBothModes with those options but Linger.
func inBothModesWith(
	t *testing.T, opts perdure.Options, test func(*testing.T, *world), workflows ...perdure.Definition,
) {
	t.Helper()
	eachLinger(t, func(t *testing.T, o perdure.Options) {
		opts := opts
		opts.Linger = o.Linger
		w := worldWith(t, opts, workflows...)
		defer func() { w.end() }()
		test(t, w)
	})
}
