package schedule

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/perdure/perdure/internal/cron"
)

// A timetable has the nominal times of a schedule with a cron expression or a rate, and the times
// at which they are due: later by their jitter.
type timetable struct {
	name   string
	cron   *cron.Expression // nil for a rate
	every  time.Duration
	anchor time.Time // the first time of a rate
	jitter time.Duration
}

// newTimetable returns the timetable of a spec; of a fixed delay it has no times.
func newTimetable(name string, s Spec) (timetable, error) {
	t := timetable{name: name, every: s.Every, jitter: s.Jitter}
	if s.Cron == "" {
		return t, nil
	}
	var err error
	t.cron, err = cron.Parse(s.Cron, s.Zone)
	return t, err
}

// next returns the first nominal time after a time.
func (t timetable) next(after time.Time) (Time, bool) {
	switch {
	case t.cron != nil:
		f, found := t.cron.Next(after)
		return timeOf(f), found
	case t.every <= 0:
		return Time{}, false
	case after.Before(t.anchor):
		return Time{At: t.anchor}, true
	}
	return Time{At: t.anchor.Add((after.Sub(t.anchor)/t.every + 1) * t.every)}, true
}

// since returns the timetable with a rate that has gone on since a time.
func (t timetable) since(from time.Time) timetable {
	if t.every > 0 && from.Before(t.anchor) {
		t.anchor = t.anchor.Add(-(t.anchor.Sub(from)/t.every + 1) * t.every)
	}
	return t
}

// due returns when a nominal time is due.
func (t timetable) due(nominal time.Time) time.Time {
	most := t.jitter
	if most <= 0 {
		return nominal
	}
	if following, found := t.next(nominal); found {
		most = min(most, following.At.Sub(nominal))
	}
	h := fnv.New64a()
	h.Write([]byte(t.name))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(nominal.UnixNano())))
	return nominal.Add(time.Duration(mix(h.Sum64()) % uint64(most)))
}

// mix spreads the differences of similar values over all bits.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// A stretch has the nominal times of a period.
type stretch struct {
	first, last time.Time
	n           int
	more        bool // there are more than n
}

// counted limits how many nominal times are walked through at once.
const counted = 10_000

// between returns the nominal times after a time that are due by another.
func (t timetable) between(after, by time.Time) (s stretch) {
	for at := after; ; {
		next, found := t.next(at)
		if !found || next.At.After(by) || t.due(next.At).After(by) {
			return s
		}
		at = next.At
		if s.n++; s.n == 1 {
			s.first = at
		}
		s.last = at
		if s.n == counted {
			s.last, s.more = t.lastBy(at, by)
			return s
		}
	}
}

// lastBy returns the last nominal time that is due by a time, and whether it is another one than a
// known one.
func (t timetable) lastBy(known, by time.Time) (last time.Time, more bool) {
	last = known
	for back := time.Minute; ; back *= 4 {
		from := by.Add(-back)
		if back > longestDue || from.Before(known) {
			from = known
		}
		if next, found := t.next(from); found && !t.due(next.At).After(by) {
			for at := next.At; ; {
				last = at
				next, found := t.next(at)
				if !found || t.due(next.At).After(by) {
					return last, last.After(known)
				}
				at = next.At
			}
		}
		if from.Equal(known) {
			return last, false
		}
	}
}

// note returns the note of a nominal time.
func (t timetable) note(at time.Time) string {
	if t.cron == nil {
		return ""
	}
	f, _ := t.cron.Next(at.Add(-time.Second))
	return f.Note
}
