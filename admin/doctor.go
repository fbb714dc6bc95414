package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Health is the result of a check.
type Health string

// The results of a check.
const (
	Healthy Health = "ok"
	Warned  Health = "warning" // somebody should look at it; nothing stands still for no reason
	Failing Health = "failed"  // work stands still, or data is in danger
)

// A Check is one thing that [Client.Doctor] has looked at.
type Check struct {
	Name     string
	Health   Health
	Evidence string
	// Count is the number of things that it has found. AtLeast is set if there may be more.
	Count   int
	AtLeast bool
	IDs     []string // at most 5 of them: workflow IDs, or names
	// Mend has the commands that mend it, without the name of the program: for each of the first
	// IDs, or one for all. Words are quoted for a shell.
	Mend []string
}

// DoctorOptions has the times from which on [Client.Doctor] finds that a run should have gone on.
type DoctorOptions struct {
	Overdue time.Duration // since a run was due; zero means 1 min
	Stale   time.Duration // since the last entry of a busy run; zero means 1 h
}

const (
	defaultOverdue = time.Minute
	doctorPages    = 100 // read for one check
	doctorFinds    = 10_000
	doctorIDs      = 5
	doctorMends    = 3
	dayLong        = 24 * time.Hour
	maxDrift       = time.Second
	maxOutbox      = 10_000
)

// Doctor checks the store, its engines and its runs, and returns all checks, also those that find
// nothing. It looks at a bounded number of runs for each: then a count is a least one. On the
// client of an engine it also checks that engine: its loops, and the settings that endanger data.
// It changes nothing.
func (a *Client) Doctor(ctx context.Context, o DoctorOptions) ([]Check, error) {
	if o.Overdue < 0 || o.Stale < 0 {
		return nil, failure.Invalid("doctor",
			"a time below zero is not valid: allowed is 0 and above")
	}
	info, err := kernel.Counts(ctx, a.client.FrontEnd)
	if err != nil {
		return nil, err
	}
	d := doctor{Client: a, ctx: ctx, info: info, now: a.client.FrontEnd.Now(), o: o}
	for _, check := range []func() (Check, error){
		d.store, d.clock, d.engines, d.builds, d.loops, d.settings, d.overdue, d.stale, d.unowned,
		d.parked, d.rollbacks, d.deadLetters, d.unrouted, d.outbox, d.timers, d.limits, d.pauses,
	} {
		c, err := check()
		if err != nil {
			return nil, err
		}
		c.Health = cmp.Or(c.Health, Healthy)
		c.IDs = c.IDs[:min(len(c.IDs), doctorIDs)]
		d.checks = append(d.checks, c)
	}
	return d.checks, nil
}

// A doctor makes the checks.
type doctor struct {
	*Client
	ctx    context.Context
	info   store.Info
	now    time.Time
	o      DoctorOptions
	checks []Check
}

// living returns the engines that have the store.
func (d *doctor) living() (all []store.Engine) {
	for _, e := range d.info.Engines {
		if !e.Expired {
			all = append(all, e)
		}
	}
	return all
}

// find counts the runs that the filter selects and that are such, in a bounded part of the list.
// The mend of each is the command with its workflow ID.
func (d *doctor) find(c *Check, f store.Filter, such func(journal.Head) bool,
	command string) error {
	f.Limit = store.MaxLimit
	for range doctorPages {
		heads, next, err := d.client.FrontEnd.Heads(d.ctx, f)
		if err != nil {
			return err
		}
		for _, h := range heads {
			if such == nil || such(h) {
				c.found(h.WorkflowID, commandFor(command, h))
			}
		}
		if f.After = next; next.IsZero() {
			return nil
		}
		if c.Count >= doctorFinds {
			break
		}
	}
	c.AtLeast = true
	return nil
}

// commandFor returns the command line about a run, as a shell has to get it: anybody may have
// chosen the workflow ID. It is empty if there is no command.
func commandFor(command string, h journal.Head) string {
	switch {
	case command == "":
		return ""
	case strings.HasPrefix(h.WorkflowID, "-"): // the command would take it as a flag
		return command + " " + string(h.ID)
	}
	return command + " " + quoted(h.WorkflowID)
}

// quoted returns a word in quotes for a shell, if it needs them.
func quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
			!strings.ContainsRune("._:/@%+,-", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// found counts one thing. command mends it; it may be empty.
func (c *Check) found(id, command string) {
	c.Count++
	if len(c.IDs) < doctorIDs {
		c.IDs = append(c.IDs, id)
	}
	if len(c.Mend) < doctorMends && command != "" {
		c.Mend = append(c.Mend, command)
	}
}

// number returns the count as text: 1 run, at least 12 runs.
func (c *Check) number(one string) string {
	text := counted(c.Count, one)
	if c.AtLeast {
		text = "at least " + text
	}
	return text
}

// counted returns a number with its noun.
func counted(n int, one string) string {
	if n != 1 {
		one += "s"
	}
	return fmt.Sprint(n, " ", one)
}

// judge sets the evidence of a check that counts what is wrong.
func (c *Check) judge(bad Health, one, wrong string) {
	switch {
	case c.Count > 0:
		c.Health, c.Evidence = bad, c.number(one)+" "+wrong
	case c.AtLeast:
		c.Evidence = "none among the newest runs; there are too many to look at them all"
	default:
		c.Evidence = "none"
	}
}

// store shows the size, and how many bytes the runs of the last day have, if they are as large as
// the others.
func (d *doctor) store() (Check, error) {
	c := Check{Name: "store"}
	recent := Check{}
	err := d.find(&recent, store.Filter{CreatedFrom: d.now.Add(-dayLong)}, nil, "")
	c.Evidence = fmt.Sprintf("%s, schema %d, %d runs, %s; %s of the last day",
		d.info.Driver, d.info.Schema, d.info.Runs, sizeOf(d.info.Bytes), recent.number("run"))
	if d.info.Runs > 0 && d.info.Bytes > 0 {
		c.Evidence += ", about " + sizeOf(int64(recent.Count)*d.info.Bytes/d.info.Runs)
	}
	return c, err
}

// clock compares the clock of leases with that of this process.
func (d *doctor) clock() (Check, error) {
	c := Check{Name: "clock", Evidence: "it is that of this process"}
	if d.info.Now.IsZero() {
		return c, nil
	}
	drift := d.now.Sub(d.info.Now).Round(time.Millisecond)
	c.Evidence = fmt.Sprintf("that of this process differs from the store's by %v", drift.Abs())
	if drift.Abs() > maxDrift {
		c.Health, c.Count = Warned, 1
		c.Evidence += ": timers are so early or late; set the clock by NTP"
	}
	return c, nil
}

func (d *doctor) engines() (Check, error) {
	c := Check{Name: "engines"}
	living := d.living()
	c.Evidence = fmt.Sprintf("%d with the store", len(living))
	for _, e := range living {
		if h := e.Drain; !h.Until.IsZero() {
			c.Evidence += fmt.Sprintf("; engine %d drains until %s and still holds %s, %s in "+
				"flight", e.ID, h.Until.UTC().Format(time.RFC3339), counted(h.Runs, "run"),
				counted(h.Steps, "step"))
		}
	}
	if d.client.Live != nil {
		if h := d.client.Live.Held(); !h.Draining.IsZero() {
			c.Evidence += fmt.Sprintf("; the one here drains until %s: %s",
				h.Until.UTC().Format(time.RFC3339), h.Show(doctorIDs))
		}
	}
	if len(living) == 0 {
		c.Evidence, c.Health, c.Count = "no engine has the store: no run goes on", Warned, 1
		c.Mend = []string{"serve"}
		open, _, err := d.client.FrontEnd.Heads(d.ctx, store.Filter{Busy: d.now, Limit: 1})
		if len(open) > 0 {
			c.Health = Failing
			c.Evidence += ", and there are some that could"
		}
		return c, err
	}
	for _, e := range living {
		if e.Slots > 0 && e.Runs >= int64(e.Slots) {
			c.Health = Warned
			c.found(fmt.Sprint(e.ID), "")
		}
	}
	if c.Count > 0 {
		c.Evidence += "; " + c.number("engine") + " full: further runs wait. Start another " +
			"engine, or raise the Capacity"
		c.Mend = []string{"workers list"}
	}
	return c, nil
}

// builds finds engines of different builds: while they last, runs may go back to old code.
func (d *doctor) builds() (Check, error) {
	c := Check{Name: "builds"}
	names := map[string]bool{}
	for _, e := range d.living() {
		if !names[e.Build] {
			c.found(e.Build, "")
		}
		names[e.Build] = true
	}
	c.Evidence = c.number("build") + " of engines"
	if c.Count > 1 {
		c.Health, c.Mend = Warned, []string{"workflows versions"}
		c.Evidence += ": a run may go back to older code; stop the older engines soon"
	}
	return c, nil
}

// loops finds the loops of engines that have stopped or hang.
func (d *doctor) loops() (Check, error) {
	c := Check{Name: "loops"}
	var texts []string
	turns := map[journal.EngineID][]string{}
	for _, l := range d.loopsOf(d.info, d.now) {
		name := rules.Loop(int64(l.Engine), l.Name)
		text := l.Name + " " + d.now.Sub(l.Last).Round(time.Millisecond).String() + " ago"
		switch {
		case l.MayStart:
			c.found(name, fmt.Sprintf("doctor start %d %s", l.Engine, l.Name))
			texts = append(texts, fmt.Sprintf("%s of engine %d has stopped at %s: %s", l.Name,
				l.Engine, l.Last.UTC().Format(time.RFC3339), l.Reason))
			continue
		case l.Stopped:
			c.found(name, "")
			text += " has stopped: " + l.Reason + ": restart the program"
		case l.Hangs:
			c.found(name, "")
			text += " hangs: restart the program"
		}
		turns[l.Engine] = append(turns[l.Engine], text)
	}
	for _, e := range d.living() {
		text := fmt.Sprintf("engine %d was heard of %v ago", e.ID,
			silence(d.info, e, d.now).Round(time.Millisecond))
		if len(turns[e.ID]) > 0 {
			text += ": " + strings.Join(turns[e.ID], ", ")
		}
		texts = append(texts, text)
	}
	if c.Health = Failing; c.Count == 0 {
		c.Health = Healthy
		texts = append([]string{"none has stopped"}, texts...)
	}
	c.Evidence = strings.Join(texts, "; ")
	return c, nil
}

// settings shows the settings in force, of the store and of the engine here, and finds those that
// endanger data.
func (d *doctor) settings() (Check, error) {
	c := Check{Name: "settings"}
	const survives = "a commit survives "
	texts := []string{survives + strings.TrimPrefix(d.info.Durability, survives)}
	wrong := func(text string) {
		c.Count++
		c.Health = Warned
		texts = append(texts, text)
	}
	if d.client.Live != nil {
		cfg := d.client.Live.Config()
		texts = append(texts, inForce(cfg))
		if cfg.CleanUp <= 0 {
			wrong("CleanUp is off: runs that have ended are never removed")
		}
		if cfg.KeepPosts <= 0 {
			wrong("KeepUnrouted is off: a signal that finds no run is lost")
		}
		if cfg.Sweep <= 0 {
			wrong("Sweep is off: a due run that nobody tells of is never found")
		}
		if cfg.KeepDeadLettered < 0 {
			wrong("KeepDeadLettered is off: a run may be gone before its dead letter is read")
		}
	}
	if d.info.Driver == "memory" {
		wrong("open the store on SQLite or PostgreSQL")
		c.Health = Failing
	}
	c.Evidence = strings.Join(texts, "; ")
	return c, nil
}

// inForce returns the settings of an engine as text.
func inForce(cfg kernel.Config) string {
	often := func(d time.Duration) string {
		if d <= 0 {
			return "never"
		}
		return "every " + d.String()
	}
	text := fmt.Sprintf("the engine here has at most %s in memory, sweeps %s, cleans up %s, keeps "+
		"ended runs %s, those with a dead letter %v and signals that found no run %v, parks a run "+
		"after %d crashes in a row, and takes payloads of at most %s",
		counted(cfg.Capacity, "run"), often(cfg.Sweep), often(cfg.CleanUp), cfg.Retain,
		max(cfg.KeepDeadLettered, 0), cfg.KeepPosts, cfg.MaxCrashes,
		sizeOf(int64(cfg.MaxPayload)))
	return spans.Replace(text)
}

// spans shortens durations to the form that the configuration has: 168h instead of 168h0m0s.
var spans = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// sizeOf returns a number of bytes for people, as the dashboard has it.
func sizeOf(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n)/1024, 0
	for ; size >= 1023.5 && unit < 3; unit++ {
		size /= 1024
	}
	digits := 0
	if size < 9.95 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %cB", digits, size, "KMGT"[unit])
}

// overdue finds runs that are due and that no engine has taken up.
func (d *doctor) overdue() (Check, error) {
	c := Check{Name: "overdue"}
	since := d.now.Add(-cmp.Or(d.o.Overdue, defaultOverdue))
	pauses, err := d.Pauses(d.ctx)
	if err != nil {
		return c, err
	}
	paused := map[string]bool{}
	for _, p := range pauses {
		paused[p.Workflow] = true
	}
	oldest, lacking := d.now, map[string]string{}
	err = d.find(&c, store.Filter{Busy: since}, func(h journal.Head) bool {
		if h.Owner != 0 || !h.Status.IsActive() || paused[AllWorkflows] || paused[h.Workflow] {
			return false
		}
		if h.Wake.Before(oldest) {
			oldest = h.Wake
		}
		if why := sealed.Lacking(d.info, h.Workflow); why != "" {
			lacking[h.Workflow] = why
		}
		return true
	}, "why")
	c.judge(Failing, "run", fmt.Sprintf("due, and no engine took them up: for up to %v",
		d.now.Sub(oldest).Round(time.Second)))
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		c.Evidence += "; " + lacking[name]
	}
	return c, err
}

func (d *doctor) stale() (Check, error) {
	c := Check{Name: "stale"}
	all, more, err := d.someStale(d.ctx, d.o.Stale, 1)
	for _, s := range all {
		c.found(s.Head.WorkflowID, commandFor("why", s.Head))
	}
	c.AtLeast = more
	c.judge(Failing, "run", "without a new entry for "+cmp.Or(d.o.Stale, defaultStale).String())
	if len(all) > 0 {
		c.Evidence += ": " + all[0].Why
	}
	return c, err
}

// unowned finds runs of engines that have died: with another engine they go on by themselves.
func (d *doctor) unowned() (Check, error) {
	c := Check{Name: "unowned"}
	for _, e := range d.info.Engines {
		if e.Expired && e.Runs > 0 {
			c.Count += int(e.Runs)
			c.IDs = append(c.IDs, fmt.Sprintf("engine %d", e.ID))
		}
	}
	c.judge(Warned, "run", "of engines that have died")
	if c.Count > 0 && len(d.living()) == 0 {
		c.Health, c.Mend = Failing, []string{"serve"}
	}
	return c, nil
}

func (d *doctor) parked() (Check, error) {
	c := Check{Name: "parked"}
	err := d.find(&c, store.Filter{Statuses: []journal.Status{journal.Suspended}}, nil, "why")
	c.judge(Warned, "run", "waiting for an operator: runs resume, or runs decide")
	return c, err
}

func (d *doctor) rollbacks() (Check, error) {
	c := Check{Name: "rollbacks"}
	err := d.find(&c, store.Filter{Statuses: []journal.Status{journal.CompensationFailed}}, nil,
		"runs resume")
	c.judge(Failing, "rollback", "incomplete")
	return c, err
}

func (d *doctor) deadLetters() (Check, error) {
	c := Check{Name: "dead letters"}
	var first []journal.Head
	err := d.find(&c, DeadLetterQuery{}.filter(), func(h journal.Head) bool {
		if len(first) < doctorMends {
			first = append(first, h)
		}
		return true
	}, "")
	c.judge(Warned, "dead letter", "open")
	for _, h := range first {
		l, _, err := d.readLetter(d.ctx, h)
		if err != nil {
			return c, err
		}
		command := "dlq retry"
		switch {
		case l.RunID != "":
		case l.Damaged != "":
			command = "dlq delete"
		default: // it was added from outside: there is no run to retry
			command = "dlq handle"
		}
		c.Mend = append(c.Mend, commandFor(command, h))
	}
	return c, err
}

func (d *doctor) unrouted() (Check, error) {
	c := Check{Name: "unrouted", Count: int(d.info.Unrouted)}
	c.judge(Warned, "signal", "that found no run")
	if c.Count > 0 {
		c.Mend = []string{"unrouted list"}
	}
	return c, nil
}

// outbox finds ends and events that nobody takes.
func (d *doctor) outbox() (Check, error) {
	c := Check{Name: "outbox", Count: int(d.info.Outbox)}
	c.Evidence = c.number("entry")
	c.Evidence = strings.Replace(c.Evidence, "entrys", "entries", 1) + " to be told"
	switch {
	case c.Count == 0:
		c.Evidence = "none"
	case len(d.living()) == 0:
		c.Health, c.Mend = Warned, []string{"serve"}
	case c.Count > maxOutbox:
		c.Health = Warned
		c.Evidence += ": a listener or the publisher fails, or no engine has one"
	}
	return c, nil
}

// timers counts the runs that wait for a time.
func (d *doctor) timers() (Check, error) {
	c := Check{Name: "timers"}
	var next time.Time
	err := d.find(&c, store.Filter{Open: true}, func(h journal.Head) bool {
		if !h.Wake.After(d.now) {
			return false
		}
		if next.IsZero() || h.Wake.Before(next) {
			next = h.Wake
		}
		return true
	}, "")
	c.Evidence = c.number("run") + " with a timer or timeout to come"
	if c.Count > 0 {
		c.Evidence += ", the first at " + next.UTC().Format(time.RFC3339)
	}
	c.IDs = nil
	return c, err
}

// limits shows the limits in use, and finds those that hold runs back although nobody has a slot.
func (d *doctor) limits() (Check, error) {
	c := Check{Name: "limits"}
	all, err := d.Limits(d.ctx)
	var texts []string
	for _, l := range all {
		var used, waiting int64
		rate := false
		for _, u := range l.Uses {
			used, waiting, rate = used+u.Used, waiting+u.Waiting, rate || u.Of == "rate"
		}
		texts = append(texts, fmt.Sprintf("%s: %d used, %d waiting", cmp.Or(l.Name, "default"),
			used, waiting))
		if waiting > 0 && used == 0 && !rate {
			name := cmp.Or(l.Name, "--default")
			c.found(name, "limits get "+name)
			c.Health = Warned
		}
	}
	c.Evidence = cmp.Or(strings.Join(texts[:min(len(texts), doctorIDs)], "; "), "none in use")
	if len(texts) > doctorIDs {
		c.Evidence += fmt.Sprintf("; and %d others", len(texts)-doctorIDs)
	}
	if c.Count > 0 {
		c.Evidence += "; " + c.number("limit") + " without a used slot, and runs wait"
	}
	return c, err
}

func (d *doctor) pauses() (Check, error) {
	c := Check{Name: "pauses"}
	all, err := d.Pauses(d.ctx)
	for _, p := range all {
		name := cmp.Or(p.Workflow, "--all")
		c.found(name, "workflows resume "+name)
	}
	c.judge(Warned, "workflow", "paused")
	return c, err
}
