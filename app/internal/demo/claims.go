package demo

import (
	"fmt"
	"slices"
	"time"
)

func killsHappened(e Evidence) Check {
	c := Check{Claim: counted(len(e.Plan.Kills), "kill")}
	if n := len(e.Plan.Pauses); n > 0 {
		c.Claim += ", " + counted(n, "pause")
	}
	all := slices.Concat(e.Plan.Kills, e.Plan.Pauses)
	if len(e.Kills) != len(all) {
		c.wrong("%d were planned and %d happened", len(all), len(e.Kills))
	}
	times := map[Target]int{}
	for _, k := range e.Kills {
		times[k.Call.Target]++
		if k.Paused && !slices.Contains(e.Plan.Pauses, k.Call.Target) ||
			!k.Paused && !slices.Contains(e.Plan.Kills, k.Call.Target) {
			c.wrong("%s was hit otherwise than planned", k.Call.Target)
		}
	}
	for _, t := range all {
		if times[t] != 1 {
			c.wrong("%s was hit %d times", t, times[t])
		}
	}
	return c
}

// deadTakenOver checks that the store lets another engine take over each dead or paused
// engine.
func deadTakenOver(e Evidence) Check {
	c := Check{Claim: "each dead or paused node taken over"}
	for _, k := range e.Kills {
		switch {
		case k.Engine == 0:
			c.wrong("worker %d had no engine", k.Call.Worker)
		case !k.Taken:
			c.wrong("engine %d of worker %d was not", k.Engine, k.Call.Worker)
		}
	}
	return c
}

// repeated returns the call by which another worker repeated the call that the kill or
// pause hit.
func (k Kill) repeated(calls []Call) (Call, bool) {
	i := slices.IndexFunc(calls, func(l Call) bool {
		return l.Seq > k.Call.Seq && l.Key == k.Call.Key && l.Worker != k.Call.Worker
	})
	if i < 0 {
		return Call{}, false
	}
	return calls[i], true
}

// takeovers returns the time from each kill or pause until another worker repeated the
// call.
func takeovers(e Evidence) []time.Duration {
	var all []time.Duration
	for _, k := range e.Kills {
		if l, ok := k.repeated(e.Calls); ok {
			all = append(all, l.At.Sub(k.At))
		}
	}
	return all
}

// killedCallsRepeated checks that each kill hit a call whose result was not stored: a later
// worker called again, with the same key.
func killedCallsRepeated(e Evidence) Check {
	c := Check{Claim: "each killed call repeated under its key"}
	for _, k := range e.Kills {
		if _, repeated := k.repeated(e.Calls); !repeated {
			c.wrong("%s was not", k.Call.Target)
		}
	}
	return c
}

// finishedNotRepeated checks that no worker that came after a kill repeated a step whose
// result the store had by then.
func finishedNotRepeated(e Evidence) Check {
	c := Check{Claim: "no finished step run again"}
	dead := map[int]bool{}
	for _, k := range e.Kills {
		// other calls of a killed worker may be in the ledger after the call that it was
		// killed in
		dead[k.Call.Worker] = true
		for _, l := range e.Calls {
			if l.Seq > k.Call.Seq && !dead[l.Worker] && slices.Contains(k.Finished, l.Target) {
				c.wrong("%s was, in line %d", l.Target, l.Seq)
			}
		}
	}
	return c
}

// keysOwned checks that no key was used for two different things: the world would do
// nothing for the second one.
func keysOwned(e Evidence) Check {
	c := Check{Claim: "each key for one thing"}
	owner := map[string]Target{}
	for _, l := range e.Calls {
		if first, seen := owner[l.Key]; seen && first != l.Target {
			c.wrong("%s used the key of %s", l.Target, first)
		}
		owner[l.Key] = l.Target
	}
	return c
}

// effects returns the first call under each key. The world has one effect for each key.
func effects(calls []Call) []Call {
	seen := map[string]bool{}
	var first []Call
	for _, l := range calls {
		if !seen[l.Key] {
			seen[l.Key] = true
			first = append(first, l)
		}
	}
	return first
}

// onceEach returns a function that checks some actions: each planned call was made under
// one key, and no other calls were made.
func onceEach(e Evidence) func(claim string, actions ...Action) Check {
	keys, planned := map[Target]int{}, map[Target]bool{}
	var targets []Target
	for _, j := range e.Plan.Jobs {
		for _, t := range j.Calls {
			planned[t] = true
			targets = append(targets, t)
		}
	}
	for _, l := range effects(e.Calls) {
		keys[l.Target]++
		if !planned[l.Target] && keys[l.Target] == 1 {
			targets = append(targets, l.Target)
		}
	}
	return func(claim string, actions ...Action) Check {
		c := Check{Claim: claim}
		for _, t := range targets {
			want := 0
			if planned[t] {
				want = 1
			}
			if slices.Contains(actions, t.Action()) && keys[t] != want {
				c.wrong("%s under %s, want %d", t, counted(keys[t], "key"), want)
			}
		}
		return c
	}
}

// amounts returns the sum of the amounts of the actions in, less the amounts of the action
// out. Refused calls do not count.
func amounts(calls []Call, out Action, in ...Action) (moved int64) {
	for _, l := range effects(calls) {
		switch {
		case l.Refused != "":
		case l.Action() == out:
			moved -= l.Amount
		case slices.Contains(in, l.Action()):
			moved += l.Amount
		}
	}
	return moved
}

// last returns what a service had left after the last of the chosen calls, or first if
// there is no such call.
func last(calls []Call, what func(Call) bool, first int64) int64 {
	for _, l := range slices.Backward(calls) {
		if what(l) {
			return l.Left
		}
	}
	return first
}

func stockRight(e Evidence, once func(string, ...Action) Check) Check {
	want := e.Plan.Left
	c := once(fmt.Sprintf("each order shipped once, stock %d of %d", want, e.Plan.Stock), Ship)
	if left := e.Plan.Stock + amounts(e.Calls, Reserve, Release); left != want {
		c.wrong("the calls leave %d", left)
	}
	shelf := last(e.Calls, func(l Call) bool {
		return l.Action() == Reserve || l.Action() == Release
	}, e.Plan.Stock)
	if shelf != want {
		c.wrong("the shelf has %d", shelf)
	}
	return c
}

// moneyConserved compares the money that the bank had with the money that it has: by the
// balances in its answers, and by the amounts of the calls.
func moneyConserved(e Evidence) Check {
	var had, has int64
	for _, a := range e.Plan.Accounts {
		had += a.Cents
		has += last(e.Calls, func(l Call) bool { return l.Account == a.Name }, a.Cents)
	}
	c := Check{Claim: "money conserved " + amount(had)}
	if has != had {
		c.wrong("the bank has %s", amount(has))
	}
	if moved := amounts(e.Calls, Hold, Give, GiveBack); moved != 0 {
		c.wrong("the calls leave %s", amount(had+moved))
	}
	return c
}

func modelPaid(e Evidence, once func(string, ...Action) Check) Check {
	c := once(fmt.Sprintf("each model call paid once, %d tokens", e.Plan.Tokens), Think, Search,
		Track, Weather)
	if paid := last(e.Calls, func(l Call) bool { return l.Action() == Think },
		0); paid != e.Plan.Tokens {
		c.wrong("%d were paid", paid)
	}
	return c
}

// noRunLost checks that each run has ended, or waits, as planned. A run that waits must
// have the planned time at which it goes on by itself.
func noRunLost(e Evidence) Check {
	var waiting int
	planned := map[string]bool{}
	c := Check{}
	for _, j := range e.Plan.Jobs {
		planned[j.ID] = true
		if j.Waits != 0 {
			waiting++
		}
		s, there := e.Runs[j.ID]
		switch {
		case !there && e.Accepted[j.ID]:
			c.wrong("%s was accepted and is gone", j.ID)
		case !there:
			c.wrong("%s was never accepted", j.ID)
		case s.Status != j.Status:
			c.wrong("%s is %s, want %s", j.ID, s.Status, j.Status)
		case j.Waits != 0 && (s.Due.Before(e.Plan.Made.Add(j.Waits)) ||
			s.Due.After(e.Judged.Add(j.Waits))):
			c.wrong("%s goes on in %s, want %s", j.ID, s.Due.Sub(e.Plan.Made).Round(time.Second),
				j.Waits)
		}
	}
	c.Claim = fmt.Sprintf("no run lost: %d ended, %d wait", len(e.Plan.Jobs)-waiting, waiting)
	for id := range e.Runs {
		if !planned[id] {
			c.wrong("nobody asked for %s", id)
		}
	}
	return c
}
