package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
)

// A demo whose kills and runs need at most fewLines lines is reported in full. A larger
// demo reports about fewKills of its kills.
const (
	fewLines = 15
	fewKills = 10
)

// A report prints a demo line by line.
type report struct {
	out     io.Writer
	program string // what people type to run this program
	plan    Plan
	files   files
	nodes   int // workers at a time
	kills   int
	details bool
}

func newReport(out io.Writer, program string, p Plan, f files) *report {
	return &report{
		out: out, program: program, plan: p, files: f, details: 2*(len(p.Kills)+len(p.Pauses))+
			len(p.Jobs) <= fewLines,
	}
}

func (r *report) line(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *report) begin(nodes int) {
	r.nodes = nodes
	what, kind := []string{counted(len(r.plan.Jobs), "run"), counted(len(r.plan.Kills), "kill")},
		"SQLite, WAL"
	if n := len(r.plan.Pauses); n > 0 {
		what = append(what, counted(n, "pause"))
	}
	if nodes > 1 {
		what = append(what, counted(nodes, "node"))
	}
	if r.files.store.Kind == place.Postgres {
		kind = "PostgreSQL"
	}
	r.line("seed %d  ·  %s  ·  store %s (%s)  ·  ledger %s", r.plan.Seed, strings.Join(what, ", "),
		r.files.store, kind, r.files.ledger)
}

// paused prints that a worker is paused.
func (r *report) paused(k Kill) {
	r.line("‖ %-8s  worker %d paused (SIGSTOP) in the middle of %q, for longer than its lease",
		k.Call.Run, k.Call.Worker, k.Call.Step)
}

func (r *report) resumed(k Kill) {
	r.line("↻ worker %d goes on (SIGCONT) after %.1f s: another has done it meanwhile",
		k.Call.Worker, time.Since(k.At).Seconds())
}

// moved prints how long it took until another worker repeated the call of a dead one.
func (r *report) moved(took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	r.line("  what a dead worker had begun was done by another after %.1f s, half of it "+
		"after %.1f s", took[len(took)-1].Seconds(), took[len(took)/2].Seconds())
}

// killed prints a kill. For the first kill it also prints the state of the run in the store
// before another worker has the run.
func (r *report) killed(k Kill) {
	r.kills++
	total := len(r.plan.Kills)
	switch every := (total + fewKills - 1) / fewKills; {
	case r.details:
		r.line("✂ %-8s  worker %d killed (SIGKILL) in the middle of %q: the world has the call, "+
			"the journal has no result",
			k.Call.Run, k.Call.Worker, k.Call.Step)
	case r.kills%every == 0 || r.kills == 1 || r.kills == total:
		r.line("✂ kill %d of %d: worker %d in the middle of %q of %s", r.kills, total,
			k.Call.Worker, k.Call.Step, k.Call.Run)
	}
	if r.kills == 1 {
		while := "while nothing runs"
		if r.nodes > 1 {
			while = "before another has it"
		}
		r.line("  %s: perdure runs get %s says %s, %s", while, k.Call.Run, k.Status,
			finished(k.Finished))
	}
}

func finished(done []Target) string {
	if len(done) == 0 {
		return "nothing done yet"
	}
	names := make([]string, len(done))
	for i, t := range done {
		names[i] = t.Step
	}
	return strings.Join(names, ", ") + " done"
}

func (r *report) restarted(pid int, after time.Duration) {
	if r.details {
		r.line("↻ worker %d goes on after %d ms", pid, after.Milliseconds())
	}
}

// run prints a run: its calls from the ledger, and its status from the store, or the time
// that it waits for.
func (r *report) run(j Job, s State, calls []Call) {
	status := s.Status.String()
	if s.Status == journal.Waiting {
		status += " until " + s.Due.Local().Format("2 January 2006 15:04")
	}
	r.line("▶ %-8s  %-16s  %s%s", j.ID, j.Workflow, asked(j.ID, calls), status)
}

// asked returns the calls of a run, action by action.
func asked(run string, calls []Call) string {
	var actions []Action
	effects, total, refused := map[Action]map[string]bool{}, map[Action]int{}, map[Action]string{}
	for _, c := range calls {
		if c.Run != run {
			continue
		}
		if effects[c.Action()] == nil {
			effects[c.Action()] = map[string]bool{}
			actions = append(actions, c.Action())
		}
		effects[c.Action()][c.Key] = true
		total[c.Action()]++
		refused[c.Action()] = c.Refused
	}
	var b strings.Builder
	for _, a := range actions {
		b.WriteString(string(a))
		if n := len(effects[a]); n > 1 {
			fmt.Fprintf(&b, " %d×", n)
		}
		if refused[a] != "" {
			fmt.Fprintf(&b, " ✗ %s", refused[a])
		} else {
			b.WriteString(" ✓")
		}
		if total[a] > len(effects[a]) {
			fmt.Fprintf(&b, " (called %d×)", total[a])
		}
		b.WriteString("  ")
	}
	return b.String()
}

// end prints the checks and the next commands to try. It returns an error if a check is
// false.
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
		r.line("next    %s", r.command("runs list"))
		r.line("        %s",
			r.command(`runs signal exp-9 answer -i '{"by":"manager","approved":true}'`))
		return nil
	}
	return &perdure.Error{
		Code: journal.CodeFailed, Op: "demo", Message: fmt.Sprintf("%s of %d not true",
			counted(wrong, "check"), len(checks)),
		Hint: fmt.Sprintf("the calls are in %s; --seed %d does the same again", r.files.ledger,
			r.plan.Seed),
	}
}

// command returns the command line for a command on this demo's database.
func (r *report) command(words string) string {
	return r.program + " " + words + " --store " + place.Quoted(r.files.store.String())
}
