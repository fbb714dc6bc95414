package kernel

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Wait is a wait of workflow code for one message of its run's inbox. If its name is
// [journal.CallbackName], it waits for an answer. Its key is then the path of the callback; empty
// means the path of the scope.
type Wait struct {
	Name string // of the signal
	Key  string
	Change
	// reports whether a message matches; nil takes the first message. It is workflow code and must
	// decide by its argument alone.
	Match func(data []byte) bool
	// Any waits for a signal of any name with a number after After, or one of Besides, and does not
	// take it. While the body of a visit has claimed a signal, the wait does not see it. Name is
	// then only that of the operation. An operator who resumes the run ends the wait too.
	Any     bool
	After   int64
	Besides []int64
	Within  time.Duration // from now on; 0 means without a limit
	Until   time.Time     // zero means without a limit
}

// WaitFor begins to wait for a message. This wait and no other takes the first message that
// matches, also one that came before the wait.
func WaitFor(ctx context.Context, w Wait) (*Operation, error) {
	s, over, err := asking(ctx, call{"wait for", w.Name})
	if err != nil {
		return nil, err
	}
	defer s.run.mu.Unlock()
	o, err := s.waitFor(ctx, w, over)
	return (*Operation)(o), err
}

// Receive waits for a message and returns its payload. If its context or time ends first, the wait
// has taken nothing.
func Receive(ctx context.Context, w Wait) (Outcome, error) {
	s, over, err := asking(ctx, call{"wait for", w.Name})
	if err != nil {
		return Outcome{}, err
	}
	defer s.run.mu.Unlock()
	o, err := s.waitFor(ctx, w, over)
	if err != nil {
		return Outcome{}, err
	}
	return s.await(o)
}

// waitFor begins a wait. Match is the author's code and may take long. So a wait with Match is
// recorded before Match is called, and the run may have ended when Match returns. A wait for an
// answer is recorded first because the entry that ends it may not show what kind of wait it was.
func (s *scope) waitFor(ctx context.Context, w Wait, over *journal.Failure) (*operation, error) {
	r := s.run
	if w.Name == journal.CallbackName && w.Key == "" {
		w.Key = strings.TrimSuffix(s.path, "/")
	}
	op, rec := s.ask(asked{w.Name, w.Key, isSignal, w.Change, false})
	o := &operation{
		run: r, scope: s, id: op, class: isSignal, want: want{match: w.Match, from: w.Name},
	}
	if w.Any {
		o.notices, o.from, o.seen, o.besides = true, "", w.After, w.Besides
	}
	if rec != nil && rec.ended != nil {
		o.recorded(rec.ended)
		return o, nil
	}
	r.operations.track(o)
	o.run.operations.begin(o)
	if rec != nil {
		o.due = rec.due
	} else {
		o.due = w.limit(r.k.Now())
	}
	start := func() {
		e := journal.Entry{Kind: journal.WaitStarted, Op: op}
		if !o.due.IsZero() || o.notices {
			e.Detail = &journal.Detail{Due: o.due}
		}
		if o.notices {
			e.Detail.Reason = journal.ReasonAnySignal
		}
		r.append(e)
	}
	first := o.match != nil || over != nil || isCallback(o)
	if rec == nil && first {
		start()
	}
	if o.heed(ctx, over); o.settled {
		return o, nil
	}
	o.listen(s.branch)
	if o.settled {
		return o, nil
	}
	if err := s.ended(); err != nil {
		return nil, err
	}
	if rec == nil && !first {
		start()
	}
	o.wait()
	return o, nil
}

// IsOpen reports whether the run waits for such a message, or has it and its code has not seen it
// yet. Match does not count. On replay the result may differ, so the caller records it.
func (w Wait) IsOpen(ctx context.Context) (bool, error) {
	s, err := scopeOf(ctx, call{"look at the wait for", w.Name})
	if err != nil {
		return false, err
	}
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	is := func(o *operation) bool {
		return o.class == isSignal && o.from == w.Name && !o.delivered && o.scope.cancelled() == nil
	}
	for o := range r.operations.all() {
		if is(o) {
			return true, nil
		}
	}
	return r.hasFact(is), nil
}

// limit returns when a wait that begins now is given up; zero for never.
func (w Wait) limit(now time.Time) time.Time {
	until := w.Until.Round(0)
	if w.Within > 0 {
		until = earlier(until, now.Add(w.Within).Round(0))
	}
	return until
}

// A Decision is a question of workflow code to an operator.
type Decision struct {
	Name string
	Key  string
	Change
	Reason  string   // why the run is parked
	Choices []string // the answers that the operator may give
}

// A Decided is an operator's answer.
type Decided struct {
	Choice string
	Data   []byte
	By     string
	Reason string
}

// Decide parks the run until an operator decides.
func Decide(ctx context.Context, d Decision) (Decided, error) {
	s, over, err := asking(ctx, call{"park", d.Name})
	if err != nil {
		return Decided{}, err
	}
	r := s.run
	defer r.mu.Unlock()
	op, rec := s.ask(asked{d.Name, d.Key, isDecision, d.Change, false})
	o := &operation{
		run: r, scope: s, id: op, class: isDecision, want: want{from: d.Name, choices: d.Choices},
	}
	if rec != nil && rec.ended != nil {
		o.recorded(rec.ended)
	} else {
		r.operations.track(o)
		o.run.operations.begin(o)
		if rec == nil {
			r.append(journal.Entry{Kind: journal.DecisionSought, Op: op, Detail: &journal.Detail{
				Reason: d.Reason, Choices: d.Choices,
			}})
		}
		if o.heed(ctx, over); !o.settled {
			o.listen(s.branch)
		}
		if !o.settled {
			o.wait()
		}
	}
	out, err := s.await(o)
	if err == nil && out.Failure != nil {
		err = &journal.Error{
			Code: out.Failure.Code, Op: "park " + d.Name, Message: out.Failure.Message,
		}
	}
	if err != nil {
		return Decided{}, err
	}
	decided := Decided{Data: out.Data, By: out.Detail.By, Reason: out.Detail.Reason}
	if len(out.Detail.Choices) > 0 {
		decided.Choice = out.Detail.Choices[0]
	}
	return decided, nil
}

// heed makes the operation end with ctx, if the author made ctx. If over is set, ctx has ended
// already, and the operation ends at once, so that nothing of it begins. A run with such an
// operation cannot leave memory, because the engine does not know when ctx ends.
func (o *operation) heed(ctx context.Context, over *journal.Failure) {
	if over != nil {
		o.endBy(over)
		return
	}
	if o.scope.foreign(ctx) {
		o.run.operations.pin(1)
		o.ignore = context.AfterFunc(ctx, func() { o.contextEnded(ctx) })
	}
}

// listen makes the operation end with a message, if one is there. If older waits are about to look
// into the inbox, it gets in line. It makes the scans begin anew, since they may have passed
// messages that the operation wants.
func (o *operation) listen(b *branch) {
	o.forMessage = true
	o.run.inbox.scanAgain()
	if o.run.waits.anyTries() {
		o.offer()
		return
	}
	o.pick(b)
}

// wait adds the operation to the waits of the run, and sets its timer.
func (o *operation) wait() {
	o.run.waits.add(o)
	if !o.due.IsZero() {
		o.arm()
	}
}

// waited removes the operation from the waits, and stops its timer.
func (o *operation) waited() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	o.run.waits.remove(o)
}

// arm sets the timer of an operation that has a time.
func (o *operation) arm() {
	k := o.run.k
	o.timer = time.AfterFunc(k.clock.look(o.due, k.cfg.Sweep), o.elapsed)
}

// elapsed is called when the time of an operation has come. The clock may have
// been set back meanwhile.
func (o *operation) elapsed() {
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case o.timer == nil || o.settled || r.isFrozen() || r.gone():
	case r.k.until(o.due) > 0:
		o.arm()
	case o.class == isTimer:
		r.dispatch() // that fires the timer
	case o.forMessage:
		o.expire()
	default:
		o.waited()
		o.due = time.Time{}
		o.try(o.ask == nil || o.announced)
		r.dispatch()
	}
}

// expire ends a wait whose time is over, unless a message for it has been posted by now. It asks
// the store for that first.
func (o *operation) expire() {
	r := o.run
	r.inbox.hold()
	o.timer = nil
	go func() {
		err := r.k.persist(r.k.collect)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inbox.letGo()
		if err != nil || o.settled || r.gone() {
			return
		}
		o.expired = true
		o.offer()
		r.dispatch()
	}()
}

// wants reports whether the operation waits for a message, whatever the message's payload.
func (o *operation) wants(e *journal.Entry) bool {
	if !o.forMessage || o.settled {
		return false
	}
	switch o.class {
	case isChild:
		return e.Kind == journal.ChildCompleted && e.Op.Key == string(o.child)
	case isLock:
		return e.Kind == journal.SlotGranted && e.Op.Key == slotKey(o.slot)
	case isDecision:
		return e.Kind == journal.DecisionMade && e.Op.Name == o.from &&
			(e.Op.Occ == 0 || e.Op == o.id) && e.Detail != nil &&
			(len(o.choices) == 0 || len(e.Detail.Choices) > 0 && slices.Contains(
				o.choices, e.Detail.Choices[0],
			))
	}
	if isCallback(o) { // an answer may have moved along with the inbox of an earlier run
		return e.Kind == journal.AnswerReceived && e.Op.Key == o.id.Key && e.Detail != nil &&
			e.Detail.Other == o.run.id()
	}
	return e.Kind == journal.SignalReceived &&
		(o.notices && !o.run.inbox.isClaimed(e.Seq) || !o.notices && e.Op.Name == o.from)
}

// isCallback reports whether the operation waits for an answer.
func isCallback(o *operation) bool {
	return o.class == isSignal && o.from == journal.CallbackName
}

// offer lets an open wait look into the inbox. A predicate is workflow code, so a wait with one
// gets a turn of its own for it. Until it has had that turn, later waits that want to look get in
// line.
func (o *operation) offer() {
	r := o.run
	if o.settled || o.trying || r.gone() {
		return
	}
	if o.match == nil && !r.waits.anyTries() {
		o.pick(nil)
		return
	}
	o.trying = true
	r.waits.tries(1)
	b := &branch{run: r, scope: o.scope, wake: make(chan struct{}, 1), at: o.id}
	b.body = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		o.trying = false
		r.waits.tries(-1)
		if !o.settled && !r.gone() {
			o.pick(b)
		}
		b.end()
	}
	r.add(b, false)
}

// pick takes the first message that matches. If there is none, it ends a wait whose time is over,
// unless the store has messages that the wait has not seen: see seek. A predicate is called only on
// behalf of the branch b, which holds the turn.
func (o *operation) pick(b *branch) {
	r := o.run
	for {
		e := r.inbox.find(func(e *journal.Entry) bool {
			return (e.Seq > o.seen || slices.Contains(o.besides, e.Seq)) && o.wants(e)
		})
		if e == nil {
			break
		}
		m := *e
		matches := o.match == nil || o.matches(b, &m)
		if o.settled || r.gone() {
			return // it ended while the predicate was running
		}
		if matches {
			if r.inbox.find(func(e *journal.Entry) bool { return e.Seq == m.Seq }) != nil {
				o.consume(&m)
				return
			}
			continue // another wait has taken it while its payload was read
		}
		o.seen = m.Seq
	}
	if o.expired && r.inbox.searched(o.from) {
		f := &journal.Failure{
			Code: journal.CodeTimedOut, Name: "context.DeadlineExceeded",
			Message: awaitedBy(o) + " did not come by " + o.due.UTC().Format(time.RFC3339),
		}
		o.settle(journal.Entry{Kind: journal.WaitEnded, Detail: &journal.Detail{
			Failure: f, ByWait: true,
		}})
	}
}

// awaitedBy returns the name of the message that an operation waits for, for people.
func awaitedBy(o *operation) string {
	switch {
	case o.class == isLock:
		return "the slot of " + limitName(o.ask)
	case o.notices:
		return "a signal"
	case isCallback(o):
		return "an answer to " + o.id.Key
	}
	return o.from
}

// matches calls the author's predicate for a message, without the lock.
func (o *operation) matches(b *branch, m *journal.Entry) bool {
	r := o.run
	var ok bool
	b.withoutLock(func() {
		data, err := m.Data, error(nil)
		if data == nil && m.Spill != 0 {
			data, err = r.k.fetchMessage(r.number(), m.Seq)
		}
		ok = err == nil && o.match(data)
	})
	return ok
}

// consume takes a message: an entry of the run's journal has the message from then on. A wait that
// takes no signal ends only.
func (o *operation) consume(m *journal.Entry) {
	r := o.run
	if o.notices {
		o.settle(journal.Entry{Kind: journal.SignalNoticed})
		return
	}
	r.inbox.remove(m.Seq, r.last()+1)
	d := takes(m)
	kind := journal.SignalConsumed
	if isCallback(o) {
		if d.Other, d.ByWait = "", d.Failure != nil; d.ByWait {
			kind = journal.WaitEnded
		}
	}
	switch o.class {
	case isChild:
		kind = journal.ChildCompleted
	case isLock:
		kind = journal.SlotTaken
	}
	if m.Spill != 0 && m.Data == nil {
		o.outcome.stored = r.last() + 1
	}
	o.settle(journal.Entry{Kind: kind, Data: m.Data, Spill: m.Spill, Detail: d})
}

// takes returns the detail of an entry that takes a message.
func takes(m *journal.Entry) *journal.Detail {
	d := &journal.Detail{}
	if m.Detail != nil {
		*d = *m.Detail
	}
	d.Mail, d.To, d.Tell = m.Seq, "", false
	return d
}
