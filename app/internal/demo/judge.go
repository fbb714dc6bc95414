package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Kill is one kill of a worker, or a pause for longer than its lease.
type Kill struct {
	Call     Call // the call whose answer the worker waited for
	Paused   bool
	At       time.Time
	Engine   journal.EngineID // of the worker
	Taken    bool             // another engine has taken over its runs since
	Status   journal.Status   // of the run, in the store
	Finished []Target         // steps whose result the store had
}

// Evidence has the facts that a demo is judged by: the plan, the acts of the supervisor and
// the events that it got, the ledger of the world, and the state of the runs in the store.
type Evidence struct {
	Plan     Plan
	Cluster  bool // several workers at a time
	Kills    []Kill
	Accepted map[string]bool // runs that a worker has reported as durable
	Calls    []Call
	Runs     map[string]State // by workflow ID
	Judged   time.Time
}

// A Check is one claim and the evidence against it.
type Check struct {
	Claim string
	Wrong []string // evidence against it; none if it is true
}

// OK reports whether the claim is true.
func (c Check) OK() bool { return len(c.Wrong) == 0 }

func (c *Check) wrong(format string, args ...any) {
	c.Wrong = append(c.Wrong, fmt.Sprintf(format, args...))
}

// Judge returns the checks of a demo.
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

// counted returns a number with its noun: 1 kill, 2 kills.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// mostWrong limits how much evidence against a claim is shown.
const mostWrong = 3

// String returns the check as the report shows it: the claim with ✓ or ✗, and the evidence
// against it.
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
