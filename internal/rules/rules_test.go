package rules

import (
	"math"
	"testing"
	"time"
)

// A bucket never gains more tokens than the rate has, however large its numbers are.
//
// spec: R-33
func TestTheTimeOfATokenIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		want time.Duration
	}{
		{Rate{}, 1},
		{Rate{Tokens: 1, Per: 1}, 1},
		{Rate{Tokens: 3, Per: 10}, 4},
		{Rate{Tokens: 10, Per: time.Second}, 100 * time.Millisecond},
		{Rate{Tokens: 3, Per: 2}, 1},
		{Rate{Tokens: math.MaxInt, Per: time.Second}, 1},
		{Rate{Tokens: math.MaxInt, Per: math.MaxInt64}, 1},
		{Rate{Tokens: 1, Per: math.MaxInt64}, math.MaxInt64},
		{Rate{Tokens: 2, Per: math.MaxInt64}, math.MaxInt64/2 + 1},
	} {
		if got := c.rate.Every(); got != c.want {
			t.Errorf("%+v: a token every %d ns, want %d", c.rate, got, c.want)
		}
	}
}
