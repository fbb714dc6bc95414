//go:build unix

package main

import (
	"flag"
	"iter"
	"testing"
	"time"
)

var (
	firstSeed = flag.Uint64("torture.seed", 0,
		"the first seed of random programs; 0 is one of the clock")
	seedCount = flag.Int("torture.seeds", 0, "how many seeds; 0 is few")
)

// seeds returns random seeds and logs the first one, with which the test is run again.
func seeds(t *testing.T, n int) iter.Seq[uint64] {
	first := *firstSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1_000_000)
	}
	if *seedCount > 0 {
		n = *seedCount
	}
	t.Logf("go test ./internal/torture -run '^%s$' -torture.seed=%d", t.Name(), first)
	return func(yield func(uint64) bool) {
		for i := range uint64(n) {
			if !yield(first + i) {
				return
			}
		}
	}
}
