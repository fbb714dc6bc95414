package judge

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
)

// anything stands for the value of any message.
const anything = -1

func isMachine(c *actor.Case) bool {
	d, _ := program.DeclarationOf(c.Program.Workflow)
	return d.IsMachine()
}

// machine judges the runs of a machine: the way to the end, the order of rollbacks, and that each
// item was taken once and is in the output.
func (b *bench) machine(c *actor.Case) {
	if !isMachine(c) {
		return
	}
	taken, stalled, failed := 0, false, false
	for _, r := range b.byID[c.ID] {
		b.order(c, r)
		for i := range r.Entries {
			e := &r.Entries[i]
			stalled = stalled || e.Status == journal.CompensationFailed
			failed = failed || e.Kind == journal.StepFailed || e.Kind == journal.StepCancelled
			if e.Detail != nil && e.Detail.ByStep && e.Detail.Reason == program.Item {
				taken++
			}
		}
	}
	runs := b.byID[c.ID]
	if len(runs) == 0 {
		return
	}
	if last := runs[0].Head.Status; c.Want.Stalls && !stalled && last != journal.Cancelled {
		b.wrong("the rollback of %s has not stopped, and a compensation fails for good", c.ID)
	}
	i := slices.IndexFunc(runs, func(r *Run) bool { return r.Head.Status == journal.Completed })
	if i < 0 {
		return
	}
	out, err := play.Received(json.RawMessage(runs[i].Entries[len(runs[i].Entries)-1].Data))
	if err != nil {
		b.wrong("the output of %s: %v", c.ID, err)
		return
	}
	if got := out.Course.Trail + " " + strconv.Itoa(out.Course.Sum); got != c.Want.Output {
		b.wrong("%s has gone %s, not %s", c.ID, got, c.Want.Output)
	}
	items := slices.Sorted(slices.Values(out.Course.Items))
	if len(slices.Compact(slices.Clone(items))) != len(items) {
		b.wrong("steps of %s have read signals twice: %v", c.ID, items)
	}
	d, _ := program.DeclarationOf(c.Program.Workflow)
	loses := failed || d.Catches() // the output of a branch that is cut off
	if len(items) > taken || len(items) < taken && !loses && !b.retried[c.ID] {
		b.wrong("steps of %s have read %d signals, and taken %d", c.ID, len(items), taken)
	}
}

// order judges that a run of a machine has undone its visits in the reverse order of their
// completion, and that one which ended COMPENSATED has undone all but those that an operator has
// handled.
func (b *bench) order(c *actor.Case, r *Run) {
	paths, labels := map[journal.Op]string{}, map[string]string{}
	for _, s := range r.State.Steps {
		if s.Undo {
			paths[s.Op] = s.Path
		}
	}
	from := "" // the run that this one undoes
	if r.isBy(journal.ActionCompensate) {
		from = string(journal.OriginOf(r.Entries[0].Detail).Run)
	}
	var undoing []Call // the first of each
	for label := range c.Want.Effects {
		back := strings.Replace(label, "/do", "/undo", 1)
		for _, call := range b.calls[label] {
			if call.Run == string(r.Head.ID) || call.Run == from {
				labels[call.Step] = back
			}
		}
		i := slices.IndexFunc(b.calls[back], func(c Call) bool {
			return c.Run == string(r.Head.ID)
		})
		if i >= 0 && back != label {
			undoing = append(undoing, b.calls[back][i])
		}
	}
	slices.SortFunc(undoing, func(c, d Call) int { return cmp.Compare(c.Gave, d.Gave) })
	var undone []string
	for _, c := range undoing {
		undone = append(undone, c.Label)
	}
	var want []string
	for _, e := range r.Entries {
		op := e.Op
		op.Occ = 1
		d := e.Detail
		if e.Kind != journal.StepCompleted || paths[op] == "" ||
			d != nil && d.Then != "" && d.Then != "SPLIT" {
			continue
		}
		if label := labels[paths[op]]; label != "" {
			want = append(want, label)
		}
	}
	slices.Reverse(want)
	all := slices.Clone(want)
	want = slices.DeleteFunc(want, func(l string) bool { return !slices.Contains(undone, l) })
	if !slices.Equal(want, undone) {
		b.wrong("run %s has undone %v, and its steps were completed so that it is %v", r.Head.ID,
			undone, want)
	}
	handled := slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
		return e.Status == journal.CompensationFailed
	})
	if r.Head.Status == journal.Compensated && !handled && len(all) != len(undone) {
		b.wrong("run %s has undone %v, and completed %v", r.Head.ID, undone, all)
	}
}
