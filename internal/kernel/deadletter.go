package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A dead letter is a run of its own, which waits until the failure that it is about is settled. It
// is created in the commit that records that a step was dead-lettered. Messages report to it what
// has happened since, and each message is in the commit that it reports.

// OwnPrefix is the prefix of the names of the workflows that an engine has by itself.
const OwnPrefix = rules.OwnPrefix

// DeadLetterWorkflow is the workflow of dead letters, and DeadLetterNews the name of the messages
// to them.
const (
	DeadLetterWorkflow = OwnPrefix + "dead-letter"
	DeadLetterNews     = ownNames + "letter"
)

// A News is the content of a message to a dead letter.
type News struct {
	// the same step was dead-lettered again; made by the root package
	Failed  json.RawMessage `json:"failed,omitempty"`
	Retried *Retrial        `json:"retried,omitempty"` // a run was started that retries
	// that run has ended, and has not dead-lettered the step again
	Ended   *settled `json:"ended,omitempty"`
	Handled *Handled `json:"handled,omitempty"` // somebody has dealt with the failure
}

// A Retrial is a run that retries.
type Retrial struct {
	Run journal.RunID `json:"run"`
	At  time.Time     `json:"at"`
}

// A settled is the end of a run that retries.
type settled struct {
	Run     journal.RunID    `json:"run"`
	Status  string           `json:"status"`
	Failure *journal.Failure `json:"failure,omitempty"`
	Done    bool             `json:"done,omitempty"` // the run came past the step
}

// A Handled is the mark that somebody has dealt with a failure, without a retry.
type Handled struct {
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"`
}

// A DeadLetter is a failure that workflow code has dead-lettered, or that was added from outside.
type DeadLetter struct {
	Step, Key  string
	Failure    *journal.Failure
	Data       []byte // the input of the dead letter's run
	Again      []byte // the message to a dead letter that is there already
	Attributes map[string]string
}

// AddDeadLetter records that a step has failed for good, and starts the dead letter. If the chain
// of the run has a dead letter about the same step, that gets a message instead.
func AddDeadLetter(ctx context.Context, l DeadLetter) error {
	what := call{"dead-letter", l.Step}
	s, err := scopeOf(ctx, what)
	if err != nil {
		return err
	}
	r := s.run
	spill, failure := s.spillOver("the dead letter", &l.Data)
	if failure != nil {
		return &journal.Error{Code: failure.Code, Op: what.String(), Message: failure.Message}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := s.enter(what); err != nil {
		return err
	}
	op, rec := s.ask(asked{name: l.Step, key: l.Key, class: isNote, inert: true})
	if rec != nil && rec.ended != nil {
		r.noted(rec.ended)
		return nil
	}
	n, err := r.k.number()
	if err != nil {
		return noNumber(what.String(), err)
	}
	if spill != 0 {
		l.Data = nil
	}
	id := s.deadLetterID(l.Step, l.Key)
	c := r.k.newDeadLetter(n, id, l, spill, string(r.id()))
	e := journal.Entry{Kind: journal.DeadLettered, Op: op, Detail: &journal.Detail{
		Failure:     l.Failure,
		Other:       c.Head.ID,
		StartDetail: journal.StartDetail{DeadLetters: []string{id}},
	}}
	r.append(e)
	r.send(outgoing{create: c})
	r.noted(&e)
	return nil
}

// newDeadLetter returns the run of a dead letter. If the dead letter is there already, it gets a
// message instead, which has the ID by.
func (d *FrontEnd) newDeadLetter(
	n journal.Number, id string, l DeadLetter, spill journal.Number, by string,
) *store.Change {
	now := d.Now()
	start := journal.Entry{
		Run: n, Seq: 1, At: now, Kind: journal.RunStarted, Status: journal.Pending, Data: l.Data,
		Spill: spill,
		Detail: &journal.Detail{
			CodeDetail:  journal.CodeDetail{Build: d.build},
			StartDetail: journal.StartDetail{Attributes: l.Attributes},
		},
	}
	return &store.Change{
		Run: n, Create: true, Entries: []journal.Entry{start}, Head: &journal.Head{
			Number: n, ID: journal.MakeRunID(d.database(), n), WorkflowID: id,
			Workflow: DeadLetterWorkflow,
			Status:   journal.Pending, Wake: now, Created: now, Chain: n,
		},
		Else: []store.Post{news(now, id, "failed/"+by, News{Failed: l.Again})},
	}
}

// AddDeadLetter starts a dead letter about a failure that no run of the store has recorded, and
// returns its ID. If a dead letter about the same thing is there, that gets a message instead. A
// failure about nothing has a dead letter of its own.
func (d *FrontEnd) AddDeadLetter(ctx context.Context, about string, l DeadLetter) (string, error) {
	const op = "add dead letter"
	var id string
	err := d.write(ctx, op, func(o writer) error {
		n, err := o.number()
		if err != nil {
			return noNumber(op, err)
		}
		l := l
		spill, f := o.spill("the dead letter", &l.Data)
		if f != nil {
			return &journal.Error{Code: f.Code, Op: op, Message: f.Message}
		}
		run := string(journal.MakeRunID(d.database(), n))
		id = DeadLetterWorkflow + ":" + run
		if about != "" {
			sum := sha256.Sum256([]byte(about))
			id = DeadLetterWorkflow + ":" + hex.EncodeToString(sum[:16])
		}
		cs, err := o.submit(ctx, op, []store.Change{*d.newDeadLetter(n, id, l, spill, run)})
		if err == nil && cs[0].Verdict == store.Taken {
			err = taken(op, id, cs[0].Found)
		}
		return err
	})
	return id, err
}

// HandleDeadLetter sends an open dead letter the mark that somebody has dealt with the failure.
func (d *FrontEnd) HandleDeadLetter(ctx context.Context, id, note string) error {
	out, err := d.deliver(ctx, "handle dead letter "+id, func(writer) (*store.Post, error) {
		now := d.Now()
		p := news(now, id, "handled", News{Handled: &Handled{At: now, Note: note}})
		return &p, nil
	})
	if err == nil && out.Duplicate {
		err = &journal.Error{
			Code: journal.CodeNotFound, Op: "handle dead letter " + id,
			Message: "it was marked as handled already",
		}
	}
	return err
}

// deadLetterID returns the workflow ID of the dead letter about a step of this scope: the same for
// all runs that retry one another.
func (s *scope) deadLetterID(step, key string) string {
	chain := journal.MakeRunID(s.run.k.database(), s.run.head().Chain)
	id := DeadLetterWorkflow + ":" + string(chain) + ":"
	if key == "" && s.path == "" && len(id)+len(step) <= journal.MaxName {
		return id + step
	}
	sum := sha256.Sum256([]byte(s.show(journal.Op{Name: step, Key: key})))
	return id + hex.EncodeToString(sum[:16])
}

// news returns a message to a dead letter, which is delivered if the dead letter is there.
func news(now time.Time, deadLetter, message string, n News) store.Post {
	data, _ := json.Marshal(n) // every News encodes
	return store.Post{WorkflowID: deadLetter, Message: journal.Entry{
		Kind: journal.SignalReceived, At: now, Op: journal.Op{Name: DeadLetterNews},
		Data:   data,
		Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Message: message}},
	}}
}

// openDeadLetters returns the dead letters that the run of a journal has left open: its own, or
// else those that it had to settle.
func openDeadLetters(entries []journal.Entry) []string {
	var own []string
	for i := range entries {
		if e := &entries[i]; e.Kind == journal.DeadLettered && e.Detail != nil {
			own = append(own, e.Detail.DeadLetters...)
		}
	}
	if d := entries[0].Detail; own == nil && d != nil {
		return d.DeadLetters
	}
	return own
}

// A deadLetters has the dead letters of a run.
//
// Invariants: written has the dead letters that the run has written, by its journal. seen has the
// last failures that workflow code has seen, in that order. The mu of the run guards both.
type deadLetters struct {
	written map[string]bool
	seen    []failedOp
}

// note adds the dead letter that an entry has written, if it has.
func (l *deadLetters) note(e *journal.Entry) {
	if e.Detail == nil {
		return
	}
	for _, id := range e.Detail.DeadLetters {
		if l.written == nil {
			l.written = map[string]bool{}
		}
		l.written[id] = true
	}
}

// any reports whether the run has written a dead letter.
func (l *deadLetters) any() bool { return len(l.written) > 0 }

// keep returns how long a run that ends with that status is kept: own, or longer if a dead letter
// is about it, so that it can be retried.
func (l *deadLetters) keep(
	start *journal.Detail, status journal.Status, own, deadLettered time.Duration,
) time.Duration {
	open := len(l.written) > 0 || start != nil && len(start.DeadLetters) > 0
	if !open || status.IsSuccess() || status == journal.ContinuedAsNew {
		return own
	}
	return max(own, deadLettered)
}

// settle returns the messages about the end of the run to the dead letters that it had to settle. A
// dead letter that the run has written again knows already. If the run has written others, these
// replace the old ones.
func (l *deadLetters) settle(
	now time.Time, run journal.RunID, start *journal.Detail, status journal.Status,
	f *journal.Failure,
) (out []store.Post) {
	if start == nil {
		return nil
	}
	for _, id := range start.DeadLetters {
		if l.written[id] {
			continue
		}
		done := status.IsSuccess() || len(l.written) > 0
		switch status {
		case journal.ContinuedAsNew, journal.Canceled, journal.Compensated:
			// nothing is left of the failure
			done = true
		}
		ended := &settled{Run: run, Status: status.String(), Failure: f, Done: done}
		out = append(out, news(now, id, "ended/"+string(run), News{Ended: ended}))
	}
	return out
}

// failed records that workflow code has seen an operation fail.
func (l *deadLetters) failed(o *operation) {
	if c := o.class; c != isStep && c != isAsync && c != isChild {
		return
	}
	if len(l.seen) == keptFailures {
		l.seen = slices.Delete(l.seen, 0, 1)
	}
	l.seen = append(l.seen, failedOp{o.id, o.outcome.Failure})
}

// by returns the operation that a failure came from, or else the last operation that has failed.
func (l *deadLetters) by(f *journal.Failure) journal.Op {
	if len(l.seen) == 0 {
		return journal.Op{}
	}
	for _, failed := range slices.Backward(l.seen) {
		if f.CameFrom(failed.failure) {
			return failed.op
		}
	}
	return l.seen[len(l.seen)-1].op
}

// About returns the facts about the run of ctx for a dead letter: its head, with the status that
// its code has set, and its input.
func About(ctx context.Context) (journal.Head, []byte, error) {
	s, err := scopeOf(ctx, call{verb: "dead-letter"})
	if err != nil {
		return journal.Head{}, nil, err
	}
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.head()
	h.Status = r.values.knownStatus()
	input, _ := r.values.startInput()
	return h, input, nil
}

// Within returns the path of the scope of ctx, with a slash; of a clean-up the path of the scope
// that planned it. It is empty for the run's own scope.
func Within(ctx context.Context) string {
	s, err := scopeOf(ctx, call{verb: "dead-letter"})
	if err != nil {
		return ""
	}
	return s.base
}

// keptFailures limits how many failures a run keeps for FailedBy.
const keptFailures = 100

// A failedOp is a step or child whose failure workflow code has seen.
type failedOp struct {
	op      journal.Op
	failure *journal.Failure
}

// FailedBy returns the name and key of the step or child by which the run of ctx fails with f: the
// one that the error came from, or else the last one that has failed. Both are empty if there is
// none.
func FailedBy(ctx context.Context, f *journal.Failure) (name, key string) {
	s, err := scopeOf(ctx, call{verb: "dead-letter"})
	if err != nil {
		return "", ""
	}
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	op := r.deadLetters.by(f)
	return op.Name, op.Key
}
