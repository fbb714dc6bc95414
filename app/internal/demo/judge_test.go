package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
)

// goodEvidence is that of a demo as it should be, with two kills.
func goodEvidence() Evidence {
	p := Plan{
		Orders: []Order{{ID: "a", Quantity: 2, Cents: 100}, {ID: "b", Quantity: 3, Cents: 200}},
		Stock:  10, Refused: map[string]bool{"b": true},
		Kills: []Target{{"a", Charge}, {"b", Refund}},
	}
	e := Evidence{
		Plan: p, Accepted: map[string]bool{"a": true, "b": true},
		Runs: map[string]journal.Status{"a": journal.Completed, "b": journal.Failed},
	}
	stock, worker := p.Stock, 1
	for _, o := range p.Orders {
		var done []Action
		for _, a := range p.Actions(o.ID) {
			c := Call{Action: a, Order: o.ID, Key: o.ID + "/" + string(a), Worker: worker, Quantity: o.Quantity, Cents: o.Cents}
			switch {
			case a == Reserve:
				stock -= o.Quantity
			case a == Release:
				stock += o.Quantity
			case a == Ship && p.Refused[o.ID]:
				c.Refused = "no"
			}
			c.Stock = stock
			e.add(c)
			if slices.Contains(p.Kills, Target{o.ID, a}) {
				worker++
				e.Kills = append(e.Kills, Kill{e.Calls[len(e.Calls)-1], slices.Clone(done)})
				c.Worker = worker
				e.add(c)
			}
			done = append(done, a)
		}
	}
	return e
}

func (e *Evidence) add(c Call) {
	c.Seq = len(e.Calls) + 1
	e.Calls = append(e.Calls, c)
}

// without removes the calls for which out holds.
func (e *Evidence) without(out func(Call) bool) { e.Calls = slices.DeleteFunc(e.Calls, out) }

// extra adds a call like the last one for what t names, changed.
func (e *Evidence) extra(t Target, change func(*Call)) {
	for _, c := range slices.Backward(e.Calls) {
		if c.Order == t.Order && c.Action == t.Action {
			c.Stock = e.Calls[len(e.Calls)-1].Stock
			change(&c)
			e.add(c)
			return
		}
	}
}

func TestGoodEvidence(t *testing.T) {
	for _, c := range Judge(goodEvidence()) {
		if !c.OK() {
			t.Error(c)
		}
	}
}

// The places of the claims in what Judge gives.
const (
	kills = iota
	repeated
	finished
	charged
	stock
	lost
)

// badEvidence makes each claim false, and no other than those that are wrong.
var badEvidence = []struct {
	name  string
	spoil func(*Evidence)
	wrong []int
	seen  string
}{
	{"a kill that did not happen", func(e *Evidence) { e.Kills = e.Kills[:1] },
		[]int{kills}, "2 were planned and 1 happened"},
	{"a kill elsewhere", func(e *Evidence) { e.Kills[1] = e.Kills[0] },
		[]int{kills}, "refund of b was killed 0 times"},
	{"a killed call that nobody repeated", func(e *Evidence) {
		e.without(func(c Call) bool { return c.Key == "a/charge" && c.Worker == 2 })
	}, []int{repeated}, "charge of a was not"},
	{"a killed call repeated by the dead", func(e *Evidence) { e.Calls[2].Worker = 1 },
		[]int{repeated}, "charge of a was not"},
	{"a killed call repeated under another key", func(e *Evidence) { e.Calls[2].Key = "other" },
		[]int{repeated, charged}, "a: charge under 2 keys, want 1"},
	{"a finished step that is run again", func(e *Evidence) { e.extra(Target{"a", Reserve}, func(*Call) {}) },
		[]int{finished}, "reserve of a was"},
	{"a card that was never charged", func(e *Evidence) {
		e.without(func(c Call) bool { return c.Key == "b/charge" })
	}, []int{charged}, "b: charge under 0 keys, want 1"},
	{"a refund that nobody is due", func(e *Evidence) {
		e.extra(Target{"b", Refund}, func(c *Call) { c.Order, c.Key = "a", "a/refund" })
	}, []int{charged}, "a: refund under 1 key, want 0"},
	{"a refund that is missing", func(e *Evidence) {
		e.without(func(c Call) bool { return c.Action == Refund })
	}, []int{repeated, charged}, "b: refund under 0 keys, want 1"},
	{"a key of two orders", func(e *Evidence) {
		e.extra(Target{"b", Release}, func(c *Call) { c.Key = "a/ship" })
	}, []int{charged}, "release of b used the key of ship of a"},
	{"goods reserved twice", func(e *Evidence) {
		e.extra(Target{"b", Reserve}, func(c *Call) { c.Key = "b/reserve/2" })
	}, []int{finished, stock}, "the calls leave 5"},
	{"goods that are not back", func(e *Evidence) {
		e.without(func(c Call) bool { return c.Action == Release })
	}, []int{stock}, "the shelf has 5"},
	{"an accepted run that is gone", func(e *Evidence) { delete(e.Runs, "a") },
		[]int{lost}, "a was accepted and is gone"},
	{"an order that nobody accepted", func(e *Evidence) {
		delete(e.Runs, "a")
		delete(e.Accepted, "a")
	}, []int{lost}, "a was never accepted"},
	{"a run that goes on", func(e *Evidence) { e.Runs["a"] = journal.Running },
		[]int{lost}, "a is RUNNING, want COMPLETED"},
	{"a run that ended otherwise", func(e *Evidence) { e.Runs["b"] = journal.Completed },
		[]int{lost}, "b is COMPLETED, want FAILED"},
	{"a run that nobody ordered", func(e *Evidence) { e.Runs["c"] = journal.Completed },
		[]int{lost}, "c is nobody's order"},
}

func TestBadEvidence(t *testing.T) {
	for _, c := range badEvidence {
		t.Run(c.name, func(t *testing.T) {
			e := goodEvidence()
			c.spoil(&e)
			told := ""
			for i, check := range Judge(e) {
				if check.OK() == slices.Contains(c.wrong, i) {
					t.Errorf("%s", check)
				}
				told += check.String()
			}
			if !strings.Contains(told, c.seen) {
				t.Errorf("it tells %q, not %q", told, c.seen)
			}
		})
	}
}

func TestAFalseCheckIsAnError(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, Plan{Seed: 7}, files{ledger: "calls"})
	err := r.end([]Check{{Claim: "one"}, {Claim: "two", Wrong: []string{"1", "2", "3", "4"}}})
	if got, want := out.String(), "\nchecks  one ✓  two ✗ (1; 2; 3 and 1 more)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if journal.CodeOf(err) != journal.CodeFailed || !strings.Contains(fmt.Sprint(err), "--seed 7") {
		t.Errorf("the error is %v", err)
	}
}
