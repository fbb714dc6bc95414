package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/internal/token"
	"github.com/perdure/perdure/journal"
)

// What is wrong with a token. The errors of [DecideByToken] wrap one of these.
var (
	ErrMalformed = token.ErrMalformed // the text is no token
	ErrForged    = token.ErrForged    // it was not signed by this database, or its key was revoked
	ErrPurpose   = token.ErrPurpose   // it is a token for something else
	ErrExpired   = token.ErrExpired
)

const purpose = "approval"

// A signed is the decision that a token carries.
type signed struct {
	Ask      string `json:"ask"`
	Approved bool   `json:"approved"`
	By       string `json:"by"`
	Role     string `json:"role,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Token returns a token that carries one decision of one person about the open ask of a run, for a
// link in a mail: whoever has the token can make the decision, and nothing else. It is valid for
// that long. It is of no use when the ask is over or the person has decided in another way; used
// twice, it has the same receipt. d has By, Role, Approved, and perhaps a Reason. See package
// internal/token for the keys, which each database has for itself.
//
// A decision that the ask would refuse now is refused, with the errors of [Decide].
func Token(ctx context.Context, c perdure.Caller, id, key string, d Decision,
	valid time.Duration) (string, error) {
	op := "token for " + key + " of " + id
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return "", err
	}
	if err := client.Outside(ctx, op); err != nil {
		return "", err
	}
	switch {
	case valid <= 0:
		return "", failure.Invalid(op, "%v is not valid: a token expires after more than 0", valid)
	case !validText(d.By):
		return "", badPerson(op, d.By)
	}
	v, err := viewOf(ctx, client, op, id)
	if err != nil {
		return "", err
	}
	s, err := v.ask(op, key)
	if err != nil {
		return "", err
	}
	now := client.FrontEnd.Now()
	d.At = now.Round(0).UTC()
	if err := s.judge(op, &d); err != nil {
		return "", err
	}
	detail, err := json.Marshal(signed{s.Ask, d.Approved, d.By, d.Role, failure.Clip(d.Reason)})
	if err != nil {
		return "", &perdure.Error{Code: journal.CodeEncode, Op: op, Err: err}
	}
	return token.Make(ctx, client.FrontEnd, token.Claims{
		Purpose: purpose, Run: string(v.head.ID), Subject: key, Detail: string(detail),
		Expires: now.Add(valid),
	})
}

// DecideByToken makes the decision that a token carries, with a reason and data for the form, which
// may be empty. The decision has [Signed] as its source. See [Decide] for the errors; one about the
// token itself wraps [ErrMalformed], [ErrForged], [ErrPurpose] or [ErrExpired].
//
// A page behind a link shows [ByToken], and should not call this before the reader presses a
// button, because programs that look at mails follow links.
func DecideByToken(ctx context.Context, c perdure.Caller, text, reason string,
	data json.RawMessage) (Receipt, error) {
	const op = "decide by token"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return Receipt{}, err
	}
	claims, s, err := read(ctx, client, op, text)
	if err != nil {
		return Receipt{}, err
	}
	sum := sha256.Sum256([]byte(text))
	return decide(ctx, client, op, claims.Run, claims.Subject, s.Ask, Decision{
		Approved: s.Approved, By: s.By, Role: s.Role, Reason: cmp.Or(reason, s.Reason), Data: data,
		Source: Signed,
	}, []perdure.SendOption{perdure.SendKey("token-" + hex.EncodeToString(sum[:16]))})
}

// A Carried is the decision that a token carries, and the ask that it is about, as they are now.
type Carried struct {
	RunID    string
	Workflow string
	State    State // the ask; if it is over, its last state, or else only its key
	Decision Decision
	Expires  time.Time // when the token expires
	// Err is why the decision would be refused now; nil if it would count. See [Decide] for its
	// codes. Made reports that it is refused because the person has decided already.
	Err  error
	Made bool
}

// ByToken returns the decision that a token carries, and changes nothing: for the page behind a
// link. An error about the token itself wraps [ErrMalformed], [ErrForged], [ErrPurpose] or
// [ErrExpired].
func ByToken(ctx context.Context, c perdure.Caller, text string) (Carried, error) {
	const op = "show a token"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return Carried{}, err
	}
	claims, d, err := read(ctx, client, op, text)
	if err != nil {
		return Carried{}, err
	}
	out := Carried{
		RunID: claims.Run, Expires: claims.Expires, State: State{Key: claims.Subject},
		Decision: Decision{
			Approved: d.Approved, By: d.By, Role: d.Role, Reason: d.Reason, Source: Signed,
			At: client.FrontEnd.Now().Round(0).UTC(),
		},
	}
	v, err := viewOf(ctx, client, op, claims.Run)
	if journal.CodeOf(err) == journal.CodeNotFound {
		out.Err = err // the run was removed
		return out, nil
	}
	if err != nil {
		return Carried{}, err
	}
	out.RunID, out.Workflow = string(v.head.ID), v.head.Workflow
	s, err := v.ask(op, claims.Subject)
	switch {
	case s.Ask == d.Ask:
		out.State = s
		out.Made = slices.ContainsFunc(s.Decisions, func(o Decision) bool { return o.By == d.By })
	case err == nil:
		err = (&State{Status: "over"}).closed(op)
	}
	if out.Err = err; err == nil {
		out.Err = s.judge(op, &out.Decision)
	}
	return out, nil
}

// read returns the claims of a token, and the decision that it carries.
func read(ctx context.Context, c *sealed.Client, op, text string) (token.Claims, signed, error) {
	var s signed
	if err := c.Outside(ctx, op); err != nil {
		return token.Claims{}, s, err
	}
	claims, err := token.Check(ctx, c.FrontEnd, purpose, text)
	if err != nil {
		return claims, s, err
	}
	if err := json.Unmarshal([]byte(claims.Detail), &s); err != nil {
		return claims, s, &perdure.Error{Code: journal.CodeDecode, Op: op, Err: err}
	}
	return claims, s, nil
}
