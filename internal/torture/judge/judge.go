// Package judge compares the state of a store after a torture with the calls to the outside world
// and the required results of the programs. It returns the errors, in words.
package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Run is a run as the store has it.
type Run struct {
	Head    journal.Head
	Entries []journal.Entry
	Inbox   []journal.Entry // messages that nobody took
	State   journal.Snapshot
	Bad     []string // errors of the journal by itself
}

// A Call is a call that the world has recorded.
type Call = world.Entry

// Repeated counts the calls whose effect had taken place before.
func Repeated(calls []Call) (n int) {
	seen := map[string]bool{}
	for _, c := range calls {
		if seen[c.Key] && c.Key != "" {
			n++
		}
		seen[c.Key] = true
	}
	return n
}

// Read reads the runs of some workflow IDs, with their children; without IDs, every run of the
// store.
func Read(ctx context.Context, s store.Store, ids ...string) ([]*Run, error) {
	if len(ids) == 0 {
		return readAll(ctx, s, store.Filter{Limit: store.MaxLimit})
	}
	var out []*Run
	for some := range slices.Chunk(ids, store.MaxLimit) {
		runs, err := readAll(ctx, s, store.Filter{WorkflowIDs: some, Limit: store.MaxLimit})
		if err != nil {
			return nil, err
		}
		out = append(out, runs...)
	}
	for {
		unknown := missingChildren(out)
		if len(unknown) == 0 {
			return out, nil
		}
		runs, err := readAll(ctx, s, store.Filter{
			Runs: unknown[:min(len(unknown), store.MaxLimit)], Limit: store.MaxLimit,
		})
		if err == nil && len(runs) == 0 {
			err = fmt.Errorf("children are not there: %v", unknown)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, runs...)
	}
}

// missingChildren returns the children of some runs that are not among them.
func missingChildren(runs []*Run) (out []journal.RunID) {
	known := map[journal.RunID]bool{}
	for _, r := range runs {
		known[r.Head.ID] = true
	}
	for _, r := range runs {
		for _, e := range r.Entries {
			if e.Kind == journal.ChildStarted && e.Detail != nil && !known[e.Detail.Other] {
				known[e.Detail.Other] = true
				out = append(out, e.Detail.Other)
			}
		}
	}
	return out
}

func readAll(ctx context.Context, s store.Store, f store.Filter) ([]*Run, error) {
	var out []*Run
	for {
		heads, next, err := s.Find(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			r, err := read(ctx, s, h)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		if f.After = next; next.IsZero() {
			return out, nil
		}
	}
}

func read(ctx context.Context, s store.Store, h journal.Head) (*Run, error) {
	entries, err := s.Load(ctx, h.Number, store.Range{Payloads: true})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", h.ID, err)
	}
	inbox, err := s.Load(ctx, h.Number, store.Range{Inbox: true, Payloads: true})
	if err != nil {
		return nil, fmt.Errorf("inbox of run %s: %w", h.ID, err)
	}
	r := &Run{Head: h, Entries: entries, Inbox: inbox}
	r.State, r.Bad = Audit(h, entries)
	return r, nil
}

// Audit folds a journal, and returns the errors of it by itself.
func Audit(h journal.Head, entries []journal.Entry) (s journal.Snapshot, bad []string) {
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	results, taken := map[journal.Op]journal.Kind{}, map[int64]bool{}
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			return s, append(bad, fmt.Sprintf("there is a hole: entry %d has sequence %d", i+1,
				e.Seq))
		}
		if part := e.Misplaced(); part != "" {
			bad = append(bad, fmt.Sprintf("entry %d is %v and has a %s", i+1, e.Kind, part))
		}
		if err := a.Apply(e); err != nil {
			return s, append(bad, fmt.Sprintf("entry %d does not follow: %v", i+1, err))
		}
		if e.Kind.EndsStep() {
			if was := results[e.Op]; was != 0 {
				bad = append(bad, fmt.Sprintf("step %v ended %v and then %v", e.Op, was, e.Kind))
			}
			results[e.Op] = e.Kind
		}
		if e.Detail != nil && e.Detail.Mail != 0 {
			if taken[e.Detail.Mail] {
				bad = append(bad, fmt.Sprintf("message %d is taken twice", e.Detail.Mail))
			}
			taken[e.Detail.Mail] = true
		}
	}
	s = a.Snapshot()
	if len(entries) == 0 || entries[0].Kind != journal.RunStarted {
		return s, append(bad, "the journal does not begin with the start")
	}
	begins := slices.IndexFunc(entries, func(e journal.Entry) bool {
		return e.Kind == journal.RunClaimed
	})
	if d := entries[0].Detail; begins >= 0 && d != nil && entries[begins].At.Before(d.Due) {
		bad = append(bad, fmt.Sprintf("it began at %v, before its time %v", entries[begins].At,
			d.Due))
	}
	if s.Status != h.Status {
		bad = append(bad, fmt.Sprintf("the head says %v, the journal %v", h.Status, s.Status))
	}
	if last := entries[len(entries)-1]; last.Kind.EndsRun() != h.Status.IsTerminal() {
		bad = append(bad, fmt.Sprintf("the run is %v and its last entry %v", h.Status, last.Kind))
	}
	return s, bad
}

// Evidence is the input of a judgement.
type Evidence struct {
	Cases []*actor.Case
	Calls []Call
	Runs  []*Run
	// Unrouted are the signals that no run has.
	Unrouted  []journal.Entry
	Money     []Money
	Slots     []store.Slot   // that are held or waited for
	Schedules []*actor.Timed // those beside the programs
	Told      bool           // listeners report to the world how runs have ended
	Alerts    bool           // a rule was set before, and alerts are sent to the world
	Others    []*Run         // further runs that alerts may tell of
}

// Money is a row of the table that steps in transactions write.
type Money struct {
	Label  string
	Number int64
	Amount int64
}

// A bench has the evidence in the form in which it is searched.
type bench struct {
	Evidence
	runs  map[journal.RunID]*Run
	byID  map[string][]*Run // newest first
	calls map[string][]Call
	told  map[string]bool  // by run ID: the world heard of its end
	held  map[string]int64 // by label: bookings of the participants of a TCC
	// retried are the instances that an operator has retried. Operations whose code may have known
	// of the failure are done again, under their keys; those in a transaction are not.
	retried map[string]bool
	// undoing has the keys under which an effect was undone, by the key of the effect, and the time
	// when that began.
	undoing map[string]map[string]time.Time
	bad     []string
}

// told precedes the run ID in the label of a call of a listener.
const told = "told/"

// refused is part of the message of a failure because the store refused a group of the engine. No
// program causes that, and a retry must not hide it.
const refused = "store: refused: "

// Judge returns the errors.
func Judge(e Evidence) []string {
	b := &bench{
		Evidence: e,
		runs:     map[journal.RunID]*Run{},
		byID:     map[string][]*Run{},
		calls:    map[string][]Call{},
		told:     map[string]bool{},
		held:     map[string]int64{},
		retried:  map[string]bool{},
	}
	for _, r := range e.Runs {
		b.runs[r.Head.ID] = r
		b.byID[r.Head.WorkflowID] = append(b.byID[r.Head.WorkflowID], r)
	}
	for _, runs := range b.byID { // several engines number runs: numbers do not show the order
		slices.SortStableFunc(runs, func(r, s *Run) int {
			return s.Head.Created.Compare(r.Head.Created)
		})
	}
	for _, c := range e.Calls {
		if strings.HasPrefix(c.Label, told) {
			b.told[strings.TrimPrefix(c.Label, told)] = true
			continue
		}
		if !strings.HasPrefix(c.Label, play.Alerted) {
			b.calls[c.Label] = append(b.calls[c.Label], c)
		}
	}
	for _, c := range e.Cases {
		b.retried[c.ID] = c.Want.Retried || len(c.Program.Then) > 0
	}
	b.journals()
	b.undone()
	b.terminated()
	b.keys()
	seen := b.seen()
	for _, c := range e.Cases {
		b.verdict(c, seen)
		b.messages(c)
		b.stuck(c)
		b.asked(c)
		b.machine(c)
	}
	b.money(seen)
	b.limits()
	b.schedules()
	b.alerts()
	b.outputs()
	slices.Sort(b.bad)
	return b.bad
}

func (b *bench) wrong(format string, args ...any) {
	b.bad = append(b.bad, fmt.Sprintf(format, args...))
}

// journals judges every run by itself.
func (b *bench) journals() {
	for _, r := range b.Runs {
		for _, bad := range r.Bad {
			b.wrong("run %s of %s: %s", r.Head.ID, r.Head.WorkflowID, bad)
		}
		for _, e := range r.Entries {
			if f := e.Failure(); f != nil && strings.Contains(f.Message, refused) {
				b.wrong("run %s of %s: entry %d: %s", r.Head.ID, r.Head.WorkflowID, e.Seq,
					f.Message)
			}
		}
		if !r.Head.Status.IsTerminal() && !strings.HasPrefix(r.Head.Workflow, "perdure.") {
			b.wrong("run %s of %s has not ended: it is %v, %s", r.Head.ID, r.Head.WorkflowID,
				r.Head.Status, r.Head.Cause)
		}
		if s := r.Head.Status; b.Told && s.IsTerminal() && s != journal.ContinuedAsNew &&
			!b.told[string(r.Head.ID)] {
			b.wrong("no listener was told that run %s of %s ended %v", r.Head.ID, r.Head.WorkflowID,
				s)
		}
	}
}

// keys judges that one effect has one idempotency key, and one key one effect; and that
// nothing began again once its result was recorded.
func (b *bench) keys() {
	labels := map[string]string{}
	for _, label := range slices.Sorted(maps.Keys(b.calls)) {
		keys := map[string]bool{}
		for _, c := range b.calls[label] {
			keys[c.Key] = true
			if was, ok := labels[c.Key]; ok && was != label {
				b.wrong("key %s is that of %s and of %s", c.Key, was, label)
			}
			labels[c.Key] = label
			b.again(c)
			if r := b.runs[journal.RunID(c.Run)]; r != nil && r.isBy(journal.ActionFork) &&
				strings.HasSuffix(label, "/do") && !strings.HasPrefix(c.Key, c.Run+"/") {
				b.wrong("%s took place in fork %s under %s, the key of another run", label, c.Run,
					c.Key)
			}
		}
		if len(keys) > b.lives(label) {
			b.wrong("%s took place under %d keys: %v", label, len(keys),
				slices.Sorted(maps.Keys(keys)))
		}
	}
}

// lives returns how many keys an effect may have. That is one, and one more for each run of a child
// that a retry of the parent did not have to keep, because it came after a failure in its branch,
// such as a wait that passed its limit. See [journal.Reusable]. An effect that was undone may take
// place again, under another key; and each fork does its steps under keys of its own.
func (b *bench) lives(label string) int {
	instance, _, _ := strings.Cut(label, "/")
	let := map[string]bool{}
	for _, c := range b.calls[label] {
		if r := b.runs[journal.RunID(c.Run)]; b.retried[instance] && r != nil && b.cameLate(r) {
			let[c.Run] = true
		}
		if _, undone := b.undoing[c.Key]; b.retried[instance] && (undone || isUndo(c)) {
			let[c.Key] = true
		}
		by, _, _ := strings.Cut(c.Key, "/")
		if r := b.runs[journal.RunID(by)]; b.retried[instance] && r != nil &&
			r.isBy(journal.ActionFork) {
			let["its own "+c.Key] = true // beside the one that follows when it was undone
		}
	}
	return 1 + len(let)
}

// isBy reports whether an operator has made the run go on from another one by an action.
func (r *Run) isBy(a journal.Action) bool {
	return len(r.Entries) > 0 && journal.OriginOf(r.Entries[0].Detail).Action == a
}

// cameLate reports whether a run is a child of a run that failed, and was started after a failure
// in its branch.
func (b *bench) cameLate(child *Run) bool {
	i := slices.IndexFunc(b.Runs, func(r *Run) bool {
		return child.Head.Parent != 0 && r.Head.Number == child.Head.Parent
	})
	if i < 0 || b.Runs[i].Head.Status != journal.Failed {
		return false
	}
	within := map[int64]int64{} // the scope around each scope
	var failed []int64          // scopes in which something failed
	for _, e := range b.Runs[i].Entries {
		switch {
		case e.Kind == journal.ScopeOpened:
			within[e.Seq] = e.Op.Scope
		case e.Kind == journal.ChildStarted && e.Detail.Other == child.Head.ID:
			return slices.ContainsFunc(failed, func(scope int64) bool {
				for scope != e.Op.Scope && scope != 0 {
					scope = within[scope]
				}
				return scope == e.Op.Scope
			})
		case e.Failure() != nil && !e.Op.IsZero():
			failed = append(failed, e.Op.Scope)
		}
	}
	return false
}

// again judges a call whose body began after the result of its step was recorded.
func (b *bench) again(c Call) {
	r := b.runs[journal.RunID(c.Run)]
	if r == nil {
		b.wrong("%s was called by run %s, which is not there", c.Label, c.Run)
		return
	}
	i := slices.IndexFunc(r.State.Steps, func(s journal.Step) bool { return s.Path == c.Step })
	if i < 0 {
		return
	}
	if s := r.State.Steps[i]; s.Status == journal.StepIsDone && c.Began.After(s.Ended) {
		b.wrong("%s was called again %v after its result was recorded, in attempt %d by engine %d",
			c.Label, c.Began.Sub(s.Ended), c.Tries, c.Owner)
	}
}

// seen returns the numbers that the code of each instance has seen of each effect.
func (b *bench) seen() map[string]map[int64]bool {
	out := map[string]map[int64]bool{}
	see := func(label string, n int64) {
		if out[label] == nil {
			out[label] = map[int64]bool{}
		}
		out[label][n] = true
	}
	for _, c := range b.Calls {
		if c.After != "" {
			see(c.After, c.Number)
		}
	}
	for _, r := range b.Runs {
		for label, n := range output(r).Numbers {
			see(label, n)
		}
	}
	for label, numbers := range out {
		instance, _, _ := strings.Cut(label, "/")
		if len(numbers) > 1 && (!b.retried[instance] || b.isTx(label)) {
			b.wrong("%s has had %d results that the code saw: %v", label, len(numbers),
				slices.Sorted(maps.Keys(numbers)))
		}
		for n := range numbers {
			if !slices.ContainsFunc(b.calls[label], func(c Call) bool { return c.Gave == n }) {
				b.wrong("%s has the result %d, which the world never gave", label, n)
			}
		}
	}
	return out
}

// output returns the output of a run of code; empty for others.
func output(r *Run) (out play.Output) {
	if r.Head.Workflow != "program" || r.Head.Status != journal.Completed || len(r.Entries) == 0 {
		return out
	}
	_ = json.Unmarshal(r.Entries[len(r.Entries)-1].Data, &out)
	return out
}

// verdict judges one case.
func (b *bench) verdict(c *actor.Case, seen map[string]map[int64]bool) {
	runs := b.byID[c.ID]
	if len(runs) == 0 {
		b.wrong("%s was acknowledged and is lost", c.ID)
		return
	}
	last := runs[0]
	if !slices.Contains(c.Want.Ends, last.Head.Status.String()) {
		why := ""
		if f := last.State.Failure; f != nil {
			why = ": " + f.Message
		}
		b.wrong("%s ended %v, not %v%s", c.ID, last.Head.Status, c.Want.Ends, why)
		return
	}
	if last.Head.Status == journal.Completed && c.Program.Workflow == "code" {
		b.facts(c, output(last).Facts)
	}
	stopped := last.Head.Status == journal.Cancelled && c.Program.End != "cancels"
	for label, must := range c.Want.Effects {
		if must && !stopped && len(b.calls[label]) == 0 {
			b.wrong("%s did not take place", label)
		}
	}
	for _, label := range c.Want.Once {
		if n := len(b.calls[label]); n > 1 && !b.retried[c.ID] {
			b.wrong("%s took place %d times, and may once at most", label, n)
		}
	}
	for label := range b.calls {
		if _, known := c.Want.Effects[label]; !known && strings.HasPrefix(label, c.ID+"/") {
			b.wrong("%s took place and must not", label)
		}
	}
}

func (b *bench) facts(c *actor.Case, got []string) {
	want := c.Want.Facts
	if slices.Equal(want, got) {
		return
	}
	less := slices.DeleteFunc(slices.Clone(want), func(f string) bool {
		return slices.Contains(got, f)
	})
	more := slices.DeleteFunc(slices.Clone(got), func(f string) bool {
		return slices.Contains(want, f)
	})
	b.wrong("%s gave other facts: without %q, with %q, %d of %d", c.ID, less, more, len(got),
		len(want))
}
