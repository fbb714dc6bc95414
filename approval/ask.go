package approval

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// An Ask describes a decision that workflow code needs, and who may make it.
type Ask struct {
	// Key names the ask within its run. A run has one open ask of a key at a time.
	Key   string
	Title string // for people; may be empty
	// Role is the role that a decision needs. Empty means that anybody may decide. Roles are free
	// names.
	Role string
	Form Form // checks the data of a decision; nil takes any data

	// Within and Until limit the wait, as [perdure.Within] and [perdure.Until] do; zero means no
	// limit. If both are set, the first applies. Then the outcome is [Expired].
	Within time.Duration
	Until  time.Time

	// Escalate has other roles that may decide, too, after a time.
	Escalate []Escalation
	// Remind is the time after which recipients of alerts are reminded, again and again; 0 means
	// never. See package alert, whose rule for the workflow has the recipients.
	Remind time.Duration

	// Quorum is the number of different people who must approve; 0 means one. Of is the number of
	// people who are asked: the ask is rejected when so many have rejected that the others are too
	// few. Without Of, the first rejection rejects.
	Quorum, Of int
}

// An Escalation allows a role to decide, too, from some time after the ask on.
type Escalation struct {
	After time.Duration `json:"after"`
	Role  string        `json:"role"`
}

// A Form describes and checks the data of decisions. Package approval/form makes forms of JSON
// schemas. Its methods are called in workflow code, and must depend on their argument alone. If it
// has a method Valid() error, an ask with a form that is not valid is refused.
type Form interface {
	Schema() json.RawMessage // a JSON schema, for those who show the form
	// Check returns an error for data that does not match. The sender of the decision gets it.
	Check(data json.RawMessage) error
}

const maxText = 255 // bytes of a name of a person or role

// minRemind is how often package alert looks.
const minRemind = time.Minute

func (a *Ask) check() error {
	op := "approval " + a.Key
	switch {
	case !journal.ValidName(name(a.Key)) || a.Key == "":
		return failure.BadName("key of an approval", a.Key)
	case a.Role != "" && !validText(a.Role):
		return failure.Invalid(op, "the role %s is not valid", failure.Quoted(a.Role))
	case a.Within < 0:
		return failure.Invalid(op, "Within %v is not valid: at least 0", a.Within)
	case a.Remind != 0 && a.Remind < minRemind:
		return failure.Invalid(op, "Remind %v is not valid: 0, or at least %v", a.Remind,
			minRemind)
	case a.Quorum < 0 || a.Of < 0 || a.Of > 0 && a.Of < max(a.Quorum, 1):
		return failure.Invalid(op, "a quorum of %d of %d is not valid", a.Quorum, a.Of)
	case !a.Until.IsZero() && (a.Until.Year() < 1 || a.Until.Year() > 9999):
		return failure.Invalid(op, "Until %v is not valid: its year is from 1 to 9999", a.Until)
	case len(a.Title) > 16<<10 || !utf8.ValidString(a.Title):
		return failure.Invalid(op, "the title is not valid: at most 16,384 bytes of UTF-8")
	}
	if f, is := a.Form.(interface{ Valid() error }); is {
		if err := guard.Call(f.Valid); err != nil {
			return failure.Within(op, err)
		}
	}
	for _, e := range a.Escalate {
		switch {
		case a.Role == "":
			return failure.Invalid(op, "an escalation needs a role: without one, anybody may "+
				"decide at once")
		case e.After <= 0 || !validText(e.Role):
			return failure.Invalid(op, "an escalation to %s after %v is not valid",
				failure.Quoted(e.Role), e.After)
		}
	}
	return nil
}

// validText reports whether s may name a person or a role.
func validText(s string) bool {
	return s != "" && len(s) <= maxText && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// name returns the name of the messages that decide an ask.
func name(key string) string { return sealed.DecisionName + key }

// A Status is the status of an ask.
type Status string

// The statuses of asks.
const (
	Open      Status = "open"
	Approved  Status = "approved"
	Rejected  Status = "rejected"
	Expired   Status = "expired"   // the time was over
	Withdrawn Status = "withdrawn" // the code waits no longer
)

// A Source describes how it is known who has decided, and in which role.
type Source string

// The sources of decisions.
const (
	Asserted Source = "asserted" // the sender says so
	Signed   Source = "token"    // a signed token says so
	Message  Source = "message"  // a message of another kind, which has no role
)

// A Decision is the decision of one person.
type Decision struct {
	Approved bool            `json:"approved"`
	By       string          `json:"by"`
	Role     string          `json:"role,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"` // as the form says
	// AssertedBy is the sender that asserts By and Role, such as the user of a terminal.
	AssertedBy string `json:"asserted_by,omitempty"`

	// At and Source are set where the decision is recorded.
	At     time.Time `json:"at,omitzero"`
	Source Source    `json:"source,omitempty"`
}

// A State is the published value of an ask, for everybody to read.
type State struct {
	Key      string          `json:"key"`
	Ask      string          `json:"ask"` // names this ask: a key may be asked again
	Title    string          `json:"title,omitempty"`
	Role     string          `json:"role,omitempty"`
	Escalate []Escalation    `json:"escalate,omitempty"`
	Form     json.RawMessage `json:"form,omitempty"`
	Quorum   int             `json:"quorum"`
	Of       int             `json:"of,omitempty"`
	Remind   time.Duration   `json:"remind,omitempty"`

	Asked     time.Time  `json:"asked"`
	Due       time.Time  `json:"due,omitzero"`
	Escalated int        `json:"escalated,omitempty"` // how many of Escalate have come
	Status    Status     `json:"status"`
	Decisions []Decision `json:"decisions,omitempty"`
	Ended     time.Time  `json:"ended,omitzero"`
}

// newState returns the state of an ask that begins at that time.
func newState(a *Ask, id string, at time.Time) *State {
	s := &State{
		Key: a.Key, Ask: id, Title: a.Title, Role: a.Role, Quorum: max(a.Quorum, 1), Of: a.Of,
		Remind: a.Remind, Asked: at, Due: a.Until.Round(0).UTC(), Status: Open,
		Escalate: slices.Clone(a.Escalate),
	}
	if a.Until.IsZero() {
		s.Due = time.Time{}
	}
	if due := at.Add(a.Within); a.Within > 0 && (s.Due.IsZero() || due.Before(s.Due)) {
		s.Due = due
	}
	slices.SortStableFunc(s.Escalate, func(x, y Escalation) int {
		return cmp.Compare(x.After, y.After)
	})
	if a.Form != nil {
		_ = guard.Call(func() error { s.Form = a.Form.Schema(); return nil })
	}
	if !json.Valid(s.Form) {
		s.Form = nil
	}
	return s
}

// RolesAt returns the roles that may decide at a time; nil means everybody.
func (s *State) RolesAt(at time.Time) []string {
	if s.Role == "" {
		return nil
	}
	roles := []string{s.Role}
	for _, e := range s.Escalate {
		if !at.Before(s.Asked.Add(e.After)) && !slices.Contains(roles, e.Role) {
			roles = append(roles, e.Role)
		}
	}
	return roles
}

// judge returns an error if a decision that was made at d.At is not valid, apart from its data.
func (s *State) judge(op string, d *Decision) error {
	roles := s.RolesAt(d.At)
	switch {
	case s.Status != Open:
		return s.closed(op)
	case !s.Due.IsZero() && d.At.After(s.Due):
		return &perdure.Error{
			Code: journal.CodeConflict, Op: op,
			Message: "the decision comes too late: the time was over at " +
				s.Due.Format(time.RFC3339),
		}
	case roles != nil && !slices.Contains(roles, d.Role):
		e := &perdure.Error{
			Code: journal.CodeUnauthorised, Op: op,
			Message: "the role " + failure.Quoted(d.Role) + " may not decide it",
			Hint:    "it needs the role " + strings.Join(roles, " or "),
		}
		if d.Role == "" {
			e.Message = "the decision has no role"
		}
		return e
	case slices.ContainsFunc(s.Decisions, func(o Decision) bool { return o.By == d.By }):
		return &perdure.Error{
			Code: journal.CodeConflict, Op: op, Message: failure.Quoted(d.By) +
				" has decided already",
		}
	}
	return nil
}

func badPerson(op, by string) error {
	return &perdure.Error{
		Code: journal.CodeInvalid, Op: op, Message: failure.Quoted(by) + " names no person",
		Hint: "a decision says who makes it, in 1 to 255 bytes of printable text",
	}
}

// closed returns the error of a decision about an ask that is over.
func (s *State) closed(op string) error {
	e := &perdure.Error{
		Code: journal.CodeConflict, Op: op, Message: "it is " + string(s.Status) + " already",
	}
	if n := len(s.Decisions); n > 0 && (s.Status == Approved || s.Status == Rejected) {
		last := s.Decisions[n-1]
		e.Message += ", by " + failure.Quoted(last.By) + " at " + last.At.Format(time.RFC3339)
	}
	return e
}

// checkData checks the data of a decision by the form. A rejection needs none.
func checkData(op string, f Form, d *Decision) error {
	if f == nil || !d.Approved && d.Data == nil {
		return nil
	}
	data := d.Data
	if data == nil {
		data = json.RawMessage("null")
	}
	if err := guard.Call(func() error { return f.Check(data) }); err != nil {
		return &perdure.Error{
			Code: journal.CodeInvalid, Op: op, Err: err,
			Message: "the data does not match the form",
		}
	}
	return nil
}

// add adds a decision and decides the ask if that can be decided.
func (s *State) add(d Decision) {
	s.Decisions = append(s.Decisions, d)
	yes, no := s.votes()
	switch {
	case yes >= s.Quorum:
		s.Status = Approved
	case no > max(s.Of-s.Quorum, 0):
		s.Status = Rejected
	}
	if s.Status != Open {
		s.Ended = d.At
	}
}

func (s *State) votes() (yes, no int) {
	for _, d := range s.Decisions {
		if d.Approved {
			yes++
		} else {
			no++
		}
	}
	return yes, no
}

// clone returns a copy that a later change of s does not change.
func (s *State) clone() State {
	c := *s
	c.Decisions = slices.Clone(s.Decisions)
	return c
}

// A Receipt is the reply to a decision that counts.
type Receipt struct {
	RunID    string `json:"run_id"`
	Key      string `json:"key"`
	Status   Status `json:"status"` // of the ask, with this decision
	Approved int    `json:"approved"`
	Rejected int    `json:"rejected"`
	Quorum   int    `json:"quorum"`
}

func (s *State) receipt(run string) Receipt {
	yes, no := s.votes()
	return Receipt{run, s.Key, s.Status, yes, no, s.Quorum}
}

// String returns the receipt for people.
func (r Receipt) String() string {
	if r.Status != Open {
		return r.Key + " is " + string(r.Status)
	}
	return r.Key + " is open: " + strconv.Itoa(r.Approved) + " of " + strconv.Itoa(r.Quorum) +
		" have approved"
}
