package journal

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Retention is the period for which a run is kept after its end, by the status that it ends with.
// It is a text in the run's row, such as "168h0m0s" or "48h0m0s FAILED=720h0m0s TIMED_OUT=ever". An
// empty Retention is not set: the run is kept.
type Retention string

// ever is a period without an end.
const ever = "ever"

// NewRetention returns a retention with one period for all statuses but those that have their own.
// A negative period is for ever.
func NewRetention(period time.Duration, byStatus map[Status]time.Duration) Retention {
	text := []string{periodText(period)}
	for _, s := range slices.Sorted(maps.Keys(byStatus)) {
		text = append(text, s.String()+"="+periodText(byStatus[s]))
	}
	return Retention(strings.Join(text, " "))
}

func periodText(d time.Duration) string {
	if d < 0 {
		return ever
	}
	return d.String()
}

// Period returns how long a run that ends with that status is kept. It returns false if the run is
// kept for ever, or if no period is set.
func (r Retention) Period(s Status) (time.Duration, bool) {
	found := ""
	for i, word := range strings.Fields(string(r)) {
		status, period, own := strings.Cut(word, "=")
		switch {
		case i == 0 && !own:
			found = word
		case own && status == s.String():
			found = period
		}
	}
	d, err := time.ParseDuration(found) // ParseDuration refuses "ever" and ""
	return d, err == nil
}

// Expires returns the time from which an ended run is not kept any more: its retention has passed,
// and so has the period in which it keeps its workflow ID. It is zero for a run that is open or
// kept for ever.
func (h *Head) Expires() time.Time {
	if h.Ended.IsZero() {
		return time.Time{}
	}
	period, ok := h.Retain.Period(h.Status)
	if !ok {
		return time.Time{}
	}
	if h.Keep > 0 {
		// at that moment it still keeps its ID
		period = max(period, min(h.Keep, math.MaxInt64-1)+1)
	}
	return h.Ended.Add(period)
}
