package callback

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/internal/token"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// What is wrong with an answer. The errors are of type [perdure.Error] and wrap one of these.
var (
	ErrMalformed = token.ErrMalformed // the text is no token
	ErrForged    = token.ErrForged    // it was not signed by this database, or its key was revoked
	ErrPurpose   = token.ErrPurpose   // it is a token for something else, such as an approval

	ErrExpired  = errors.New("the time of the callback has passed")
	ErrEnded    = errors.New("the callback is over")
	ErrAnswered = errors.New("the callback has another answer")
)

// ErrFailed is the error of [Wait.Await] for a wait that the caller has failed.
var ErrFailed = errors.New("the callback was failed")

const failedName = "callback.Failed"

func init() { _ = perdure.RegisterError(failedName, ErrFailed) } // nobody else has that name

// Succeed ends the wait of a token with a payload, which must decode into the type of the wait.
func Succeed(ctx context.Context, c perdure.Caller, token string, v any) error {
	data, err := payload.EncodeAny(v)
	if err != nil {
		return &perdure.Error{
			Code: journal.CodeEncode, Op: "answer a callback",
			Message: "its payload does not encode", Err: err,
		}
	}
	return send(ctx, c, token, journal.Entry{Data: data, Detail: &journal.Detail{}})
}

// Fail ends the wait of a token with an error, [ErrFailed], that has the reason.
func Fail(ctx context.Context, c perdure.Caller, token, reason string) error {
	return send(ctx, c, token, journal.Entry{Detail: &journal.Detail{Failure: &journal.Failure{
		Code: journal.CodeFailed, Name: failedName,
		Message: ErrFailed.Error() + ": " + failure.Clip(reason),
	}}})
}

// Heartbeat moves the limit of the wait of a token to extendBy from now, if it is earlier. A wait
// without a limit stays as it is.
func Heartbeat(ctx context.Context, c perdure.Caller, token string, extendBy time.Duration) error {
	if extendBy <= 0 {
		return failure.Invalid("extend a callback", "%v is not valid: it must be above 0", extendBy)
	}
	client, err := sealed.ClientOf("extend a callback", c)
	if err != nil {
		return err
	}
	return send(ctx, c, token, journal.Entry{Detail: &journal.Detail{
		Due: client.FrontEnd.Now().Add(extendBy).Round(0),
	}})
}

// A Callback is the wait of a token as it is now.
type Callback struct {
	RunID string    // the run that waits: the one of the token, or a later one that goes on from it
	Path  string    // the name of the wait, after the scopes that it is in
	Open  bool      // an answer is taken
	Due   time.Time // the limit; zero for none
	Err   error     // why no answer is taken: it wraps ErrExpired, ErrEnded or ErrAnswered
}

// Get returns the wait of a token, and changes nothing: for the page behind a link.
func Get(ctx context.Context, c perdure.Caller, token string) (Callback, error) {
	const op = "get a callback"
	client, err := clientOf(ctx, op, c)
	if err != nil {
		return Callback{}, err
	}
	w, err := find(ctx, client, op, token)
	if err != nil {
		return Callback{}, err
	}
	out := Callback{RunID: string(w.head.ID), Path: w.path, Due: w.due}
	if out.Err = w.closed(op, client.FrontEnd.Now()); out.Err == nil && w.answer != nil {
		out.Err = refused(op, ErrAnswered, w.path+" has its answer", "")
	}
	out.Open = out.Err == nil
	return out, nil
}

// clientOf returns the client of a caller, for a call outside of workflow code.
func clientOf(ctx context.Context, op string, c perdure.Caller) (*sealed.Client, error) {
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, err
	}
	return client, client.Outside(ctx, op)
}

// send sends an answer, unless it was sent already.
func send(ctx context.Context, c perdure.Caller, text string, a journal.Entry) error {
	op := "answer a callback"
	client, err := clientOf(ctx, op, c)
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		w, err := find(ctx, client, op, text)
		if err != nil {
			return err
		}
		done, err := w.judge(ctx, client, op, a)
		if done || err != nil {
			return err
		}
		a.Op.Key = w.path
		d, err := kernel.Answers{FrontEnd: client.FrontEnd}.Send(ctx, w.head, a)
		if err == nil && !d.Duplicate {
			return nil
		}
		// another answer was first, or the run has ended: what it has shows which
		if !d.Duplicate && !d.NotDelivered || tries == 3 {
			return err
		}
	}
}

// judge reports whether there is nothing to send, and whether the answer is refused.
func (w *waiting) judge(ctx context.Context, client *sealed.Client, op string,
	a journal.Entry) (done bool, err error) {
	if w.answer != nil {
		same, err := w.isSame(ctx, client, a)
		if err == nil && !same {
			err = refused(op, ErrAnswered, w.path+" of run "+string(w.head.ID)+
				" has its answer", "the first answer counts")
		}
		return same, err
	}
	if err := w.closed(op, client.FrontEnd.Now()); err != nil {
		return false, err
	}
	until := a.Detail.Due
	return !until.IsZero() && (w.isKnown && w.due.IsZero() || !until.After(w.due)), nil
}

// isSame reports whether an answer is the one that the wait has.
func (w *waiting) isSame(ctx context.Context, client *sealed.Client,
	a journal.Entry) (bool, error) {
	has, gets := w.answer.Failure(), a.Failure()
	if !a.Detail.Due.IsZero() || (has == nil) != (gets == nil) {
		return false, nil
	}
	if has != nil {
		return has.Message == gets.Message, nil
	}
	data := w.answer.Data
	if data == nil && w.answer.Spill != 0 {
		_, entries, err := client.FrontEnd.History(ctx, string(w.head.ID), w.answer.Seq, 1)
		if err != nil || len(entries) == 0 {
			return false, err
		}
		data = entries[0].Data
	}
	return bytes.Equal(data, a.Data), nil
}

// A waiting is the state of a callback, by the journal and the inbox of its run.
type waiting struct {
	head    journal.Head
	path    string
	isKnown bool      // the wait has begun
	due     time.Time // its limit
	expired bool
	ended   string         // why it is over; empty while it is not
	answer  *journal.Entry // nil if there is none
}

// closed returns the error for a wait that takes no answer any more, but for one that it has.
func (w *waiting) closed(op string, now time.Time) error {
	of := w.path + " of run " + string(w.head.ID)
	switch {
	case w.answer != nil:
		return nil
	case w.expired || w.ended == "" && !w.due.IsZero() && !now.Before(w.due):
		return refused(op, ErrExpired, of, "it had until "+w.due.UTC().Format(time.RFC3339))
	case w.ended != "":
		return refused(op, ErrEnded, of+": "+w.ended, "")
	}
	return nil
}

func refused(op string, kind error, message, hint string) error {
	e := &perdure.Error{
		Code: journal.CodeWrongState, Op: op, Message: message, Hint: hint, Err: kind,
	}
	switch {
	case errors.Is(kind, ErrExpired):
		e.Code = journal.CodeTimedOut
	case errors.Is(kind, ErrAnswered):
		e.Code = journal.CodeConflict
	}
	return e
}

// find returns the wait of a token.
func find(ctx context.Context, client *sealed.Client, op, text string) (*waiting, error) {
	f := client.FrontEnd
	claims, err := token.Check(ctx, f, purpose, text)
	if err != nil {
		return nil, failure.Within(op, err)
	}
	w := &waiting{path: claims.Subject}
	if w.head, err = f.Find(ctx, claims.Run); err != nil {
		return nil, failure.Within(op, err)
	}
	from, err := strconv.ParseInt(claims.Detail, 10, 64)
	if err != nil {
		return nil, failure.Invalid(op, "its token was made by another version")
	}
	for w.head.Status.IsTerminal() {
		next, err := f.GoesOnAs(ctx, w.head)
		if err != nil {
			return nil, failure.Within(op, err)
		}
		if next.Action != journal.ActionRetry && next.Action != journal.ActionSkip {
			break
		}
		if w.head, err = f.Find(ctx, string(next.Run)); err != nil {
			return nil, failure.Within(op, err)
		}
		from = 1 // its entries have other numbers
	}
	if err := w.read(ctx, f, from); err != nil {
		return nil, failure.Within(op, err)
	}
	if !w.isKnown && w.answer == nil && w.ended == "" && string(w.head.ID) == claims.Run {
		w.ended = "it has no such wait" // a run that goes on from another one may come to it yet
	}
	return w, nil
}

// read reads the journal from an entry on, and what has come since.
func (w *waiting) read(ctx context.Context, f *kernel.FrontEnd, from int64) error {
	// what is taken meanwhile is in the journal
	inbox, err := kernel.Answers{FrontEnd: f}.Unread(ctx, w.head)
	if err != nil {
		return err
	}
	entries, err := f.Read(ctx, w.head, store.Range{From: from})
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if e.Op.Name == journal.CallbackName && e.Op.Key == w.path {
			w.apply(e)
		}
		if e.Kind.EndsRun() && w.answer == nil && !w.expired {
			w.ended = "the run is " + e.Status.String()
		}
	}
	for i := range inbox {
		m := &inbox[i]
		if m.Op.Key == w.path && m.Detail != nil && m.Detail.Other == w.head.ID && w.ended == "" &&
			!w.expired {
			w.receive(m)
		}
	}
	return nil
}

// apply takes in an entry of one of the waits that a callback consists of: there is one more after
// each heartbeat.
func (w *waiting) apply(e *journal.Entry) {
	switch f := e.Failure(); {
	case e.Kind == journal.WaitStarted:
		w.isKnown, w.expired, w.ended = true, false, ""
		if w.due = (time.Time{}); e.Detail != nil {
			w.due = e.Detail.Due
		}
	case e.Kind == journal.SignalConsumed, e.Kind == journal.WaitEnded && e.Detail.ByMessage():
		w.receive(e)
	case e.Kind == journal.WaitEnded && f != nil && f.Code == journal.CodeTimedOut:
		w.expired = true
	case e.Kind == journal.WaitEnded:
		w.ended = "the wait was cancelled"
	}
}

// receive takes in an answer.
func (w *waiting) receive(e *journal.Entry) {
	switch {
	case w.answer != nil:
	case e.Detail != nil && !e.Detail.Due.IsZero():
		w.isKnown = true
		if e.Detail.Due.After(w.due) {
			w.due = e.Detail.Due
		}
	default:
		w.answer = e
	}
}
