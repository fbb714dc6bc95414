package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
)

// IdleTimeouts are how long runs that wait stay in memory: not at all, and for a while. What
// comes of them must not depend on it.
var IdleTimeouts = map[string]time.Duration{"at once": -1, "after a while": 0}

// EachIdleTimeout calls f in a bubble with the options for runs that are unloaded at every wait,
// and in one with those for runs that stay for a while.
func EachIdleTimeout(t *testing.T, f func(t *testing.T, o perdure.Options)) {
	t.Helper()
	for name, idle := range IdleTimeouts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, perdure.Options{IdleTimeout: idle}) })
		})
	}
}

// InBothModes runs a test in a world whose runs are unloaded at every wait, and in one whose runs
// stay for a while.
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
	EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		opts := opts
		opts.IdleTimeout = o.IdleTimeout
		w := With(t, opts, workflows...)
		defer func() { w.End() }()
		test(t, w)
	})
}
