package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A dead letter is a run of its own, which waits until what it is about is settled. It
// is created in the commit that records that a step was dead-lettered, and hears by
// messages what becomes of that: each is in the commit of what it tells.

// OwnPrefix is what the names of workflows begin with that an engine has by itself.
const OwnPrefix = "perdure."

// DeadLetterWorkflow is the workflow of dead letters, and DeadLetterNews the name of the
// messages that they get.
const (
	DeadLetterWorkflow = OwnPrefix + "dead-letter"
	DeadLetterNews     = ownNames + "letter"
)

// News is what a dead letter hears of.
type News struct {
	Failed  json.RawMessage `json:"failed,omitempty"`  // the same step was dead-lettered again; as the door says it
	Retried *Retrial        `json:"retried,omitempty"` // a run was started that retries
	Ended   *Settled        `json:"ended,omitempty"`   // that run has ended, and has not dead-lettered the step again
}

// A Retrial is a run that retries.
type Retrial struct {
	Run journal.RunID `json:"run"`
	At  time.Time     `json:"at"`
}

// Settled is how a run that retries has ended.
type Settled struct {
	Run     journal.RunID    `json:"run"`
	Status  string           `json:"status"`
	Failure *journal.Failure `json:"failure,omitempty"`
	Done    bool             `json:"done,omitempty"` // it came past the step
}

// A DeadLetter is what workflow code has dead-lettered.
type DeadLetter struct {
	Step, Key  string
	Failure    *journal.Failure
	Data       []byte // the input of its run
	Again      []byte // what a dead letter hears that is there already
	Attributes map[string]string
}

// AddDeadLetter records that a step has failed for good, and starts the dead letter.
// Where the chain of the run has one about the same step, that hears of it instead.
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
	id := s.deadLetterID(l.Step, l.Key)
	c := newDeadLetter(r, n, id, l, spill)
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

// newDeadLetter makes the run of a dead letter.
func newDeadLetter(r *run, n journal.Number, id string, l DeadLetter, spill journal.Number) *store.Change {
	now := time.Now()
	start := journal.Entry{
		Run: n, Seq: 1, At: now, Kind: journal.RunStarted, Status: journal.Pending, Data: l.Data, Spill: spill,
		Detail: &journal.Detail{CodeDetail: journal.CodeDetail{Build: r.k.cfg.Build}, StartDetail: journal.StartDetail{Attributes: l.Attributes}},
	}
	if spill != 0 {
		start.Data = nil
	}
	return &store.Change{
		Run: n, Create: true, Entries: []journal.Entry{start}, Head: &journal.Head{
			Number: n, ID: journal.MakeRunID(r.k.database(), n), WorkflowID: id, Workflow: DeadLetterWorkflow,
			Status: journal.Pending, Wake: now, Created: now, Chain: n,
		},
		Else: []store.Post{news(id, "failed/"+string(r.id()), News{Failed: l.Again})},
	}
}

// deadLetterID is the workflow ID of the dead letter about a step of this scope: the same
// for all runs that retry one another.
func (s *scope) deadLetterID(step, key string) string {
	chain := journal.MakeRunID(s.run.k.database(), s.run.head().Chain)
	id := DeadLetterWorkflow + ":" + string(chain) + ":"
	if key == "" && s.path == "" && len(id)+len(step) <= journal.MaxName {
		return id + step
	}
	sum := sha256.Sum256([]byte(s.show(journal.Op{Name: step, Key: key})))
	return id + hex.EncodeToString(sum[:16])
}

// news makes a message for a dead letter, if that is there.
func news(deadLetter, message string, n News) store.Post {
	data, _ := json.Marshal(n) // it has nothing that does not encode
	return store.Post{WorkflowID: deadLetter, Message: journal.Entry{
		Kind: journal.SignalReceived, At: time.Now(), Op: journal.Op{Name: DeadLetterNews}, Data: data,
		Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Message: message}},
	}}
}

// openDeadLetters returns the dead letters that the run of a journal has left open: its own,
// else those that it was to settle.
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

// deadLetters are those that a run has to do with.
//
// Invariants: written has those that the journal says that the run has written, and seen
// the last failures that workflow code has seen, in the order in which it did. They are
// guarded by their run's mu.
type deadLetters struct {
	written map[string]bool
	seen    []failedOp
}

// note takes in which dead letters an entry has written.
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

// keep returns for how long a run is kept that ends so: own, or longer where a dead letter is
// about it, for who retries it.
func (l *deadLetters) keep(
	start *journal.Detail, status journal.Status, own, deadLettered time.Duration,
) time.Duration {
	open := len(l.written) > 0 || start != nil && len(start.DeadLetters) > 0
	if !open || status.IsSuccess() || status == journal.ContinuedAsNew {
		return own
	}
	return max(own, deadLettered)
}

// settle returns what the dead letters that a run was to settle hear of its end. One that it
// has written again knows; where it has written others, these are in the place of the old.
func (l *deadLetters) settle(
	run journal.RunID, start *journal.Detail, status journal.Status, f *journal.Failure,
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
		case journal.ContinuedAsNew, journal.Canceled, journal.Compensated: // nothing is left of what has failed
			done = true
		}
		ended := &Settled{Run: run, Status: status.String(), Failure: f, Done: done}
		out = append(out, news(id, "ended/"+string(run), News{Ended: ended}))
	}
	return out
}

// failed notes that workflow code has seen an operation fail.
func (l *deadLetters) failed(o *operation) {
	if c := o.class; c != isStep && c != isAsync && c != isChild {
		return
	}
	if len(l.seen) == keptFailures {
		l.seen = slices.Delete(l.seen, 0, 1)
	}
	l.seen = append(l.seen, failedOp{o.id, o.outcome.Failure})
}

// by returns the operation that a failure came from, else the last one that has failed.
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

// isOwnWorkflow says whether a workflow is one that an engine has by itself.
func isOwnWorkflow(name string) bool { return strings.HasPrefix(name, OwnPrefix) }

// About gives what a dead letter says of the run of ctx: its head, with the status that
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

// Within is the path of what ctx is in, with a slash: of a clean-up that of where it was
// planned. It is empty for the run itself.
func Within(ctx context.Context) string {
	s, err := scopeOf(ctx, call{verb: "dead-letter"})
	if err != nil {
		return ""
	}
	return s.base
}

// keptFailures bounds how many failures a run keeps for FailedBy.
const keptFailures = 100

// A failedOp is a step or child that has failed, as workflow code knows.
type failedOp struct {
	op      journal.Op
	failure *journal.Failure
}

// FailedBy gives the name and key of the step or child by which the run of ctx fails
// with f: of one whose error that came from, else the last one that has failed. Both
// are empty where there is none.
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
