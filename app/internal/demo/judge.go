package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/journal"
)

// A Kill is one death of a worker.
type Kill struct {
	Call     Call     // which it waited for
	Finished []Action // what the order's journal had the result of
}

// Evidence is what a demo is judged by: what was planned, what the supervisor
// did and was told, the world's ledger, and which runs the store lists.
type Evidence struct {
	Plan     Plan
	Kills    []Kill
	Accepted map[string]bool // orders that a worker said are durable
	Calls    []Call
	Runs     map[string]journal.Status // by workflow ID
}

// A Check is one claim and what was seen.
type Check struct {
	Claim string
	Wrong []string // what speaks against it; none where it is true
}

// OK says whether the claim is true.
func (c Check) OK() bool { return len(c.Wrong) == 0 }

func (c *Check) wrong(format string, args ...any) {
	c.Wrong = append(c.Wrong, fmt.Sprintf(format, args...))
}

// Judge gives the checks of a demo.
func Judge(e Evidence) []Check {
	return []Check{
		killsHappened(e), killedCallsRepeated(e), finishedNotRepeated(e),
		chargedOnce(e), stockRight(e), noRunLost(e),
	}
}

func killsHappened(e Evidence) Check {
	c := Check{Claim: counted(len(e.Plan.Kills), "kill")}
	if len(e.Kills) != len(e.Plan.Kills) {
		c.wrong("%d were planned and %d happened", len(e.Plan.Kills), len(e.Kills))
	}
	for _, t := range e.Plan.Kills {
		n := 0
		for _, k := range e.Kills {
			if k.Call.Order == t.Order && k.Call.Action == t.Action {
				n++
			}
		}
		if n != 1 {
			c.wrong("%s of %s was killed %d times", t.Action, t.Order, n)
		}
	}
	return c
}

// killedCallsRepeated looks for the evidence that each kill hit a call whose
// result was not stored: a later worker called again, with the same key.
func killedCallsRepeated(e Evidence) Check {
	c := Check{Claim: "each killed call repeated under its key"}
	for _, k := range e.Kills {
		repeated := slices.ContainsFunc(e.Calls, func(l Call) bool {
			return l.Seq > k.Call.Seq && l.Key == k.Call.Key && l.Worker != k.Call.Worker
		})
		if !repeated {
			c.wrong("%s of %s was not", k.Call.Action, k.Call.Order)
		}
	}
	return c
}

func finishedNotRepeated(e Evidence) Check {
	c := Check{Claim: "no finished step run again"}
	for _, k := range e.Kills {
		for _, l := range e.Calls {
			if l.Seq > k.Call.Seq && l.Order == k.Call.Order && slices.Contains(k.Finished, l.Action) {
				c.wrong("%s of %s was, in line %d", l.Action, l.Order, l.Seq)
			}
		}
	}
	return c
}

// chargedOnce counts the keys under which each card was charged and refunded.
// The world has the effect once for each key.
func chargedOnce(e Evidence) Check {
	c := Check{Claim: "each card charged once, and refunded once if the carrier refused"}
	keys := effects(e.Calls)
	for _, o := range e.Plan.Orders {
		c.effects(keys, Target{o.ID, Charge}, 1)
		refunds := 0
		if e.Plan.Refused[o.ID] {
			refunds = 1
		}
		c.effects(keys, Target{o.ID, Refund}, refunds)
	}
	owner := map[string]Target{}
	for _, l := range e.Calls {
		t := Target{l.Order, l.Action}
		if first, seen := owner[l.Key]; seen && first != t {
			c.wrong("%s of %s used the key of %s of %s", t.Action, t.Order, first.Action, first.Order)
		}
		owner[l.Key] = t
	}
	return c
}

func (c *Check) effects(keys map[Target][]Call, t Target, want int) {
	if got := len(keys[t]); got != want {
		c.wrong("%s: %s under %s, want %d", t.Order, t.Action, counted(got, "key"), want)
	}
}

// effects gives the first call under each key, by what was asked for.
func effects(calls []Call) map[Target][]Call {
	seen := map[string]bool{}
	first := map[Target][]Call{}
	for _, l := range calls {
		if !seen[l.Key] {
			seen[l.Key] = true
			t := Target{l.Order, l.Action}
			first[t] = append(first[t], l)
		}
	}
	return first
}

func stockRight(e Evidence) Check {
	want := e.Plan.Left()
	c := Check{Claim: fmt.Sprintf("stock %d of %d", want, e.Plan.Stock)}
	left := e.Plan.Stock
	for t, calls := range effects(e.Calls) {
		for _, l := range calls {
			switch {
			case l.Refused != "":
			case t.Action == Reserve:
				left -= l.Quantity
			case t.Action == Release:
				left += l.Quantity
			}
		}
	}
	if left != want {
		c.wrong("the calls leave %d", left)
	}
	if n := len(e.Calls); n > 0 && e.Calls[n-1].Stock != want {
		c.wrong("the shelf has %d", e.Calls[n-1].Stock)
	}
	return c
}

// noRunLost asks for a run of each order, ended as the seed foretells.
func noRunLost(e Evidence) Check {
	c := Check{Claim: "no run lost"}
	for _, o := range e.Plan.Orders {
		want := journal.Completed
		if e.Plan.Refused[o.ID] {
			want = journal.Failed
		}
		switch got, there := e.Runs[o.ID]; {
		case !there && e.Accepted[o.ID]:
			c.wrong("%s was accepted and is gone", o.ID)
		case !there:
			c.wrong("%s was never accepted", o.ID)
		case got != want:
			c.wrong("%s is %s, want %s", o.ID, got, want)
		}
	}
	for id := range e.Runs {
		if !slices.ContainsFunc(e.Plan.Orders, func(o Order) bool { return o.ID == id }) {
			c.wrong("%s is nobody's order", id)
		}
	}
	return c
}

// counted gives 1 kill, 2 kills.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// mostWrong is how much of what speaks against a claim is told.
const mostWrong = 3

// String gives the check as it is shown: the claim with ✓ or ✗, and what was
// seen.
func (c Check) String() string {
	if c.OK() {
		return c.Claim + " ✓"
	}
	seen := c.Wrong
	more := ""
	if len(seen) > mostWrong {
		more = fmt.Sprintf(" and %d more", len(seen)-mostWrong)
		seen = seen[:mostWrong]
	}
	return c.Claim + " ✗ (" + strings.Join(seen, "; ") + more + ")"
}
