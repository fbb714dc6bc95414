package world

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Seeded returns random numbers, and logs the seed that repeats them.
func Seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TryThrice fails the test if a comparison of times fails three times: others may use the
// machine.
func TryThrice(t testing.TB, compare func() error) {
	t.Helper()
	var err error
	for range 3 {
		if err = compare(); err == nil {
			return
		}
	}
	t.Error(err)
}
