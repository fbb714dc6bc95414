package alert

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const (
	pagesOfLook = 5
	mostKnown   = 5000 // of each cause; further runs are not alerted about
	overlap     = 2 * time.Minute
)

// A finding is the result of a look.
type finding struct {
	At     time.Time `json:"at"`
	Idle   bool      `json:"idle,omitempty"` // no rule is set: nobody need look
	Fresh  []string  `json:"fresh,omitempty"`
	Gone   []string  `json:"gone,omitempty"`
	Alerts []raised  `json:"alerts,omitempty"`
	Ends   []end     `json:"ends,omitempty"` // of rollbacks that have stopped
}

// A raised alert has its recipients.
type raised struct {
	Alert
	To []string `json:"to"`
}

// A looker looks for runs that stand still: a bounded number of each cause.
type looker struct {
	ctx    context.Context
	engine *perdure.Engine
	front  *kernel.FrontEnd
	rules  []Setting
	info   store.Info // the engines
	paused map[string]bool
	known  map[string]bool
	looked time.Time
	seen   map[string]bool // keys, as in state.Known
	cut    map[Cause]bool  // there may be more runs of the cause
	count  map[Cause]int   // those that are known
	groups map[[2]string]*raised
	order  [][2]string
	finding
}

// The causes of keys that are no causes of alerts: rollbacks that have stopped, and runs that the
// last look has found stale.
const (
	rollback Cause = "rollback"
	suspect  Cause = "suspect"
)

func look(ctx context.Context, s *state) (finding, error) {
	owner, err := kernel.OwnerOf(ctx)
	if err != nil {
		return finding{}, err
	}
	eng, is := owner.(*perdure.Engine)
	if !is {
		return finding{}, invalid("look", "no engine executes the step")
	}
	l := &looker{
		ctx: ctx, engine: eng, front: eng.Sealed().FrontEnd, known: s.Known, looked: s.Looked,
		paused: map[string]bool{}, seen: map[string]bool{}, cut: map[Cause]bool{},
		count: map[Cause]int{}, groups: map[[2]string]*raised{},
	}
	l.At = l.front.Now().Round(0).UTC()
	if l.looked.IsZero() {
		l.looked = l.At
	}
	return l.look()
}

func (l *looker) look() (finding, error) {
	all, err := kernel.Settings(l.ctx, l.front, rules.AlertSetting)
	if err != nil {
		return finding{}, err
	}
	for _, s := range all {
		if r, err := ruleOf(s.Value); err == nil {
			l.rules = append(l.rules, Setting{Workflow: s.Name, Rule: r})
		}
	}
	if !slices.ContainsFunc(l.rules, func(s Setting) bool { return !s.Rule.Off }) {
		return finding{At: l.At, Idle: true}, nil
	}
	pauses, err := kernel.Settings(l.ctx, l.front, rules.PauseSetting)
	if err != nil {
		return finding{}, err
	}
	for _, p := range pauses {
		l.paused[p.Name] = true
	}
	if l.info, err = l.front.Info(l.ctx); err != nil {
		return finding{}, err
	}
	for key := range l.known {
		l.count[causeOf(key)]++
	}
	for _, scan := range []func() error{
		l.rollbacks, l.suspended, l.stale, l.deadLetters, l.tooSlow, l.waiting, l.due, l.approvals,
	} {
		if err := scan(); err != nil {
			return finding{}, err
		}
	}
	for key := range l.known {
		if !l.seen[key] && !l.cut[causeOf(key)] {
			l.Gone = append(l.Gone, key)
		}
	}
	slices.Sort(l.Gone)
	for _, key := range l.order {
		l.Alerts = append(l.Alerts, l.groups[key].phrased())
	}
	return l.finding, nil
}

// A key is a cause and the number of a run.
func keyOf(c Cause, h journal.Head) string {
	return string(c) + "/" + strconv.FormatInt(int64(h.Number), 10)
}

func causeOf(key string) Cause {
	for i := range key {
		if key[i] == '/' {
			return Cause(key[:i])
		}
	}
	return ""
}

// each calls do with the runs that a filter selects, in a bounded part of the list.
func (l *looker) each(c Cause, f store.Filter, do func(journal.Head) error) error {
	f.Limit = store.MaxLimit
	for range pagesOfLook {
		heads, next, err := l.front.Heads(l.ctx, f)
		if err != nil {
			return err
		}
		for _, h := range heads {
			if err := do(h); err != nil {
				return err
			}
		}
		if f.After = next; next.IsZero() {
			return nil
		}
	}
	l.cut[c] = true
	return nil
}

// isNew reports whether nobody was alerted about a run for that cause.
func (l *looker) isNew(c Cause, h journal.Head) bool { return l.isNewKey(c, keyOf(c, h)) }

// isNewKey does the same for a key that begins with the cause.
func (l *looker) isNewKey(c Cause, key string) bool {
	if l.seen[key] {
		return false
	}
	if l.known[key] {
		l.seen[key] = true
		return false
	}
	if l.count[c] >= mostKnown {
		return false
	}
	l.seen[key] = true
	l.count[c]++
	l.Fresh = append(l.Fresh, key)
	return true
}

// rule returns the rule for a workflow, if it has the cause.
func (l *looker) rule(c Cause, workflow string) (Rule, bool) {
	if rules.IsOwn(workflow) {
		return Rule{}, false
	}
	r, found := ruleIn(l.rules, workflow)
	return r, found && !r.Off && r.has(c)
}

// found notes a run that stands still.
func (l *looker) found(c Cause, h journal.Head, why string) {
	if r, has := l.rule(c, h.Workflow); has && l.isNew(c, h) {
		l.raise(c, r, h.Workflow, runOf(h, why))
	}
}

func runOf(h journal.Head, why string) Run {
	return Run{
		RunID: string(h.ID), WorkflowID: h.WorkflowID, Status: h.Status, Text: failure.Clip(why),
		At: h.Created.UTC(),
	}
}

// raise puts a run into the alert of its workflow and cause.
func (l *looker) raise(c Cause, r Rule, workflow string, run Run) {
	key := [2]string{string(c), workflow}
	if l.groups[key] == nil {
		l.groups[key] = &raised{Alert{Cause: c, Workflow: workflow, At: l.At}, r.To}
		l.order = append(l.order, key)
	}
	l.groups[key].add(run)
}

// phrased returns the alert with its sentence.
func (a *raised) phrased() raised {
	runs, verb := "1 run of "+a.Workflow, "has"
	if a.Count != 1 {
		runs, verb = strconv.Itoa(a.Count)+" runs of "+a.Workflow, "have"
	}
	a.Text = runs + " " + verb + " " + map[Cause]string{
		CauseStalled: "stalled", CauseDeadLettered: "a new dead letter",
		CauseTooSlow:  "been open for too long",
		CauseWaiting:  "waited for a slot or an engine for too long",
		CauseNoEngine: "been due for a minute, and no engine has the workflow",
		CauseApproval: "asked for an approval, and nobody has decided",
	}[a.Cause]
	slices.SortStableFunc(a.Runs, func(x, y Run) int { return x.At.Compare(y.At) })
	return *a
}

// rollbacks finds rollbacks that have stopped. They count as ends.
func (l *looker) rollbacks() error {
	return l.each(rollback, store.Filter{
		Statuses: []journal.Status{journal.CompensationFailed}, Without: kernel.OwnPrefix,
	}, func(h journal.Head) error {
		r, has := l.rule(CauseEnded, h.Workflow)
		if !has || !r.counts(h.Status) || !l.isNew(rollback, h) {
			return nil
		}
		e := end{h.Workflow, runOf(h, cmp.Or(h.Error, h.Cause)), r, l.At}
		e.At = l.At
		l.Ends = append(l.Ends, e)
		return nil
	})
}

func (l *looker) suspended() error {
	return l.each(CauseStalled, store.Filter{
		Statuses: []journal.Status{journal.Suspended}, Without: kernel.OwnPrefix,
	}, func(h journal.Head) error {
		l.found(CauseStalled, h, cmp.Or(h.Cause, "it is suspended"))
		return nil
	})
}

// stale finds runs that two looks in a row have found stale: one that an engine has just taken up
// has a journal with an old end for a moment.
func (l *looker) stale() error {
	all, more, err := admin.New(l.engine).FirstStale(l.ctx, 0)
	for _, s := range all {
		switch {
		case rules.IsOwn(s.Head.Workflow) || l.isPaused(s.Head) || l.lacking(s.Head) != "":
		case !l.isNew(suspect, s.Head):
			l.found(CauseStalled, s.Head, s.Why)
		}
	}
	l.cut[CauseStalled], l.cut[suspect] = l.cut[CauseStalled] || more, more
	return err
}

// lacking describes that no engine has the workflow of a run; empty if one has.
func (l *looker) lacking(h journal.Head) string { return sealed.Lacking(l.info, h.Workflow) }

func (l *looker) isPaused(h journal.Head) bool { return l.paused[""] || l.paused[h.Workflow] }

// deadLetters finds those that were written since the last look.
func (l *looker) deadLetters() error {
	if !slices.ContainsFunc(l.rules, func(s Setting) bool {
		return s.Rule.has(CauseDeadLettered)
	}) {
		return nil
	}
	return l.each(CauseDeadLettered, store.Filter{
		Workflow: kernel.DeadLetterWorkflow, Open: true, CreatedFrom: l.looked.Add(-overlap),
	}, func(h journal.Head) error {
		if !l.isNew(CauseDeadLettered, h) {
			return nil
		}
		letter, err := admin.New(l.engine).DeadLetter(l.ctx, h.WorkflowID)
		if journal.CodeOf(err) == journal.CodeUnavailable {
			return err
		}
		if r, has := l.rule(CauseDeadLettered, letter.Workflow); has && err == nil {
			l.raise(CauseDeadLettered, r, letter.Workflow, runOfLetter(letter))
		}
		return nil
	})
}

func runOfLetter(l deadletter.Letter) Run {
	return Run{
		RunID: l.RunID, WorkflowID: l.WorkflowID, Status: l.Status, Text: failure.Clip(l.Error),
		At: l.CreatedAt.UTC(),
	}
}

// overlong finds the runs that a filter selects that are older than their rule says.
func (l *looker) overlong(c Cause, f store.Filter, such func(journal.Head) string) error {
	for _, s := range l.rules {
		limit := s.Rule.longest(c)
		if l.At.Add(-limit).Before(time.Unix(0, 0)) {
			continue
		}
		f.Workflow, f.Without, f.CreatedTo = s.Workflow, "", l.At.Add(-limit)
		if s.Workflow == Default {
			f.Without = kernel.OwnPrefix
		}
		if err := l.each(c, f, func(h journal.Head) error {
			own := slices.ContainsFunc(l.rules, func(o Setting) bool {
				return o.Workflow == h.Workflow
			})
			why := such(h)
			if own && s.Workflow == Default || why == "" {
				return nil
			}
			begun, err := l.begun(c, h)
			if err == nil && !begun.After(l.At.Add(-limit)) {
				l.found(c, h, why)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// begun returns when a run was started or was to begin.
func (l *looker) begun(c Cause, h journal.Head) (time.Time, error) {
	if l.known[keyOf(c, h)] {
		return h.Created, nil
	}
	first, err := l.front.Read(l.ctx, h, store.Range{Limit: 1})
	if err != nil && !failure.IsDamaged(err) {
		return h.Created, err
	}
	if len(first) > 0 && first[0].Detail != nil && first[0].Detail.Due.After(h.Created) {
		return first[0].Detail.Due, nil
	}
	return h.Created, nil
}

func (l *looker) tooSlow() error {
	return l.overlong(CauseTooSlow, store.Filter{Open: true}, func(h journal.Head) string {
		if h.Wake.After(l.At) && kernel.BeginsLater(h) {
			return ""
		}
		return "it has been open since " + h.Created.UTC().Format(time.RFC3339)
	})
}

// waiting finds runs that have not begun.
func (l *looker) waiting() error {
	return l.overlong(CauseWaiting, store.Filter{
		Statuses: []journal.Status{journal.Pending},
	}, func(h journal.Head) string {
		switch {
		case l.isPaused(h):
			return ""
		case h.Wake.IsZero() || kernel.WaitsForSlot(h): // it may have a timeout
			return cmp.Or(h.Cause, "it waits for a slot")
		case h.Wake.After(l.At):
			return ""
		}
		return "it waits for an engine"
	})
}

// due finds runs that have begun, are due, and are taken up by no engine.
func (l *looker) due() error {
	return l.each(CauseNoEngine, store.Filter{
		Busy: l.At.Add(-lookEvery),
	}, func(h journal.Head) error {
		since := "it has been due since " + h.Wake.UTC().Format(time.RFC3339)
		lacking := l.lacking(h)
		switch {
		case h.Owner != 0 || !h.Status.IsActive() || l.isPaused(h):
		case lacking != "":
			l.found(CauseNoEngine, h, since+", and "+lacking)
		default:
			r, has := l.rule(CauseWaiting, h.Workflow)
			if has && l.At.Sub(h.Wake) >= r.longest(CauseWaiting) {
				l.found(CauseWaiting, h, since)
			}
		}
		return nil
	})
}

// approvals finds open asks whose next reminder is due. Each reminder of an ask has a key of its
// own.
func (l *looker) approvals() error {
	if !slices.ContainsFunc(l.rules, func(s Setting) bool { return s.Rule.has(CauseApproval) }) {
		return nil
	}
	all, next, err := approval.List(l.ctx, l.engine, approval.Query{
		Reminds: true, Limit: store.MaxLimit,
	})
	if err != nil {
		return err
	}
	l.cut[CauseApproval] = !next.IsZero()
	for _, p := range all {
		n := int64(l.At.Sub(p.Asked) / p.Remind)
		r, has := l.rule(CauseApproval, p.Workflow)
		key := string(CauseApproval) + "/" + p.RunID + "/" + p.Ask + "/" + strconv.FormatInt(n, 10)
		if n == 0 || !has || !l.isNewKey(CauseApproval, key) {
			continue
		}
		text := cmp.Or(p.Title, p.Key)
		if len(p.Roles) > 0 {
			text += ", for " + strings.Join(p.Roles, " or ")
		}
		if !p.Due.IsZero() {
			text += ", until " + p.Due.Format(time.RFC3339)
		}
		l.raise(CauseApproval, r, p.Workflow, Run{
			RunID: p.RunID, WorkflowID: p.WorkflowID, Status: journal.Waiting,
			Text: failure.Clip(text), At: p.Asked,
		})
	}
	return nil
}
