// Package present makes the JSON forms of package api from the values that packages return. The
// command line and the server share them.
package present

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// Describe returns everything about a run, with its output. For a damaged run it returns the
// readable part, and sets Why to the damage.
func Describe(ctx context.Context, c *perdure.Client, id string) (api.Description, error) {
	known, err := c.Describe(ctx, id)
	if journal.CodeOf(err) == journal.CodeCorrupt {
		known.Why, err = err.Error(), nil
	}
	if err != nil {
		return api.Description{}, err
	}
	known.State.Waits = known.Waits
	d := api.DescriptionOf(known.Head, known.State)
	d.Why, d.GoesOnAs = known.Why, api.OriginOf(journal.Origin{
		Run: journal.RunID(known.GoesOnAs), Action: journal.Action(known.GoesOnBy),
	})
	for _, m := range known.Unread {
		d.Unread = append(d.Unread, Message(m))
	}
	if known.Head.Status.IsTerminal() {
		statuses, err := c.Statuses(ctx, string(known.Head.ID))
		if err != nil {
			return api.Description{}, err
		}
		d.Output = api.Data(statuses[0].Output)
	}
	return d, nil
}

// Reason returns why a run does not go on.
func Reason(d api.Description) api.Reason {
	r := api.Reason{
		RunID: d.RunID, WorkflowID: d.WorkflowID, Status: d.Status, Why: d.Why, Waits: d.Waits,
	}
	ended := !d.Ended.IsZero()
	switch {
	case r.Why != "":
	case ended:
		r.Why = "it has ended as " + d.Status
	default:
		r.Why = "it goes on"
	}
	if r.Waits == nil {
		r.Waits = []api.Wait{}
	}
	return r
}

// Message returns the form of a message.
func Message(m perdure.Message) api.Message {
	out := api.Message{
		Number: m.Number, Name: m.Name, ID: m.ID, To: m.To, Sent: m.Sent.UTC(), Data: m.Data,
	}
	if !m.Until.IsZero() {
		out.Until = m.Until.UTC()
	}
	return out
}

// Delivery returns the form of the result of a signal.
func Delivery(d perdure.Delivery) api.Delivery {
	out := api.Delivery{
		RunID: d.RunID, Number: d.Number, Duplicate: d.Duplicate, Unrouted: d.Unrouted,
		NotDelivered: d.NotDelivered,
	}
	if d.Status != 0 {
		out.Status = d.Status.String()
	}
	return out
}

// Definition returns the form of a workflow that an engine has.
func Definition(r perdure.Registered) api.Definition {
	w := api.Definition{
		Name: r.Name, Here: true, Pattern: r.Pattern.String(), Version: r.Outline.Version,
		Description: r.Outline.Description,
		Trigger:     r.Outline.Trigger, Mode: r.Outline.Mode, IDField: r.Outline.IDField,
		Input: api.Data(r.Outline.Input), Listeners: r.Listeners,
	}
	if r.Timeout > 0 {
		w.Timeout = r.Timeout.String()
	}
	if r.Outline.Graph != nil {
		for _, n := range r.Outline.Graph.Nodes {
			w.Steps = append(w.Steps, api.Node{Name: n.Name, After: n.After})
		}
	}
	if d := r.Outline.Diagram; d != nil {
		for _, s := range d.States {
			n := api.Node{Name: s.Name}
			for _, e := range s.To {
				if e.To != "" && !slices.Contains(n.To, e.To) {
					n.To = append(n.To, e.To)
				}
			}
			w.Steps = append(w.Steps, n)
		}
	}
	for _, c := range r.Outline.Contracts {
		of := api.Contract{
			URI: c.URI, Initial: c.Initial, AcceptsAny: c.Accepts == nil, EmitsAny: c.Emits == nil,
		}
		for _, t := range c.Accepts {
			of.Accepts = append(of.Accepts, api.EventType{
				Type: t.Type, Checked: t.Checked, Schema: api.Data(t.Schema),
			})
		}
		for _, t := range c.Emits {
			of.Emits = append(of.Emits, api.EventType{
				Type: t.Type, Checked: t.Checked, Schema: api.Data(t.Schema),
			})
		}
		w.Contracts = append(w.Contracts, of)
	}
	return w
}

// Approval returns the form of an open ask.
func Approval(p approval.Pending) api.Approval {
	out := api.Approval{
		RunID: p.RunID, WorkflowID: p.WorkflowID, Workflow: p.Workflow, Key: p.Key,
		Title: p.Title, Roles: p.Roles, Asked: p.Asked, Age: p.Age.Round(time.Second).String(),
		Quorum: p.Quorum, Of: p.Of, Form: api.Data(p.Form),
	}
	if due := p.Due; !due.IsZero() {
		out.Due = &due
	}
	for _, d := range p.Decisions {
		out.Decisions = append(out.Decisions, api.Decided{
			Approved: d.Approved, By: d.By, Role: d.Role, Reason: d.Reason, Data: api.Data(d.Data),
			At: d.At, Source: string(d.Source), AssertedBy: d.AssertedBy,
		})
	}
	return out
}

// Receipt returns the form of the reply to a decision.
func Receipt(r approval.Receipt) api.Receipt {
	return api.Receipt{
		RunID: r.RunID, Key: r.Key, Status: string(r.Status), Approved: r.Approved,
		Rejected: r.Rejected, Quorum: r.Quorum,
	}
}

// Limit returns the form of a limit.
func Limit(l admin.Limit) api.Limit {
	out := api.Limit{Name: l.Name, By: l.Note.By, Reason: l.Note.Reason}
	if l.Set != nil {
		out.Concurrency, out.PerKey, out.Slots = l.Set.Concurrency, l.Set.PerKey, l.Set.Slots
		at := l.At.UTC()
		out.At = &at
		if r := l.Set.Rate; r != nil {
			out.Rate, out.Burst = rate(*r), r.Burst
		}
	}
	for _, u := range l.Uses {
		out.Uses = append(out.Uses, api.LimitUse(u))
	}
	return out
}

// LimitRun returns the form of a run that has or waits for a limit.
func LimitRun(r admin.LimitRun) api.LimitRun {
	out := api.LimitRun{
		Run: api.RunOf(r.Run), Key: r.Key, Held: r.Held, Place: r.Place, Since: r.Since.UTC(),
	}
	if !r.Due.IsZero() {
		due := r.Due.UTC()
		out.Due = &due
	}
	return out
}

func rate(r limit.Rate) string {
	if r.Tokens == 0 {
		return "0"
	}
	return strconv.Itoa(r.Tokens) + "/" + r.Per.String()
}

// ParseRate returns the rate that a text is, such as 10/1m. 0 is no limit.
func ParseRate(text string) (r limit.Rate, ok bool) {
	if text == "0" {
		return r, true
	}
	tokens, per, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(tokens)
	if !ok || err != nil {
		return r, false
	}
	if per != "" && (per[0] < '0' || per[0] > '9') { // 10/s
		per = "1" + per
	}
	d, err := time.ParseDuration(per)
	return limit.Rate{Tokens: n, Per: d}, err == nil && n > 0 && d > 0
}

// Pause returns the form of the pause of a workflow.
func Pause(p admin.Pause) api.Pause {
	return api.Pause{
		Workflow: p.Workflow, By: p.Note.By, Reason: p.Note.Reason, At: p.At.UTC(),
	}
}

// Key returns the form of a key of the database, without its secret.
func Key(k admin.Key) api.Key {
	return api.Key{
		ID: k.ID, Signs: k.Signs, Made: k.Made.UTC(), By: k.Note.By, Reason: k.Note.Reason,
	}
}

// Alert returns the form of a rule of alerts.
func Alert(s alert.Setting) api.Alert {
	r, at := s.Rule, s.At
	out := api.Alert{
		Workflow: s.Workflow, Off: r.Off, InARow: r.InARow, Times: r.Times,
		Within: span(r.Within), Longest: span(r.Longest), LongestWait: span(r.LongestWait),
		To: r.To, By: s.Note.By, Reason: s.Note.Reason,
		At: &at,
	}
	for _, c := range r.Causes {
		out.Causes = append(out.Causes, string(c))
	}
	for _, s := range r.Statuses {
		out.Statuses = append(out.Statuses, s.String())
	}
	return out
}

func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Check returns the form of what the doctor has looked at. Command makes the text of a command
// that mends it, such as one with the name of the program.
func Check(check admin.Check, command func(string) string) api.Check {
	out := api.Check{
		Name: check.Name, Health: string(check.Health), Evidence: check.Evidence,
		Count: check.Count, AtLeast: check.AtLeast, IDs: check.IDs, Mend: []string{},
	}
	if out.IDs == nil {
		out.IDs = []string{}
	}
	for _, c := range check.Mend {
		out.Mend = append(out.Mend, command(c))
	}
	return out
}

// Loop returns the form of a loop of an engine.
func Loop(l admin.Loop) api.Loop {
	state := "running"
	switch {
	case l.MayStart:
		state = "stopped"
	case l.Stopped:
		state = "over"
	case l.Hangs:
		state = "hangs"
	}
	return api.Loop{
		Engine: int64(l.Engine), Name: l.Name, State: state, Last: moment(l.Last),
		Every: l.Every.Seconds(), Reason: l.Reason,
	}
}

// reservedNames begin the names of workflows that engines have by themselves.
const reservedNames = "perdure."

// IsReserved reports whether engines have a workflow of that name by themselves.
func IsReserved(name string) bool { return strings.HasPrefix(name, reservedNames) }
