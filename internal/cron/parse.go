package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the system may have no zones
)

// maxText is the length of an expression that is read, in bytes.
const maxText = 1000

// An Expression is a cron expression in a time zone. It never changes.
type Expression struct {
	second, minute, hour, day, month, weekday set

	anyHour bool // the hour is a wildcard
	// one of both is a wildcard, so that a day must be in both sets; otherwise one is enough
	both bool
	zone *time.Location
}

// A set has the values of a field: bit n stands for n.
type set uint64

func (s set) has(n int) bool { return s>>n&1 == 1 }

// A field is one of the fields of an expression.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
	question bool     // ? means *
}

var (
	seconds = field{name: "second", max: 59}
	minutes = field{name: "minute", max: 59}
	hours   = field{name: "hour", max: 23}
	days    = field{name: "day of the month", min: 1, max: 31, question: true}
	months  = field{name: "month", min: 1, max: 12, names: []string{
		"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
	}}
	// 7 is Sunday, as 0 is
	weekdays = field{name: "day of the week", max: 7, question: true, names: []string{
		"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT",
	}}
)

// short has the words that stand for an expression.
var short = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
	"@hourly": "0 * * * *",
}

// Parse reads an expression with five fields (minute, hour, day of the month, month, day of the
// week) or six (a second before them), or a word such as @daily. The zone is a name of the tz
// database; empty means UTC. If day of the month and day of the week are both given, one of them is
// enough. Parse fails if no day fits the expression.
func Parse(text, zone string) (*Expression, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the expression has %d bytes, at most %d", len(text), maxText)
	}
	in, err := zoneOf(zone)
	if err != nil {
		return nil, err
	}
	parts := strings.Fields(text)
	if len(parts) == 1 && short[strings.ToLower(parts[0])] != "" {
		parts = strings.Fields(short[strings.ToLower(parts[0])])
	}
	if len(parts) > 0 && strings.Contains(parts[0], "TZ=") {
		return nil, fmt.Errorf("%q is not valid: the time zone is an option of its own", parts[0])
	}
	switch len(parts) {
	case 5:
		parts = append([]string{"0"}, parts...)
	case 6:
	default:
		return nil, fmt.Errorf("the expression has %d fields: allowed are five (minute, hour, "+
			"day of the month, month, day of the week) or six (a second before them)", len(parts))
	}
	e := &Expression{zone: in}
	for i, to := range []struct {
		field
		*set
	}{
		{seconds, &e.second}, {minutes, &e.minute}, {hours, &e.hour}, {days, &e.day},
		{months, &e.month}, {weekdays, &e.weekday},
	} {
		if *to.set, err = to.read(parts[i]); err != nil {
			return nil, err
		}
	}
	if e.weekday.has(7) {
		e.weekday |= 1
	}
	e.anyHour = strings.HasPrefix(parts[2], "*")
	e.both = isWildcard(parts[3]) || isWildcard(parts[5])
	if !e.isPossible() {
		return nil, fmt.Errorf("no day fits: no month of %q has a day of %q", parts[4], parts[3])
	}
	return e, nil
}

func isWildcard(part string) bool { return part[0] == '*' || part[0] == '?' }

// zoneOf returns the zone of a name.
func zoneOf(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`the time zone "Local" is not valid: it differs between machines; ` +
			"name the zone, such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %.100q: allowed are names of the tz "+
			"database, such as UTC or Europe/Berlin", name)
	}
	return zone, nil
}

// read returns the values of a field: a list of values, ranges and steps.
func (f field) read(text string) (set, error) {
	var all set
	for part := range strings.SplitSeq(text, ",") {
		one, why := f.part(part)
		if why != "" {
			return 0, fmt.Errorf("%s %q is not valid: %s", f.name, part, why)
		}
		all |= one
	}
	return all, nil
}

// part returns the values of a part of a list, or why it is not valid.
func (f field) part(text string) (values set, why string) {
	span, by, stepped := strings.Cut(text, "/")
	first, last, isRange := strings.Cut(span, "-")
	lo, hi := f.min, f.max
	if f.max == 7 {
		hi = 6 // each day once
	}
	if span != "*" && (span != "?" || !f.question) {
		var ok bool
		if lo, ok = f.value(first); !ok {
			return 0, f.allowed()
		}
		switch {
		case isRange:
			if hi, ok = f.value(last); !ok {
				return 0, f.allowed()
			}
			if f.max == 7 && hi == 0 && lo > 0 {
				hi = 7 // until Sunday
			}
		case !stepped:
			hi = lo
		}
	}
	step := 1
	if stepped {
		n, err := strconv.Atoi(by)
		if err != nil || n < 1 || n > f.max {
			return 0, fmt.Sprintf("a step is 1 to %d", f.max)
		}
		step = n
	}
	if lo > hi {
		return 0, fmt.Sprintf("%s comes after %s; write two ranges, such as %s-%d,%d-%s", first,
			last, first, f.max, f.min, last)
	}
	for n := lo; n <= hi; n += step {
		values |= 1 << n
	}
	return values, ""
}

func (f field) allowed() string {
	s := fmt.Sprintf("allowed are %d to %d", f.min, f.max)
	if f.names != nil {
		s += fmt.Sprintf(", and %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return s + ", ranges such as 1-5, lists such as 1,3 and steps such as */2"
}

// value returns the value of a number or name.
func (f field) value(text string) (n int, ok bool) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, true
		}
	}
	if len(text) == 0 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && f.min <= n && n <= f.max
}

// isPossible reports whether a day fits the expression.
func (e *Expression) isPossible() bool {
	if !e.both {
		return true // one of the days of the week is enough
	}
	first := bits.TrailingZeros64(uint64(e.day))
	for m := time.January; m <= time.December; m++ {
		last := time.Date(2024, m+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if e.month.has(int(m)) && first <= last {
			return true
		}
	}
	return false
}
