package app

import (
	"testing"
	"time"
)

func TestAnAgeHasItsTwoLargestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m0s",
		time.Hour - 1: "59m59s", 25*time.Hour - 1: "1d0h", 24*time.Hour - 1: "23h59m",
		1000 * time.Hour: "41d16h",
	} {
		if got := age(d); got != want {
			t.Errorf("the age of %d is %s, want %s", d, got, want)
		}
	}
}
