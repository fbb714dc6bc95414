package cron

import (
	"fmt"
	"time"
)

// A Fire is a time at which an expression fires.
type Fire struct {
	At   time.Time // in the zone of the expression
	Note string    // what the wall clock does to it; empty if nothing
}

// A period is a time with one offset from UTC. All numbers are seconds since 1970; local ones are
// what the wall clock shows, read as if it were UTC.
type period struct {
	start, end int64 // end is not in it
	offset     int64 // local = UTC + offset
	shown      int64 // the local time at which the period before ended
}

// farthest is how far Next looks, in seconds. Each expression that Parse accepts fires within 40
// years: the days of the week of a leap year recur after 28 years, or after 40 around a year such
// as 2100.
const farthest = 41 * 366 * 24 * 3600

// Next returns the first time after a time at which the expression fires.
func (e *Expression) Next(after time.Time) (Fire, bool) {
	at := after.Unix() + 1
	for until := at + farthest; at < until; {
		p := e.period(at)
		p.end = min(p.end, until)
		if f, found := e.within(p, at); found {
			return f, true
		}
		at = p.end
	}
	return Fire{}, false
}

// within returns the first time of a period, from at on, at which the expression fires.
func (e *Expression) within(p period, at int64) (Fire, bool) {
	from := at + p.offset
	if !e.anyHour {
		if at == p.start {
			if local, found := e.next(p.shown, p.start+p.offset); found {
				return Fire{e.time(p.start), skipped(local, p.shown, from)}, true
			}
		}
		from = max(from, p.shown)
	}
	local, found := e.next(from, p.end+p.offset)
	if !found {
		return Fire{}, false
	}
	f := Fire{At: e.time(local - p.offset)}
	after := e.bounds(p.end)
	if !e.anyHour && after.start == p.end && local >= after.start+after.offset {
		f.Note = time.Unix(local, 0).UTC().Format(time.TimeOnly) +
			" comes twice: this is the first time"
	}
	return f, true
}

// skipped describes a time that the clock skips, because it goes from one local time to another.
func skipped(local, from, to int64) string {
	form := time.TimeOnly
	if to-from >= 24*3600 {
		form = time.DateTime
	}
	show := func(local int64) string { return time.Unix(local, 0).UTC().Format(form) }
	return fmt.Sprintf("the clock goes from %s to %s and skips %s", show(from), show(to),
		show(local))
}

func (e *Expression) time(at int64) time.Time { return time.Unix(at, 0).In(e.zone) }

// bounds returns the period of an instant, without what was shown before.
func (e *Expression) bounds(at int64) period {
	t := e.time(at)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	p := period{start: at - farthest, end: at + farthest, offset: int64(offset)}
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	return p
}

// period returns the period of an instant.
func (e *Expression) period(at int64) period {
	p := e.bounds(at)
	p.shown = p.start + e.bounds(p.start-1).offset
	return p
}

// next returns the first local time from a time on and before until that the expression names.
func (e *Expression) next(from, until int64) (local int64, found bool) {
	for from < until {
		t := time.Unix(from, 0).UTC()
		year, month, day := t.Date()
		hour, minute, second := t.Clock()
		switch {
		case !e.month.has(int(month)):
			from = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Unix()
		case !e.isOn(day, t.Weekday()):
			from = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC).Unix()
		case !e.hour.has(hour):
			from += int64(3600 - minute*60 - second)
		case !e.minute.has(minute):
			from += int64(60 - second)
		case !e.second.has(second):
			from++
		default:
			return from, true
		}
	}
	return 0, false
}

// isOn reports whether the expression names a day.
func (e *Expression) isOn(day int, weekday time.Weekday) bool {
	a, b := e.day.has(day), e.weekday.has(int(weekday))
	if e.both {
		return a && b
	}
	return a || b
}
