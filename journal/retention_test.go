package journal_test

import (
	"math"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

// A retention returns for each status the period that it was made with, also after it was kept as
// text; a status without a period, or with one that is not readable, keeps the run.
//
// spec: P-3
func TestRetentionTellsThePeriodOfEachStatus(t *testing.T) {
	own := map[journal.Status]time.Duration{
		journal.Failed:    720 * time.Hour,
		journal.TimedOut:  -1,
		journal.Cancelled: 0,
	}
	for _, c := range []struct {
		r      journal.Retention
		status journal.Status
		want   time.Duration
		ends   bool
	}{
		{journal.NewRetention(48*time.Hour, own), journal.Completed, 48 * time.Hour, true},
		{journal.NewRetention(48*time.Hour, own), journal.Failed, 720 * time.Hour, true},
		{journal.NewRetention(48*time.Hour, own), journal.TimedOut, 0, false},
		{journal.NewRetention(48*time.Hour, own), journal.Cancelled, 0, true},
		{journal.NewRetention(-1, own), journal.Completed, 0, false},
		{journal.NewRetention(-1, own), journal.Failed, 720 * time.Hour, true},
		{journal.NewRetention(math.MaxInt64, nil), journal.Completed, math.MaxInt64, true},
		{"", journal.Completed, 0, false},
		{"soon", journal.Completed, 0, false},
		{"FAILED=1h", journal.Completed, 0, false},
		{"FAILED=1h", journal.Failed, time.Hour, true},
	} {
		if got, ends := c.r.Period(c.status); ends != c.ends || ends && got != c.want {
			t.Errorf("%q of %v: %v, %v; want %v, %v", c.r, c.status, got, ends, c.want, c.ends)
		}
	}
	own = map[journal.Status]time.Duration{journal.Failed: 720 * time.Hour, journal.TimedOut: -1}
	if got := journal.NewRetention(48*time.Hour, own); got != "48h0m0s FAILED=720h0m0s "+
		"TIMED_OUT=ever" {
		t.Errorf("in words: %q", got)
	}
}

// A run expires when its period has passed and it does not keep its ID any more.
//
// spec: P-3, R-27
func TestHeadExpires(t *testing.T) {
	ended := time.Unix(1000, 0)
	for _, c := range []struct {
		h    journal.Head
		want time.Time
	}{
		{journal.Head{Status: journal.Completed, Retain: "1h0m0s"}, time.Time{}},
		{journal.Head{Status: journal.Completed, Ended: ended}, time.Time{}},
		{
			journal.Head{
				Status: journal.Completed, Ended: ended, Retain: "ever", Keep: time.Minute,
			},
			time.Time{},
		},
		{
			journal.Head{Status: journal.Completed, Ended: ended, Retain: "1h0m0s"},
			ended.Add(time.Hour),
		},
		{
			journal.Head{
				Status: journal.Completed, Ended: ended, Retain: "1h0m0s", Keep: time.Minute,
			},
			ended.Add(time.Hour),
		},
		{
			journal.Head{
				Status: journal.Completed, Ended: ended, Retain: "1h0m0s", Keep: time.Hour,
			},
			ended.Add(time.Hour + 1),
		},
		{
			journal.Head{
				Status: journal.Completed, Ended: ended, Retain: "1h0m0s", Keep: math.MaxInt64,
			},
			ended.Add(math.MaxInt64),
		},
	} {
		if got := c.h.Expires(); !got.Equal(c.want) {
			t.Errorf("%+v expires %v, want %v", c.h, got, c.want)
		}
	}
}
