package demo

import "testing"

func TestMoneyIsWrittenAsPeopleDo(t *testing.T) {
	for cents, want := range map[int64]string{
		0:           "0.00",
		5:           "0.05",
		99_999:      "999.99",
		100_000:     "1,000.00",
		123_456_789: "1,234,567.89",
	} {
		if got := amount(cents); got != want {
			t.Errorf("%d: %s, want %s", cents, got, want)
		}
	}
}

func TestARunIsToldByItsActions(t *testing.T) {
	calls := []Call{
		{Target: Target{"a", "think[1]"}, Key: "1"},
		{Target: Target{"a", "think[2]"}, Key: "2"},
		{Target: Target{"b", "ship"}, Key: "3"},
		{Target: Target{"a", "think[2]"}, Key: "2"},
		{Target: Target{"a", "confirm:credit"}, Key: "4", Refused: "no"},
		{Target: Target{"a", "ask"}, Key: "5"},
	}
	if got, want := asked("a", calls),
		"think 2× ✓ (called 3×)  confirm:credit ✗ no  ask ✓  "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
