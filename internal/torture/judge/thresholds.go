package judge

import (
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
)

// thresholds judges the alerts by rules with thresholds. Ends are counted in the order in which
// they are heard of, which no record has. So the judge demands what holds in every order:
//
//   - an alert is about as many runs as the threshold has, which had ended so before it
//   - each end counts once, and both thresholds begin anew: a run is in one alert
//   - what is left out of alerts is less than the threshold has, and as much for each success,
//     which begins a row anew; that is demanded if the time of the rule is longer than a round
//   - the runs of an alert by a time have ended within that time
func (b *bench) thresholds(known map[journal.RunID]*Run) {
	// by ID: the runs, and when it was first sent
	alerts := map[string]map[journal.RunID]time.Time{}
	for _, c := range b.Calls {
		id, is := isEndAlert(c.Label)
		if r := known[id]; !is || r == nil || play.Thresholds[r.Head.Workflow].To == nil {
			continue
		}
		if alerts[c.Step] == nil {
			alerts[c.Step] = map[journal.RunID]time.Time{}
		}
		if at, again := alerts[c.Step][id]; !again || c.At.Before(at) {
			alerts[c.Step][id] = c.At
		}
	}
	in := map[journal.RunID]string{}
	for _, id := range slices.Sorted(maps.Keys(alerts)) {
		b.threshold(id, alerts[id], known)
		for run := range alerts[id] {
			if in[run] != "" {
				b.wrong("run %s counts in alert %s and in %s", run, in[run], id)
			}
			in[run] = id
		}
	}
	for name, r := range play.Thresholds {
		left, most := 0, max(r.InARow, r.Times)-1
		for _, run := range b.Runs {
			switch {
			case run.Head.Workflow != name:
			case r.InARow > 0 && run.Head.Status.IsSuccess():
				most += r.InARow - 1
			case run.wasAlertable() && in[run.Head.ID] == "":
				left++
			}
		}
		if left > most && name != play.Briefly {
			b.wrong("no alert tells of %d runs of %s, and at most %d could be left out", left, name,
				most)
		}
	}
}

// threshold judges one alert.
func (b *bench) threshold(id string, runs map[journal.RunID]time.Time,
	known map[journal.RunID]*Run) {
	var first, last time.Time
	name := ""
	for run, at := range runs {
		h := known[run].Head
		if name != "" && h.Workflow != name {
			b.wrong("alert %s is about runs of %s and of %s", id, h.Workflow, name)
		}
		name = h.Workflow
		if at.Before(h.Ended) {
			b.wrong("alert %s tells of run %s %v before its end", id, run, h.Ended.Sub(at))
		}
		if first.IsZero() || h.Ended.Before(first) {
			first = h.Ended
		}
		if h.Ended.After(last) {
			last = h.Ended
		}
	}
	r := play.Thresholds[name]
	if n := max(r.InARow, r.Times); len(runs) != n {
		b.wrong("alert %s is about %d runs of %s, not %d", id, len(runs), name, n)
	}
	if r.Within > 0 && last.Sub(first) > r.Within {
		b.wrong("the runs of %s in alert %s have ended within %v, not %v", name, id,
			last.Sub(first), r.Within)
	}
}
