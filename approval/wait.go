package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/reply"
	"github.com/perdure/perdure/journal"
)

// The names of what a run shows of its asks: the published states, and the search attributes of
// runs that have open ones. A run with an open ask of key K has the attributes "approval" and
// "approval:K", and "approval.remind" if somebody is to be reminded.
const (
	published = "approval:"
	attribute = "approval"
	reminding = "approval.remind"
	isOpen    = "open"
	reminds   = "remind" // the value of "approval:K" of an ask with reminders
)

// An Outcome is the end of an ask.
type Outcome struct {
	Status    Status // Approved, Rejected or Expired
	Decisions []Decision
}

// IsApproved reports whether the ask is approved.
func (o Outcome) IsApproved() bool { return o.Status == Approved }

// Last returns the decision that has ended the ask, or the last one before it expired. It returns a
// zero Decision if there is none.
func (o Outcome) Last() Decision {
	if len(o.Decisions) == 0 {
		return Decision{}
	}
	return o.Decisions[len(o.Decisions)-1]
}

// Wait asks, and waits until the ask is approved, rejected or expired. It is called in workflow
// code, of any pattern. While it waits, the run may be unloaded. A decision that is not valid is
// refused, and the ask stays open. Wait returns an error only if the ask is not valid, if another
// branch of the run has an open ask of the key (code conflict), or if ctx or the run ends first;
// then the ask is withdrawn.
func Wait(ctx context.Context, a Ask) (Outcome, error) {
	if err := a.check(); err != nil {
		return Outcome{}, err
	}
	g, err := begin(ctx, a)
	if err != nil {
		return Outcome{}, err
	}
	for g.Status == Open {
		if err := g.next(ctx); err != nil {
			if own, bounded := kernel.Own(ctx); bounded { // ctx has ended, and not the run
				g.Status = Withdrawn
				_ = g.close(own)
			}
			return Outcome{}, err
		}
	}
	if err := g.close(ctx); err != nil {
		return Outcome{}, err
	}
	return Outcome{g.Status, g.Decisions}, nil
}

// A gate is an ask that is open, in workflow code.
type gate struct {
	*State
	run  string
	op   string
	form Form
}

// begin records an ask.
func begin(ctx context.Context, a Ask) (*gate, error) {
	var first struct {
		ID string    `json:"id"`
		At time.Time `json:"at"`
	}
	if f, err := record(ctx, "perdure:asked", a.Key, &first, func() (any, error) {
		other, err := kernel.Wait{Name: name(a.Key)}.IsOpen(ctx)
		if other {
			err = &perdure.Error{
				Code: journal.CodeConflict, Op: "approval " + a.Key,
				Message: "another branch of the run asks for a decision with this key",
				Hint:    "give each ask that may be open beside it a key of its own",
			}
		}
		first.ID, first.At = rand.Text()[:10], kernel.Now(ctx).Round(0).UTC()
		return first, err
	}); err != nil || f != nil {
		return nil, cmp.Or(err, failure.Err(f))
	}
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return nil, err
	}
	g := &gate{newState(&a, first.ID, first.At), info.RunID, "approval " + a.Key, a.Form}
	if err := g.publish(ctx); err != nil {
		return nil, err
	}
	set := [][2]string{{attribute, isOpen}, {published + g.Key, isOpen}}
	if g.Remind > 0 {
		set[1][1], set = reminds, append(set, [2]string{reminding, isOpen})
	}
	for _, s := range set {
		if err := perdure.SetAttribute(ctx, s[0], s[1]); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// record records what produce returns at the first call: a value, which it decodes into v, or an
// error, which it returns as a failure.
func record(ctx context.Context, name, key string, v any,
	produce func() (any, error)) (*journal.Failure, error) {
	out, err := kernel.TakeNote(ctx, kernel.Note{
		Kind: journal.ValueRecorded, Name: name, Key: key,
		Produce: func() ([]byte, *journal.Failure) {
			v, err := produce()
			data := []byte(nil)
			if err == nil {
				data, err = json.Marshal(v)
			}
			if err != nil {
				return nil, failure.Of(err)
			}
			return data, nil
		},
	})
	if err != nil || out.Failure != nil {
		return out.Failure, err
	}
	if err := json.Unmarshal(out.Data, v); err != nil {
		return nil, &perdure.Error{Code: journal.CodeDecode, Op: "read " + name, Err: err}
	}
	return nil, nil
}

func (g *gate) publish(ctx context.Context) error {
	return perdure.Publish(ctx, published+g.Key, g.clone())
}

// close records the end of the ask. The run is found as one with open asks until the last one ends.
func (g *gate) close(ctx context.Context) error {
	if g.Status == Expired || g.Status == Withdrawn {
		if err := g.publish(ctx); err != nil {
			return err
		}
	}
	if err := perdure.SetAttribute(ctx, published+g.Key, ""); err != nil {
		return err
	}
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return err
	}
	others, remind := false, false
	for name, value := range info.Attributes {
		if strings.HasPrefix(name, published) {
			others, remind = true, remind || value == reminds
		}
	}
	if g.Remind > 0 && !remind {
		if err := perdure.SetAttribute(ctx, reminding, ""); err != nil {
			return err
		}
	}
	if others {
		return nil
	}
	return perdure.SetAttribute(ctx, attribute, "")
}

// next waits for the next thing that happens to the ask: a decision, an escalation, or the end of
// its time.
func (g *gate) next(ctx context.Context) error {
	w := kernel.Wait{Name: name(g.Key), Until: g.Due}
	if g.Escalated < len(g.Escalate) {
		at := g.Asked.Add(g.Escalate[g.Escalated].After)
		if w.Until.IsZero() || at.Before(w.Until) {
			w.Until = at
		}
	}
	out, err := kernel.Receive(ctx, w)
	switch {
	case err != nil:
		return err
	case out.Failure == nil:
		return g.take(ctx, out)
	case !strings.HasPrefix(out.Failure.Message, w.Name+" did not come by "): // ctx has ended
		return failure.Err(out.Failure)
	case w.Until.Equal(g.Due):
		g.Status, g.Ended = Expired, g.Due
		return nil
	}
	g.Escalated++
	return g.publish(ctx)
}

// A vote is a decision as it is sent.
type vote struct {
	Decision
	Approved *bool  `json:"approved"` // in place of that of Decision, to be seen to be there
	Ask      string `json:"ask,omitempty"`
}

// take takes a message: a decision that counts, or one that is refused.
func (g *gate) take(ctx context.Context, out kernel.Outcome) error {
	var d Decision
	message := out.Detail.MessageID()
	refused, err := record(ctx, "perdure:decision", message, &d, func() (any, error) {
		return g.examine(kernel.Now(ctx).Round(0).UTC(), message, out.Data)
	})
	if err != nil {
		return err
	}
	switch {
	case refused != nil && out.Detail.Passed != "": // the run before has replied
		return nil
	case refused != nil:
		return reply.Give(ctx, message, nil, refused)
	}
	g.add(d)
	if err := g.publish(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(g.receipt(g.run))
	if err != nil {
		return err
	}
	return reply.Give(ctx, message, data, nil)
}

// examine returns the decision of a message that is looked at now, or the error that refuses it.
func (g *gate) examine(now time.Time, message string, data []byte) (Decision, error) {
	var v vote
	if err := json.Unmarshal(data, &v); err != nil || v.Approved == nil {
		return Decision{}, &perdure.Error{
			Code: journal.CodeInvalid, Op: g.op, Err: err,
			Message: `the decision is not valid: it is an object with "approved"`,
		}
	}
	d := v.Decision
	d.Approved = *v.Approved
	if d.At.IsZero() || d.At.After(now) || d.At.Before(g.Asked) {
		d.At = now
	}
	d.At = d.At.UTC()
	d.Reason, d.AssertedBy = failure.Clip(d.Reason), failure.Clip(d.AssertedBy)
	if !reply.IsUpdate(message) {
		d.Role, d.Source, d.AssertedBy = "", Message, ""
	}
	if d.By != "" && !validText(d.By) || d.By == "" && d.Source != Message {
		return d, badPerson(g.op, d.By)
	}
	if v.Ask != "" && v.Ask != g.Ask {
		return d, &perdure.Error{
			Code: journal.CodeConflict, Op: g.op,
			Message: "the decision is about an earlier ask of this key",
		}
	}
	if err := g.judge(g.op, &d); err != nil {
		return d, err
	}
	return d, checkData(g.op, g.form, &d)
}
