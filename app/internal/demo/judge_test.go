package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

// goodEvidence returns the evidence of a correct demo of several workers, with three kills
// and a pause.
func goodEvidence() Evidence {
	p := Plan{
		Made: time.Now().Add(-time.Minute), Stock: 10, Left: 8,
		Tokens:   int64(script[0].Tokens + script[1].Tokens),
		Accounts: []Account{{Name: "x", Cents: 1000}, {Name: "y", Closed: true}},
		Jobs: []Job{
			{ID: "a", Calls: callsOf("a", Reserve, Charge, Ship), Status: journal.Completed},
			{
				ID: "b", Calls: callsOf("b", Reserve, Charge, Ship, Refund, Release),
				Status: journal.Failed,
			},
			{ID: "t", Calls: callsOf("t", Hold, Announce, GiveBack), Status: journal.Canceled},
			{ID: "l", Calls: callsOf("l", Sales, Write), Status: journal.Completed},
			{ID: "q", Calls: callsOf("q", Think, Search, "think[2]"), Status: journal.Completed},
			{ID: "s", Calls: callsOf("s", Ask), Status: journal.Waiting, Waits: month},
		},
		Kills: []Target{chargeA, refundB, writeL, thinkQ},
	}
	p.split(3)
	e := Evidence{
		Plan:     p,
		Cluster:  true,
		Accepted: map[string]bool{},
		Runs:     map[string]State{},
		Judged:   time.Now(),
	}
	who := services(worldSetup{Stock: p.Stock, Accounts: p.Accounts})
	for _, j := range p.Jobs {
		e.work(j, who)
		e.Accepted[j.ID] = true
		e.Runs[j.ID] = State{Status: j.Status, Due: p.Made.Add(j.Waits + time.Second)}
	}
	return e
}

// work adds the calls of a job. A killed call is added again, by the next worker.
func (e *Evidence) work(j Job, who map[Action]service) {
	account := map[Action]string{Hold: "x", Announce: "y", GiveBack: "x"}
	var done []Target
	for _, t := range j.Calls {
		c := Call{
			Target: t, Key: t.String(), Worker: len(e.Kills), Amount: 2,
			Account: account[t.Action()],
		}
		switch t {
		case thinkQ:
			c.Text = "two\nnotes"
		case Target{"b", "ship"}:
			c.Text = antarctica
		}
		_, c.Refused = who[t.Action()].do(c)
		c.Left = who[t.Action()].left(c)
		e.add(c)
		if pause := slices.Contains(e.Plan.Pauses, t); pause || slices.Contains(e.Plan.Kills, t) {
			e.Kills = append(e.Kills, Kill{
				Call: e.Calls[len(e.Calls)-1], Paused: pause,
				Engine: journal.EngineID(len(e.Kills) + 1), Taken: true,
				Finished: slices.Clone(done),
			})
			c.Worker = len(e.Kills)
			e.add(c)
		}
		done = append(done, t)
	}
}

func (e *Evidence) add(c Call) {
	c.Seq = len(e.Calls) + 1
	e.Calls = append(e.Calls, c)
}

// without removes the calls for which out returns true.
func (e *Evidence) without(out func(Call) bool) { e.Calls = slices.DeleteFunc(e.Calls, out) }

// extra adds a changed copy of the last call for t, by the last worker.
func (e *Evidence) extra(t Target, change func(*Call)) {
	for _, c := range slices.Backward(e.Calls) {
		if c.Target == t {
			c.Worker = len(e.Kills)
			change(&c)
			e.add(c)
			return
		}
	}
	panic("nobody called " + t.String())
}

// change changes the last call for t.
func (e *Evidence) change(t Target, change func(*Call)) {
	for i := range slices.Backward(e.Calls) {
		if e.Calls[i].Target == t {
			change(&e.Calls[i])
			return
		}
	}
	panic("nobody called " + t.String())
}

// key returns a function that sets the key of a call.
func key(k string) func(*Call) { return func(c *Call) { c.Key = k } }

// becomes changes the state of a run.
func (e *Evidence) becomes(run string, change func(*State)) {
	s := e.Runs[run]
	change(&s)
	e.Runs[run] = s
}

func TestGoodEvidence(t *testing.T) {
	for _, c := range Judge(goodEvidence()) {
		if !c.OK() {
			t.Error(c)
		}
	}
}

// month is the time that the run s waits.
const month = 30 * 24 * time.Hour

// The indexes of the claims in the result of Judge.
const (
	killed = iota
	repeated
	notAgain
	owned
	charged
	stock
	conserved
	transferred
	filed
	paid
	mailed
	lost
	taken
)

// The calls that the tests spoil.
var (
	chargeA, shipA     = Target{"a", "charge"}, Target{"a", "ship"}
	chargeB, refundB   = Target{"b", "charge"}, Target{"b", "undo:charge"}
	holdT, askT, backT = Target{"t", "try:debit"}, Target{"t", "try:credit"},
		Target{"t", "cancel:debit"}
	readL, writeL             = Target{"l", "read-sales"}, Target{"l", "write"}
	thinkQ, searchQ           = Target{"q", "think[2]"}, Target{"q", "search"}
	mailS, reserveB, releaseB = Target{"s", "ask"}, Target{"b", "reserve"},
		Target{"b", "undo:reserve"}
)

// never removes all calls for t.
func never(t Target) func(*Evidence) {
	return func(e *Evidence) { e.without(func(c Call) bool { return c.Target == t }) }
}

// again adds a call for t under a key of its own.
func again(t Target) func(*Evidence) { return func(e *Evidence) { e.extra(t, key("new")) } }

// badEvidence makes each claim false in turn. The claims in wrong must be false, and no
// others.
var badEvidence = []struct {
	name  string
	spoil func(*Evidence)
	wrong []int
	seen  string
}{
	{"a kill that did not happen", func(e *Evidence) { e.Kills = e.Kills[:3] }, []int{
		killed,
	}, "4 were planned and 3 happened"},
	{"a kill elsewhere", func(e *Evidence) { e.Kills[1] = e.Kills[0] }, []int{
		killed,
	}, "undo:charge of b was hit 0 times"},
	{"a pause that was a kill", func(e *Evidence) { e.Kills[3].Paused = false }, []int{
		killed,
	}, "think[2] of q was hit otherwise than planned"},
	{"a dead worker whose engine stays", func(e *Evidence) { e.Kills[2].Taken = false }, []int{
		taken,
	}, "engine 3 of worker 2 was not"},
	{"a dead worker that had no engine", func(e *Evidence) { e.Kills[2].Engine = 0 }, []int{
		taken,
	}, "worker 2 had no engine"},
	{"a killed call that nobody repeated", func(e *Evidence) {
		e.without(func(c Call) bool { return c.Target == chargeA && c.Worker == 1 })
	}, []int{repeated}, "charge of a was not"},
	{"a killed call repeated by the dead", func(e *Evidence) {
		e.change(chargeA, func(c *Call) { c.Worker = 0 })
	},
		[]int{repeated}, "charge of a was not"},
	{"a killed call repeated under another key", func(e *Evidence) {
		e.change(chargeA, key("new"))
	},
		[]int{repeated, charged}, "charge of a under 2 keys, want 1"},
	{"a finished step that is run again", func(e *Evidence) { e.extra(readL, func(*Call) {}) },
		[]int{notAgain}, "read-sales of l was"},
	{"a finished step that the dead had asked for", func(e *Evidence) {
		e.extra(readL, func(c *Call) { c.Worker = 2 })
	}, nil, ""},
	{"a key of two orders", func(e *Evidence) { e.extra(shipA, func(c *Call) { c.Run = "l" }) },
		[]int{owned}, "ship of l used the key of ship of a"},
	{
		"a card that was never charged",
		never(chargeB),
		[]int{charged},
		"charge of b under 0 keys, want 1",
	},
	{"a refund that nobody is due", func(e *Evidence) {
		e.extra(refundB, func(c *Call) { c.Run, c.Key = "a", "new" })
	}, []int{charged}, "undo:charge of a under 1 key, want 0"},
	{
		"a refund that is missing",
		never(refundB),
		[]int{repeated, charged},
		"undo:charge of b under 0 keys, want 1",
	},
	{"an order shipped twice", again(shipA), []int{stock}, "ship of a under 2 keys, want 1"},
	{"goods reserved twice", again(reserveB), []int{notAgain, stock}, "the calls leave 6"},
	{"goods that are not back", never(releaseB), []int{stock}, "the calls leave 6"},
	{
		"a shelf that is wrong",
		func(e *Evidence) { e.change(releaseB, func(c *Call) { c.Left = 7 }) },
		[]int{stock},
		"the shelf has 7",
	},
	{"money taken twice", again(holdT), []int{conserved, transferred}, "the calls leave 9.98"},
	{"money that is not back", never(backT), []int{conserved, transferred}, "the bank has 9.98"},
	{
		"a balance that is wrong",
		func(e *Evidence) { e.change(backT, func(c *Call) { c.Left++ }) },
		[]int{conserved},
		"the bank has 10.01",
	},
	{"money given to the wrong account", func(e *Evidence) {
		e.change(askT, func(c *Call) { c.Refused, c.Left = "", 2 })
	}, []int{conserved}, "the bank has 10.02"},
	{
		"too little given back",
		func(e *Evidence) { e.change(backT, func(c *Call) { c.Amount = 1 }) },
		[]int{conserved},
		"the calls leave 9.99",
	},
	{
		"a transfer that was not tried",
		never(askT),
		[]int{transferred},
		"try:credit of t under 0 keys, want 1",
	},
	{"a report written twice", again(writeL), []int{filed}, "write of l under 2 keys, want 1"},
	{"a file that nobody wants", func(e *Evidence) {
		e.extra(readL, func(c *Call) { c.Step, c.Key = "read-stock", "new" })
	}, []int{filed}, "read-stock of l under 1 key, want 0"},
	{"a model paid twice", func(e *Evidence) {
		e.extra(thinkQ, func(c *Call) { c.Key, c.Left = "new", c.Left+5 })
	}, []int{paid}, "think[2] of q under 2 keys, want 1; 565 were paid"},
	{"a tool used twice", func(e *Evidence) { e.Kills[3].Finished = nil; again(searchQ)(e) },
		[]int{paid}, "search of q under 2 keys, want 1"},
	{"a mail sent twice", again(mailS), []int{mailed}, "ask of s under 2 keys, want 1"},
	{"a reminder before its time", func(e *Evidence) {
		e.extra(mailS, func(c *Call) { c.Step, c.Key = "ask#2", "new" })
	}, []int{mailed}, "ask#2 of s under 1 key, want 0"},
	{"an accepted run that is gone", func(e *Evidence) { delete(e.Runs, "a") }, []int{
		lost,
	}, "a was accepted and is gone"},
	{"a run that nobody accepted", func(e *Evidence) {
		delete(e.Runs, "a")
		delete(e.Accepted, "a")
	}, []int{lost}, "a was never accepted"},
	{"a run that goes on", func(e *Evidence) {
		e.becomes("a", func(s *State) { s.Status = journal.Running })
	},
		[]int{lost}, "a is RUNNING, want COMPLETED"},
	{"a run that ended otherwise", func(e *Evidence) {
		e.becomes("b", func(s *State) { s.Status = journal.Completed })
	},
		[]int{lost}, "b is COMPLETED, want FAILED"},
	{"a run that does not wait", func(e *Evidence) {
		e.becomes("s", func(s *State) { s.Status = journal.ContinuedAsNew })
	},
		[]int{lost}, "s is CONTINUED_AS_NEW, want WAITING"},
	{"a run that waits for nothing", func(e *Evidence) {
		e.becomes("s", func(s *State) { s.Due = time.Time{} })
	},
		[]int{lost}, "want 720h0m0s"},
	{"a run that waits anew", func(e *Evidence) {
		e.becomes("s", func(s *State) { s.Due = s.Due.Add(time.Hour) })
	},
		[]int{lost}, "s goes on in 721h0m1s, want 720h0m0s"},
	{"a run that nobody asked for", func(e *Evidence) { e.Runs["c"] = State{} }, []int{
		lost,
	}, "nobody asked for c"},
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
	r := newReport(&out, "perdure", Plan{Seed: 7}, files{ledger: "calls"})
	err := r.end([]Check{{Claim: "one"}, {Claim: "two", Wrong: []string{"1", "2", "3", "4"}}})
	if got, want := out.String(), "\nchecks  one ✓  two ✗ (1; 2; 3 and 1 more)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if journal.CodeOf(err) != journal.CodeFailed || !strings.Contains(fmt.Sprint(err), "--seed 7") {
		t.Errorf("the error is %v", err)
	}
}
