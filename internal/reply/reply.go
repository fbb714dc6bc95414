// Package reply sends a run a message and waits for its reply, and makes replies. A reply is an
// entry of the run's journal, so it is durable before the sender hears it.
package reply

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Message asks a run for a reply.
type Message struct {
	ID   string // a run ID or a workflow ID
	Name string // of the signal
	Data []byte
	// The message has the same reply however often it is sent with one key. Empty means a key of
	// its own.
	Key string
	// Moot returns an error if the run is not going to reply any more. It is called while the
	// sender waits. It may be nil.
	Moot func(ctx context.Context, h journal.Head) error
}

// IsUpdate reports whether the message of that ID was sent as a message that has a reply.
func IsUpdate(message string) bool { return strings.HasPrefix(message, journal.UpdateID) }

// Op returns the name of the operation, for errors.
func (m *Message) Op() string { return "update " + m.Name + " of " + m.ID }

// messageID returns the ID of a message with that key. It is the key of the reply.
func messageID(name, key string) string { return "update/" + name + "/" + key }

// Give records the reply to a message, in workflow code: data, or the failure f that refuses it.
// If the data cannot be recorded, the reply is that error, and Give returns it.
func Give(ctx context.Context, message string, data []byte, f *journal.Failure) error {
	out, err := kernel.TakeNote(ctx, kernel.Note{
		Kind: journal.ValueRecorded, Name: kernel.ReplyName, Key: message,
		Produce: func() ([]byte, *journal.Failure) { return data, f },
	})
	if err == nil && f == nil && out.Failure != nil {
		err = failure.Err(out.Failure)
	}
	return err
}

// Send sends a message to the open run of its ID and returns the reply. A message whose key was
// used before is not sent again, and has the reply that it had then, also if the run has ended.
func Send(ctx context.Context, c *sealed.Client, m Message) ([]byte, error) {
	q, err := ask(ctx, c, m)
	if err != nil {
		return nil, err
	}
	_, _, err = q.send(ctx, m)
	return q.data, err
}

// SendWithStart sends a message to the open run of a workflow ID, or calls start, which does so in
// one act with the start of a run, and returns the reply. If the last run of the ID has ended and
// knows the key, it returns the reply of that run. start gets the ID of the message.
func SendWithStart(ctx context.Context, c *sealed.Client, m Message,
	start func(message string) (kernel.Delivery, error)) (kernel.Delivery, []byte, error) {
	q, err := ask(ctx, c, m)
	if err != nil {
		return kernel.Delivery{}, nil, err
	}
	if q.known && m.ID != "" { // without a key of the caller's, nobody has sent it before
		d, sent, err := q.send(ctx, m)
		if sent || journal.CodeOf(err) != journal.CodeNotFound {
			return d, q.data, err
		}
	}
	d, err := start(q.message)
	if err != nil {
		return d, nil, q.unsure(err)
	}
	err = q.answered(ctx, d, 0)
	return d, q.data, err
}

// ask returns the question of a message.
func ask(ctx context.Context, c *sealed.Client, m Message) (question, error) {
	q := question{c: c, op: m.Op(), key: m.Key, known: m.Key != "", moot: m.Moot}
	if !q.known {
		q.key = rand.Text()
	}
	q.message = messageID(m.Name, q.key)
	return q, c.Outside(ctx, q.op)
}

// send sends the message to the open run of its ID and waits for the reply. It returns false if no
// run has the message.
func (q *question) send(ctx context.Context, m Message) (d kernel.Delivery, sent bool, err error) {
	for {
		h, err := q.open(ctx, m.ID)
		if err != nil {
			return d, false, err
		}
		if h.Status.IsTerminal() {
			if q.known {
				if done, err := q.look(ctx, h); done || err != nil {
					d.RunID, d.Duplicate = string(h.ID), true
					return d, done, err
				}
			}
			return d, false, notOpen(q.op, h)
		}
		after, err := q.last(ctx, h)
		if err != nil {
			return d, false, err
		}
		d, err = q.c.FrontEnd.Signal(ctx, kernel.Signal{
			ID: string(h.ID), Name: m.Name, Data: m.Data, Message: q.message,
		})
		switch {
		case err != nil:
			return d, true, q.unsure(err)
		case d.NotDelivered: // it has ended meanwhile
			continue
		case d.Duplicate || d.RunID != string(h.ID):
			after = 0
		}
		return d, true, q.answered(ctx, d, after)
	}
}

// A question is a message that was sent, and its reply.
type question struct {
	c       *sealed.Client
	op      string
	message string // its ID
	key     string
	known   bool // the caller has set the key
	moot    func(context.Context, journal.Head) error
	data    []byte
}

// open returns the run that an ID stands for. If that has ended and another one of its chain is
// open, it returns that one.
func (q *question) open(ctx context.Context, id string) (journal.Head, error) {
	h, err := q.find(ctx, id)
	if err != nil || !h.Status.IsTerminal() || h.WorkflowID == id {
		return h, err
	}
	next, err := q.find(ctx, h.WorkflowID)
	if err == nil && next.Chain == h.Chain {
		h = next
	}
	return h, err
}

func (q *question) find(ctx context.Context, id string) (journal.Head, error) {
	h, err := q.c.FrontEnd.Find(ctx, id)
	if err != nil {
		err = failure.Within(q.op, err)
	}
	return h, err
}

func notOpen(op string, h journal.Head) error {
	return &journal.Error{
		Code: journal.CodeNotFound, Op: op,
		Message: "no open run has this ID: run " + string(h.ID) + " is " + h.Status.String(),
	}
}

// last returns the sequence of the last durable entry of a journal.
func (q *question) last(ctx context.Context, h journal.Head) (int64, error) {
	entries, err := q.c.FrontEnd.Read(ctx, h, store.Range{Tail: true, Limit: 1})
	if err != nil || len(entries) == 0 {
		return 0, failure.Within(q.op, err)
	}
	return entries[0].Seq, nil
}

// answered waits for the reply to a message that was delivered. The entries up to after do not have
// it.
func (q *question) answered(ctx context.Context, d kernel.Delivery, after int64) error {
	h, err := q.find(ctx, d.RunID)
	if err != nil {
		return err
	}
	if d.Duplicate {
		if done, err := q.look(ctx, h); done || err != nil {
			return err
		}
	}
	r := reading{question: q, head: h, seq: after}
	err = q.c.Runs.AwaitNews(ctx, q.message, h, func() (journal.Head, bool, error) {
		done, err := r.goOn(ctx)
		if err == nil && !done && r.moot != nil {
			if moot := r.moot(ctx, r.head); moot != nil {
				// the reply may have come meanwhile
				if done, err = r.goOn(ctx); err == nil && !done {
					r.decided, done, err = true, true, moot
				}
			}
		}
		if journal.CodeOf(err) == journal.CodeUnavailable && ctx.Err() == nil {
			err = nil // the store will answer again
		}
		return r.head, done, err
	})
	if err != nil && !r.decided {
		err = q.unsure(err)
	}
	return err
}

// look looks for the reply in a run that knows the message and in the runs before it. It returns
// false if the run h may still reply.
func (q *question) look(ctx context.Context, h journal.Head) (bool, error) {
	newest := h
	for {
		r := reading{question: q, head: h, alone: true}
		done, err := r.goOn(ctx)
		if done || err != nil {
			return done, err
		}
		if r.before == "" || r.taken {
			break
		}
		h, err = q.c.FrontEnd.Find(ctx, string(r.before))
		if journal.CodeOf(err) == journal.CodeNotFound { // it is kept no longer
			break
		}
		if err != nil {
			return false, failure.Within(q.op, err)
		}
	}
	if newest.Status.IsTerminal() {
		return false, notOpen(q.op, newest)
	}
	return false, nil
}

// unsure returns the error of a message whose reply is not known.
func (q *question) unsure(err error) error {
	code, why := journal.CodeOf(err), err
	var w *journal.Error
	if errors.As(err, &w) && code == journal.CodeTimedOut {
		why = cmp.Or(w.Err, err)
	}
	e := &journal.Error{
		Code: code, Op: q.op, Err: why,
		Message: "the reply is not known, and the run may do what was asked",
		Hint:    `send it again with the key "` + q.key + `" to learn the reply`,
	}
	switch e.Code {
	case journal.CodeTimedOut, journal.CodeUnavailable, journal.CodeStopped:
		return e
	}
	return failure.Within(q.op, err)
}

// page is how many entries are read at a time.
const page = 500

// A reading reads the journal of a run until it has the reply to a message. If the run continues as
// new, it goes on with the next one, unless it reads this run alone.
type reading struct {
	*question
	head    journal.Head
	alone   bool
	seq     int64         // what was read
	before  journal.RunID // the run that this one goes on from; empty for none
	taken   bool          // the run has taken the message
	decided bool          // the error is about the message, and not about the reading
}

// goOn reads what is new. It returns true when the reply is there: its data, or its failure as an
// error.
func (r *reading) goOn(ctx context.Context) (bool, error) {
	for {
		entries, err := r.c.FrontEnd.Read(ctx, r.head, store.Range{From: r.seq + 1, Limit: page})
		if err != nil {
			return false, err
		}
		next := journal.RunID("")
		for i := range entries {
			e := &entries[i]
			r.seq = e.Seq
			switch d := e.Detail; {
			case e.Kind == journal.RunStarted && d != nil:
				r.before = cmp.Or(d.Retried, d.Other)
			case e.Kind == journal.SignalConsumed && d != nil && d.Message == r.message:
				r.taken = true
			case e.Kind == journal.ValueRecorded && e.Op.Name == kernel.ReplyName &&
				e.Op.Key == r.message:
				return true, r.reply(ctx, e)
			case e.Kind == journal.RunContinued && !r.taken:
				next = d.Other
			case e.Kind.EndsRun():
				return r.ended(ctx, e)
			}
		}
		switch {
		case next != "" && !r.alone:
			if r.head, err = r.find(ctx, string(next)); err != nil {
				return false, err
			}
			r.seq = 0
		case len(entries) < page:
			return false, nil
		}
	}
}

// reply takes over the reply of an entry.
func (r *reading) reply(ctx context.Context, e *journal.Entry) error {
	if f := e.Failure(); f != nil {
		r.decided = true
		return failure.Err(f)
	}
	if r.data = e.Data; e.Spill == 0 || e.Data != nil {
		return nil
	}
	entries, err := r.c.FrontEnd.Read(ctx, r.head, store.Range{
		From: e.Seq, Limit: 1, Payloads: true,
	})
	if err == nil && len(entries) == 1 {
		r.data = entries[0].Data
	}
	return err
}

// ended returns the error of a run that has ended without a reply. In the search of a reply, it
// returns false if the run does not have the message.
func (r *reading) ended(ctx context.Context, e *journal.Entry) (bool, error) {
	if r.alone && !r.taken {
		left, err := r.left(ctx)
		if err != nil || !left {
			return false, err
		}
	}
	r.decided = true
	message := "run " + string(r.head.ID) + " has ended as " + e.Status.String() +
		" without a reply"
	if e.Kind == journal.RunContinued {
		message = "run " + string(r.head.ID) + " has continued as new without a reply"
	}
	return true, &journal.Error{Code: journal.CodeConflict, Op: r.op, Message: message}
}

// left reports whether the message is among those that nobody has taken.
func (r *reading) left(ctx context.Context) (bool, error) {
	for from := int64(0); ; {
		messages, err := r.c.FrontEnd.Read(ctx, r.head, store.Range{
			Inbox: true, From: from, Limit: page,
		})
		if err != nil {
			return false, err
		}
		for i := range messages {
			if d := messages[i].Detail; d != nil && d.Message == r.message {
				return true, nil
			}
			from = messages[i].Seq + 1
		}
		if len(messages) < page {
			return false, nil
		}
	}
}

// ValidName returns an error for a name that no update has.
func ValidName(name string) error {
	switch {
	case !journal.ValidName(name):
		return failure.BadName("update", name)
	case strings.HasPrefix(name, "perdure:"):
		return failure.Reserved("update", name)
	case strings.HasPrefix(name, sealed.DecisionName):
		return failure.Invalid("update "+name, "a message of this name decides an approval: "+
			"approval.Wait waits for it, and approval.Decide sends it")
	case name == "Cancel" || name == "CancelWorkflow":
		return failure.Invalid("update "+name, "a message of this name cancels the run, and no "+
			"wait gets it")
	}
	return nil
}

// Verdict returns the failure of the first call of check for a message, in workflow code; nil if
// check accepted it.
func Verdict(ctx context.Context, message string, check func() error) (*journal.Failure, error) {
	out, err := kernel.TakeNote(ctx, kernel.Note{
		Kind: journal.ValueRecorded, Name: "perdure:valid", Key: message,
		Produce: func() ([]byte, *journal.Failure) {
			if err := check(); err != nil {
				return nil, failure.Of(err)
			}
			return []byte("true"), nil
		},
	})
	return out.Failure, err
}

// Until returns the time that is that long after the first call, in workflow code.
func Until(ctx context.Context, within time.Duration) (time.Time, error) {
	out, err := kernel.TakeNote(ctx, kernel.Note{
		Kind: journal.ValueRecorded, Name: "perdure:until",
		Produce: func() ([]byte, *journal.Failure) {
			return []byte(kernel.Now(ctx).Add(within).UTC().Format(time.RFC3339Nano)), nil
		},
	})
	if err == nil && out.Failure != nil {
		err = failure.Err(out.Failure)
	}
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, string(out.Data))
}
