package cron

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, text, zone string) *Expression {
	t.Helper()
	e, err := Parse(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTheClockMayJump has the times of expressions around changes of the clock. They were
// worked out by hand from the rules of R-34 and the tz database.
//
// spec: F-12, R-34
func TestTheClockMayJump(t *testing.T) {
	for _, c := range []struct{ text, zone, after, want string }{
		{
			"30 2 * * *", "America/New_York", "2026-03-07T00:00:00-05:00",
			"2026-03-07T02:30:00-05:00, 2026-03-08T03:00:00-04:00!, 2026-03-09T02:30:00-04:00",
		},
		{
			"30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00",
			"2026-11-01T01:30:00-04:00!, 2026-11-02T01:30:00-05:00",
		},
		{
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00+10:30",
			"2026-10-03T02:15:00+10:30, 2026-10-04T02:30:00+11:00!, 2026-10-05T02:15:00+11:00",
		},
		{
			"30 0 * * *", "Africa/Cairo", "2026-04-23T00:00:00+02:00",
			"2026-04-23T00:30:00+02:00, 2026-04-24T01:00:00+03:00!, 2026-04-25T00:30:00+03:00",
		},
		{
			"0 0 * * *", "America/Sao_Paulo", "2018-11-03T00:00:00-03:00",
			"2018-11-04T01:00:00-02:00!, 2018-11-05T00:00:00-02:00",
		},
		{
			"30 2 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00",
			"2011-12-29T02:30:00-10:00, 2011-12-31T00:00:00+14:00!, 2011-12-31T02:30:00+14:00",
		},
		{ // a wildcard hour follows the elapsed time
			"30 * * * *", "America/New_York", "2026-11-01T00:00:00-04:00",
			"2026-11-01T00:30:00-04:00, 2026-11-01T01:30:00-04:00, 2026-11-01T01:30:00-05:00, " +
				"2026-11-01T02:30:00-05:00",
		},
		{
			"30 */2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00",
			"2026-03-08T00:30:00-05:00, 2026-03-08T04:30:00-04:00",
		},
		{ // the skipped times of one gap fire once
			"*/20 2,3 * * *", "America/New_York", "2026-03-08T00:00:00-05:00",
			"2026-03-08T03:00:00-04:00!, 2026-03-08T03:20:00-04:00, 2026-03-08T03:40:00-04:00",
		},
		{ // seconds come first
			"30 0 12 * * 7", "", "2026-11-24T00:00:00Z", "2026-11-29T12:00:30Z",
		},
		{ // one of both days is enough
			"0 0 13 * FRI", "", "2026-11-10T00:00:00Z",
			"2026-11-13T00:00:00Z, 2026-11-20T00:00:00Z, 2026-11-27T00:00:00Z, " +
				"2026-12-04T00:00:00Z, 2026-12-11T00:00:00Z, 2026-12-13T00:00:00Z",
		},
		{"0 0 29 feb ?", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{
			"@weekly", "", "2026-11-24T00:00:00Z", "2026-11-29T00:00:00Z, 2026-12-06T00:00:00Z",
		},
		{
			"0 0 * * fri-sun", "", "2026-11-24T00:00:00Z",
			"2026-11-27T00:00:00Z, 2026-11-28T00:00:00Z, 2026-11-29T00:00:00Z, " +
				"2026-12-04T00:00:00Z",
		},
	} {
		t.Run(c.text+" "+c.zone, func(t *testing.T) {
			e := mustParse(t, c.text, c.zone)
			at, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range strings.Count(c.want, ",") + 1 {
				f, found := e.Next(at)
				if !found {
					t.Fatalf("nothing after %v", at)
				}
				s := f.At.Format(time.RFC3339)
				if f.Note != "" {
					s += "!"
				}
				got, at = append(got, s), f.At
			}
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestNotesSayWhatTheClockDoes(t *testing.T) {
	for _, c := range []struct{ text, zone, after, want string }{
		{
			"30 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00",
			"the clock goes from 02:00:00 to 03:00:00 and skips 02:30:00",
		},
		{
			"30 1 * * *", "America/New_York", "2026-11-01T00:00:00-04:00",
			"01:30:00 comes twice: this is the first time",
		},
		{
			"30 2 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00",
			"the clock goes from 2011-12-30 00:00:00 to 2011-12-31 00:00:00 and skips " +
				"2011-12-30 02:30:00",
		},
	} {
		at, _ := time.Parse(time.RFC3339, c.after)
		if f, _ := mustParse(t, c.text, c.zone).Next(at); f.Note != c.want {
			t.Errorf("%s in %s: %q, want %q", c.text, c.zone, f.Note, c.want)
		}
	}
}

// An oracle walks through all minutes and looks at the wall clock. It is as simple as the rules:
// it knows no periods, and remembers which local minutes it has seen.
type oracle struct {
	e    *Expression
	seen map[time.Time]bool // local minutes of the last days
	last time.Time          // the local minute before, as UTC
}

func local(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
}

func (o *oracle) names(local time.Time) bool {
	e := o.e
	day, weekday := e.day.has(local.Day()), e.weekday.has(int(local.Weekday()))
	return e.minute.has(local.Minute()) && e.hour.has(local.Hour()) &&
		e.month.has(int(local.Month())) && (day && weekday || !e.both && (day || weekday))
}

// fires reports whether the expression fires in the minute that begins at t.
func (o *oracle) fires(t time.Time) (fires bool) {
	now := local(t.In(o.e.zone))
	if o.e.anyHour {
		return o.names(now)
	}
	see := func(minute time.Time) {
		fires = fires || !o.seen[minute] && o.names(minute)
		o.seen[minute] = true
	}
	if len(o.seen) > 10_000 {
		maps.DeleteFunc(o.seen, func(minute time.Time, _ bool) bool {
			return now.Sub(minute) > 72*time.Hour
		})
	}
	if !o.last.IsZero() {
		for m := o.last.Add(time.Minute); m.Before(now); m = m.Add(time.Minute) {
			see(m)
		}
	}
	see(now)
	o.last = now
	return fires
}

// zones have changes of all sorts: of a whole day, of half an hour, at midnight, across
// midnight, a negative summer time, an end of all changes.
var zones = []string{
	"America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Africa/Cairo",
	"America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "Asia/Gaza", "Antarctica/Troll",
	"America/Caracas",
}

// change returns the next time at which the clock of a zone changes, or the zero time.
func change(zone *time.Location, after time.Time) time.Time {
	_, end := after.In(zone).ZoneBounds()
	return end
}

// whole makes the oracle walk through all of the fifty years, which takes minutes.
var whole = flag.Bool("whole", false, "compare every minute of fifty years")

// around returns the spans of some days around the changes of a zone in fifty years.
func around(zone *time.Location) (spans [][2]time.Time) {
	begin := time.Date(1976, 1, 1, 0, 0, 0, 0, time.UTC)
	end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if *whole {
		return [][2]time.Time{{begin, end}}
	}
	for at := begin; ; {
		next := change(zone, at)
		if next.IsZero() || next.After(end) {
			return spans
		}
		begin := next.Add(-4 * 24 * time.Hour).Truncate(time.Minute)
		spans = append(spans, [2]time.Time{begin, next.Add(48 * time.Hour)})
		at = next
	}
}

// random returns an expression of which many times fall into the hours in which clocks change.
func random(rng *rand.Rand) string {
	minute := []string{"*", "0", "30", "15", "*/7", "5,35", "59", "0-20"}[rng.IntN(8)]
	hour := []string{
		"*", "*/2", "0", "1", "2", "3", "23", "0-3", "1,2", "22-23", "12",
	}[rng.IntN(11)]
	day := []string{"*", "*", "*", "*/2", "1-15", "30"}[rng.IntN(6)]
	weekday := []string{"*", "*", "*", "SUN", "SAT-SUN", "*/3"}[rng.IntN(6)]
	return fmt.Sprintf("%s %s %s * %s", minute, hour, day, weekday)
}

// TestEveryMinuteIsAsTheOracleSays compares what fires around the changes of ten zones in fifty
// years with what an oracle says that walks through each minute.
//
// spec: R-34
func TestEveryMinuteIsAsTheOracleSays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, name := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for _, span := range around(zone) {
				for range 2 {
					compare(t, mustParse(t, random(rng), name), span[0], span[1])
				}
			}
		})
	}
}

// compare fails the test if an expression does not fire when the oracle says in a span. The first
// three days let the oracle see which local minutes there were.
func compare(t *testing.T, e *Expression, begin, end time.Time) {
	t.Helper()
	o := &oracle{e: e, seen: map[time.Time]bool{}}
	from := begin.Add(72 * time.Hour)
	var want, got []time.Time
	for m := begin; m.Before(end); m = m.Add(time.Minute) {
		if o.fires(m) && !m.Before(from) {
			want = append(want, m)
		}
	}
	for at := from.Add(-time.Second); ; {
		f, found := e.Next(at)
		if !found || !f.At.Before(end) {
			break
		}
		got, at = append(got, f.At), f.At
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%+v from %v:\n got %v\nwant %v", e, from, got, want)
	}
}

func TestWhatIsNoExpressionIsRefused(t *testing.T) {
	for _, c := range []struct{ text, zone, says string }{
		{"", "", "has 0 fields"},
		{"* * * *", "", "has 4 fields"},
		{"0 0 12 * * ? 2026", "", "has 7 fields"},
		{"60 * * * *", "", `minute "60" is not valid: allowed are 0 to 59`},
		{"-1 * * * *", "", `minute "-1" is not valid`},
		{"+1 * * * *", "", `minute "+1" is not valid`},
		{"1- * * * *", "", `minute "1-" is not valid`},
		{"0 24 * * *", "", `hour "24" is not valid`},
		{"0 0 0 * *", "", `day of the month "0" is not valid: allowed are 1 to 31`},
		{"0 0 * 13 *", "", `month "13" is not valid: allowed are 1 to 12, and JAN to DEC`},
		{"0 0 * * 8", "", `day of the week "8" is not valid`},
		{"0 0 * * MONDAY", "", "and SUN to SAT"},
		{"0 ? * * *", "", `hour "?" is not valid`},
		{"*/0 * * * *", "", "a step is 1 to 59"},
		{"*/-1 * * * *", "", "a step is 1 to 59"},
		{"*/60 * * * *", "", "a step is 1 to 59"},
		{"*/9999999999999999999 * * * *", "", "a step is 1 to 59"},
		{"0 22-2 * * *", "", "22 comes after 2; write two ranges, such as 22-23,0-2"},
		{"0 0 L * *", "", `day of the month "L" is not valid`},
		{"0 0 * * 1,,2", "", `day of the week "" is not valid`},
		{"0 0 30 2 *", "", `no day fits: no month of "2" has a day of "30"`},
		{"0 0 31 2,4,6 *", "", "no day fits"},
		{"@every 1ns", "", "has 2 fields"},
		{"@reboot", "", "has 1 fields"},
		{"TZ=UTC", "", `"TZ=UTC" is not valid: the time zone is an option of its own`},
		{"CRON_TZ=../../etc/passwd 0 0 * * *", "", "the time zone is an option of its own"},
		{strings.Repeat("1,", 1<<20) + "1 * * * *", "", "at most 1000"},
		{"0 0 * * *", "Mars/Olympus", `there is no time zone "Mars/Olympus"`},
		{"0 0 * * *", "../../etc/passwd", "there is no time zone"},
		{"0 0 * * *", "/etc/localtime", "there is no time zone"},
		{"0 0 * * *", "UTC\x00", "there is no time zone"},
		{"0 0 * * *", "Local", "it differs between machines"},
	} {
		if _, err := Parse(c.text, c.zone); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.40q in %q: %v, want %s", c.text, c.zone, err, c.says)
		}
	}
}

// FuzzParse looks for texts that panic, and for expressions that never fire.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"* * * * *", "0 0 29 2 */7", "1-5/2,MON ? L W #", "@daily"} {
		f.Add(text)
	}
	after := time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text, "")
		if err != nil {
			return
		}
		if f, found := e.Next(after); !found || !f.At.After(after) {
			t.Errorf("%q fires at %v, %v", text, f.At, found)
		}
	})
}
