package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A demo of few orders is told call by call, a larger one in about as many lines.
const (
	fewOrders = 8
	fewLines  = 10
)

// A report tells what happens, line by line.
type report struct {
	out     io.Writer
	plan    Plan
	files   files
	kills   int
	ended   int
	details bool
}

func newReport(out io.Writer, p Plan, f files) *report {
	return &report{out: out, plan: p, files: f, details: len(p.Orders) <= fewOrders}
}

func (r *report) line(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *report) begin() {
	r.line("%s, %s  ·  seed %d", counted(len(r.plan.Orders), "order"), counted(len(r.plan.Kills), "kill"), r.plan.Seed)
	r.line("store   %s  (SQLite, WAL, synchronous=FULL)", r.files.store)
	r.line("ledger  %s  (every call that the outside world gets)", r.files.ledger)
	r.line("")
}

func (r *report) killed(k Kill) {
	r.kills++
	if r.details {
		r.line("✂ %s  worker %d killed (SIGKILL) in the middle of %q: the world has the call, the journal has %s",
			k.Call.Order, k.Call.Worker, k.Call.Action, listed(k.Finished))
		return
	}
	total := len(r.plan.Kills)
	if every := max(1, total/fewLines); r.kills%every == 0 || r.kills == total {
		r.line("✂ kill %d of %d: worker %d in the middle of %q of %s  ·  %d of %d orders have ended",
			r.kills, total, k.Call.Worker, k.Call.Action, k.Call.Order, r.ended, len(r.plan.Orders))
	}
}

func listed(done []Action) string {
	if len(done) == 0 {
		return "nothing of it yet"
	}
	names := make([]string, len(done))
	for i, a := range done {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}

func (r *report) restarted(pid int, after time.Duration) {
	if r.details {
		r.line("↻ worker %d goes on after %d ms", pid, after.Milliseconds())
	}
}

// orderEnded tells an order as the ledger has it.
func (r *report) orderEnded(order string, calls []Call) {
	r.ended++
	if !r.details {
		return
	}
	var b strings.Builder
	for _, a := range r.plan.Actions(order) {
		n, refused := 0, ""
		for _, c := range calls {
			if c.Order == order && c.Action == a {
				n++
				refused = c.Refused
			}
		}
		switch {
		case n == 0:
			continue
		case refused != "":
			fmt.Fprintf(&b, "  %s ✗ %s", a, refused)
		default:
			fmt.Fprintf(&b, "  %s ✓", a)
		}
		if n > 1 {
			fmt.Fprintf(&b, " (called %d×)", n)
		}
	}
	r.line("▶ %s%s", order, b.String())
}

// end tells the checks and gives an error where one is false.
func (r *report) end(checks []Check) error {
	r.line("")
	wrong := 0
	for i := 0; i < len(checks); i += 3 {
		line := "checks"
		for _, c := range checks[i:min(i+3, len(checks))] {
			line += "  " + c.String()
			if !c.OK() {
				wrong++
			}
		}
		r.line("%s", line)
	}
	if wrong == 0 {
		return nil
	}
	return &perdure.Error{
		Code: journal.CodeFailed, Op: "demo", Message: fmt.Sprintf("%s of %d not true", counted(wrong, "check"), len(checks)),
		Hint: fmt.Sprintf("the calls are in %s; --seed %d does the same again", r.files.ledger, r.plan.Seed),
	}
}
