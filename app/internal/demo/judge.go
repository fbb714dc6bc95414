package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Kill is one death of a worker, or a pause for longer than its lease.
type Kill struct {
	Call     Call // which it waited for
	Paused   bool
	At       time.Time
	Engine   journal.EngineID // of the worker
	Taken    bool             // another engine has taken it over since
	Status   journal.Status   // of the run, in the store
	Finished []Target         // what the store had the result of
}

// Evidence is what a demo is judged by: what was planned, what the supervisor
// did and was told, the world's ledger, and what the store says of the runs.
type Evidence struct {
	Plan     Plan
	Cluster  bool // several workers at a time
	Kills    []Kill
	Accepted map[string]bool // runs that a worker said are durable
	Calls    []Call
	Runs     map[string]State // by workflow ID
	Judged   time.Time
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
	once := onceEach(e)
	checks := []Check{
		killsHappened(e), killedCallsRepeated(e), finishedNotRepeated(e),
		keysOwned(e), once("each card charged once, refunded if not shipped", Charge, Refund),
		stockRight(e, once),
		moneyConserved(e), once("each transfer once", Hold, Announce, Take, Give, GiveBack, Recall),
		once("each file read once", Sales, Returns, Stock, Write),
		modelPaid(e, once), once("each mail sent once", Ask, Tell, Pay), noRunLost(e),
	}
	if e.Cluster {
		checks = append(checks, deadTakenOver(e))
	}
	return checks
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
