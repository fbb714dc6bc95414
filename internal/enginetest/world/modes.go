package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
)

// Lingers are how long runs that wait stay in memory: not at all, and for a while. What
// comes of them must not depend on it.
var Lingers = map[string]time.Duration{"rests": -1, "lingers": 0}

// EachLinger calls f in a bubble with the options for runs that rest at every wait, and in
// one with those for runs that linger.
func EachLinger(t *testing.T, f func(t *testing.T, o perdure.Options)) {
	t.Helper()
	for name, linger := range Lingers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, perdure.Options{IdleTimeout: linger}) })
		})
	}
}

// InBothModes runs a test in a world whose runs rest at every wait, and in one whose runs
// linger.
func InBothModes(t *testing.T, test func(*testing.T, *World), workflows ...perdure.Definition) {
	t.Helper()
	InBothModesWith(t, perdure.Options{}, test, workflows...)
}

// InBothModesWith is InBothModes with those options but IdleTimeout.
func InBothModesWith(
	t *testing.T, opts perdure.Options, test func(*testing.T, *World),
	workflows ...perdure.Definition,
) {
	t.Helper()
	EachLinger(t, func(t *testing.T, o perdure.Options) {
		opts := opts
		opts.IdleTimeout = o.IdleTimeout
		w := With(t, opts, workflows...)
		defer func() { w.End() }()
		test(t, w)
	})
}
