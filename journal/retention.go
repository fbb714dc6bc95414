package journal

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Retention says for how long a run is kept after its end, by the status that it
// ends with. It is kept with the run in words, such as "168h0m0s" or "48h0m0s
// FAILED=720h0m0s TIMED_OUT=ever". The empty one is of a run that nobody has said it
// of: that is kept.
type Retention string

// ever stands for a period without an end.
const ever = "ever"

// NewRetention returns the retention with a period for all statuses but some that
// have their own. A period below 0 is for ever.
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

// Period returns for how long a run is kept that ends with a status. It reports false
// if that is for ever, or if nobody can tell.
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
	d, err := time.ParseDuration(found) // which refuses "ever" and ""
	return d, err == nil
}

// Expires returns when a run that has ended is kept no longer: when its retention has
// passed, and when it does not stand for its workflow ID any more. It is zero for a run
// that is open or kept for ever.
func (h *Head) Expires() time.Time {
	if h.Ended.IsZero() {
		return time.Time{}
	}
	period, ok := h.Retain.Period(h.Status)
	if !ok {
		return time.Time{}
	}
	if h.Keep > 0 {
		// it stands for the ID at that moment still
		period = max(period, min(h.Keep, math.MaxInt64-1)+1)
	}
	return h.Ended.Add(period)
}
