package perdure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// pausedBy describes the pause by which a run is not claimed; empty if there is none.
func pausedBy(now time.Time, info store.Info, h journal.Head) string {
	if !isDue(now, h) {
		return ""
	}
	for _, s := range info.Settings {
		if s.Kind != rules.PauseSetting || s.Value == nil || isOwn(h.Workflow) ||
			s.Name != "" && s.Name != h.Workflow {
			continue
		}
		what := "all workflows are paused"
		if s.Name != "" {
			what = "workflow " + s.Name + " is paused"
		}
		if s.By != "" {
			what += " by " + s.By
		}
		if s.Reason != "" {
			what += ": " + s.Reason
		}
		return what
	}
	return ""
}

// isDue reports whether an engine may claim the run now.
func isDue(now time.Time, h journal.Head) bool {
	return h.Owner == 0 && !h.Wake.IsZero() && !h.Wake.After(now)
}

// A standing is the state of a run, with what its reason is made of.
type standing struct {
	Description
	now     time.Time
	inbox   []journal.Entry // messages that it has not taken, with the engine's own
	slots   []store.Slot
	closing time.Time // when its end was decided, if it is decided
}

// why returns the reason for which an open run does not go on by itself.
func (s standing) why() string {
	if s.Head.Status.IsTerminal() {
		return ""
	}
	if text := s.asked(); text != "" {
		return text
	}
	cause := s.Head.Cause
	switch {
	case s.State.Ending == 0:
	case cause != "" && s.Head.Status == journal.Suspended:
		return s.parkedAtEnd()
	case len(s.State.Waits) == 0:
		text := "it cleans up before it ends as " + s.State.Ending.String()
		if next := s.retried(); next != "" {
			text += ": " + next
		}
		return text
	}
	switch s.Head.Status {
	case journal.Pending:
		if held(s.now, s.Head) {
			return "it " + cause + s.inLine("")
		}
		return "it waits for an engine with a free slot"
	case journal.Suspended, journal.CompensationFailed:
		if cause != "" {
			return s.parkedBy() + ": " + cause
		}
	case journal.Waiting:
		if cause != "" {
			return "its code failed and is replayed at " + s.Head.Wake.Format(time.RFC3339) + ": " +
				cause
		}
	case journal.Running:
		return ""
	}
	return s.openWait()
}

// asked describes what was asked of a run that no engine has, and that an engine will carry out.
func (s standing) asked() string {
	if s.Head.Owner != 0 {
		return ""
	}
	for _, m := range s.inbox {
		by := ""
		if m.Detail != nil && m.Detail.By != "" {
			by = " by " + m.Detail.By
		}
		switch {
		case m.Kind == journal.CancelAsked && (m.Detail == nil ||
			m.Detail.Mode != journal.ActionJoin):
			return "it is asked to end" + by + notTaken
		case m.Kind == journal.ResumeAsked && s.Head.Status == journal.Suspended:
			return "it was resumed" + by + notTaken
		}
	}
	return ""
}

// notTaken ends the description of something that has come.
const notTaken = ", and no engine has taken it up since"

// parkedAtEnd describes a run that is parked after its end was decided.
func (s standing) parkedAtEnd() string {
	where := " before its clean-ups: "
	if slices.ContainsFunc(s.State.Steps, func(t journal.Step) bool {
		return !t.Started.Before(s.closing)
	}) {
		where = " in its clean-ups: "
	}
	return "since " + s.closing.UTC().Format(time.RFC3339) + " it is to end as " +
		s.State.Ending.String() + ", and it is " + s.parkedBy() + where + s.Head.Cause
}

// parkedBy names the operator who has parked a run, if there is one.
func (s standing) parkedBy() string {
	if s.Head.Status == journal.Suspended && s.State.By != "" {
		return "parked by " + s.State.By
	}
	return "parked"
}

// openWait describes the first wait of a run that is not over, or else what has ended one, or else
// the step that is tried again next; empty if there is none of them.
func (s standing) openWait() string {
	over := ""
	for _, w := range s.State.Waits {
		if w.Kind == journal.WaitTimer && s.isPast(w.Due) {
			continue // no code may ever ask for a timer that has moved along from the run before
		}
		text := s.come(w)
		if text == "" {
			return s.waitsFor(w)
		}
		over = cmp.Or(over, text)
	}
	return cmp.Or(over, s.retried())
}

// come describes what has come that ends a wait, as far as the inbox shows it; empty if nothing has
// come.
func (s standing) come(w journal.Wait) string {
	what := ""
	switch w.Kind {
	case journal.WaitSignal:
		if w.Op.Name == journal.CallbackName {
			if s.has(func(m journal.Entry) bool {
				return m.Kind == journal.AnswerReceived && m.Op.Key == w.Op.Key
			}) {
				what = "an answer to callback " + w.Op.Key + " has come"
			}
			break
		}
		if s.has(func(m journal.Entry) bool { return m.Op.Name == w.Op.Name }) {
			what = "signal " + w.Path + " is in its inbox"
		}
		if what != "" && s.Head.Owner != 0 {
			return what + ", and its code has not taken it: the code does something else, or the " +
				"wait does not want that signal"
		}
		if !isDue(s.now, s.Head) {
			return "" // the code has looked at the signal, and the wait does not want it
		}
	case journal.WaitChild:
		if s.has(func(m journal.Entry) bool {
			return m.Kind == journal.ChildCompleted && m.Op.Key == string(w.Child)
		}) {
			what = "child " + w.Path + ", run " + string(w.Child) + ", has ended"
		}
	case journal.WaitDecision:
		if s.has(func(m journal.Entry) bool {
			return m.Kind == journal.DecisionMade && m.Op == w.Op
		}) {
			what = "decision " + w.Path + " is made"
		}
	case journal.WaitSlot:
		isSlot := func(w journal.Wait) bool { return w.Kind == journal.WaitSlot }
		if s.has(func(m journal.Entry) bool { return m.Kind == journal.SlotGranted }) &&
			!slices.ContainsFunc(s.State.Waits, func(o journal.Wait) bool {
				return isSlot(o) && o.Op != w.Op // a message does not show which one it is for
			}) {
			what = "it has got what it waited for at " + w.Path + ", of limit " + w.Reason
		}
	}
	switch {
	case what == "":
		return ""
	case s.Head.Owner != 0:
		return what + ", and its code has not gone on since: it does something else"
	}
	return what + notTaken
}

func (s standing) has(match func(journal.Entry) bool) bool {
	return slices.ContainsFunc(s.inbox, match)
}

// retried describes the step that is tried again next; empty if there is none.
func (s standing) retried() string {
	all := s.retries()
	if len(all) == 0 {
		return ""
	}
	next := slices.MinFunc(all, func(a, b journal.Step) int { return a.Due.Compare(b.Due) })
	when := "is tried again at"
	if s.isPast(next.Due) {
		when = "could be tried again since"
	}
	text := fmt.Sprintf("step %s has failed in attempt %d, and %s %s", next.Path, next.Attempts,
		when, next.Due.UTC().Format(time.RFC3339))
	if next.Failure != nil {
		text += ": " + next.Failure.Message
	}
	return text
}

func (s standing) isPast(t time.Time) bool { return !t.After(s.now) }

// retries returns the steps that are tried again.
func (s standing) retries() []journal.Step {
	return slices.DeleteFunc(slices.Clone(s.State.Steps), func(t journal.Step) bool {
		return t.Status != journal.StepIsRetrying
	})
}

// waits returns what an open run waits for.
func (s standing) waits() (out []journal.Wait) {
	if s.Head.Status.IsTerminal() {
		return nil
	}
	for _, w := range s.State.Waits {
		isOver := w.Kind == journal.WaitTimer && s.isPast(w.Due) || s.come(w) != ""
		if !isOver {
			out = append(out, w)
		}
	}
	for _, t := range s.retries() {
		if s.isPast(t.Due) {
			continue
		}
		reason := fmt.Sprintf("attempt %d has failed", t.Attempts)
		if t.Failure != nil {
			reason += ": " + t.Failure.Message
		}
		out = append(out, journal.Wait{
			Op: t.Op, Path: t.Path, Kind: journal.WaitRetry, Since: t.Started, Due: t.Due,
			Reason: reason,
		})
	}
	for _, o := range s.slots {
		if held(s.now, s.Head) && (o.Place > 0 || !o.Due.IsZero()) {
			out = append(out, journal.Wait{
				Path: o.Limit, Kind: journal.WaitSlot, Since: o.Since, Due: o.Due, Reason: o.Limit,
			})
		}
	}
	return out
}

// held reports whether a run is held back before its code is called.
func held(now time.Time, h journal.Head) bool {
	return h.Status == journal.Pending && h.Cause != "" &&
		(h.Wake.IsZero() || h.Wake.After(now))
}

// slots returns the slots and tokens that a run has or waits for, if it waits for one.
func (c *Client) slots(ctx context.Context, now time.Time, d Description) ([]store.Slot,
	error) {
	isSlot := func(w journal.Wait) bool { return w.Kind == journal.WaitSlot }
	if d.Head.Status.IsTerminal() ||
		!held(now, d.Head) && !slices.ContainsFunc(d.State.Waits, isSlot) {
		return nil, nil
	}
	return c.sealed.FrontEnd.Slots(ctx, store.SlotQuery{Run: d.Head.Number})
}

// inLine describes the place of a run that waits for a slot of a limit, or the time of the token
// that it waits for; empty for other runs. An empty limit stands for any.
func (s standing) inLine(limit string) string {
	for _, o := range s.slots {
		switch {
		case limit != "" && o.Limit != limit:
		case o.Place > 0:
			return fmt.Sprintf(": it is number %d of %d in line, and %d of %d slots are taken",
				o.Place, o.Line, o.Used, o.Max)
		case !o.Due.IsZero() && s.isPast(o.Due):
			return ": its token has been due since " + o.Due.UTC().Format(time.RFC3339)
		case !o.Due.IsZero():
			return ": its token is due at " + o.Due.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// unheard describes an engine that has a run and does not renew its lease. An engine that is well
// renews it when a third is over: for that one, unheard returns an empty string.
func unheard(info store.Info, owner journal.EngineID) string {
	for _, e := range info.Engines {
		if e.ID == owner && !e.Until.IsZero() && info.Now.Sub(e.Seen) > e.Until.Sub(e.Seen)/2 {
			return fmt.Sprintf("engine %d, which has it, was last heard of at %s: if it has died, "+
				"another engine takes the run up when its lease ends, at %s", owner,
				e.Seen.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// waitsFor describes a wait in words.
func (s standing) waitsFor(w journal.Wait) string {
	due := ""
	if !w.Due.IsZero() {
		due = w.Due.UTC().Format(time.RFC3339)
	}
	switch w.Kind {
	case journal.WaitTimer:
		return "it waits for timer " + w.Path + ", due " + due
	case journal.WaitChild:
		return "it waits for child " + w.Path + ", run " + string(w.Child)
	case journal.WaitDecision:
		return "it waits for an operator's decision " + w.Path + ": " + w.Reason
	case journal.WaitSlot:
		return "it waits at " + w.Path + " for limit " + w.Reason + s.inLine(w.Reason)
	}
	what := "it waits for signal " + w.Path
	if w.Reason == journal.ReasonAnySignal {
		what = "it has suspended at " + w.Path + ": any signal, or an operator who resumes it, " +
			"lets it go on"
	}
	if key, is := strings.CutPrefix(w.Op.Name, sealed.DecisionName); is {
		what = "it waits for approval " + key + ", which perdure approvals list shows"
	}
	if w.Op.Name == journal.CallbackName {
		what = "it waits for an answer to callback " + w.Op.Key
	}
	if due != "" {
		what += ", until " + due
	}
	return what
}
