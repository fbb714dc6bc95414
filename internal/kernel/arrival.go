package kernel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An arrival is a run that was claimed and whose activation begins: its journal is read, and its
// code is called from the top, unless there is a reason not to.
type arrival struct {
	run     *run
	claimed *store.Run
}

// adopt begins the activation of a claimed run: its journal is replayed, unless the run has to be
// parked or is parked already. Forced, its code runs all the same.
func (k *Kernel) adopt(c *store.Run, forced bool) {
	if r := k.loadedRun(c.Head.Number); r != nil {
		r.mu.Lock()
		waits := r.awaits()
		r.mu.Unlock()
		if waits {
			return
		}
	}
	def := k.Lookup(c.Head.Workflow)
	r, broken := k.activationOf(c, def)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !k.admit(r) {
		r.stop(ErrUnloaded)
		return
	}
	close(r.begun)
	obeyAtOnce(r)
	switch a := (arrival{r, c}); {
	case r.gone():
	case def == nil: // claimed for a command that did not come, or that is refused
		r.release()
	case broken != nil:
		a.leave(broken)
	case a.goesOn(forced):
		a.begin()
	}
}

// activationOf returns the activation of a claimed run. If its journal is not replayable, it also
// returns the reason.
func (k *Kernel) activationOf(c *store.Run, def *Workflow) (r *run, broken *journal.Failure) {
	if c.Head.Retain == "" { // the client that started the run did not know the workflow
		c.Head.Retain = k.retention(c.Head.Workflow)
	}
	if def != nil && c.Head.Pattern == journal.PatternWorkflow { // the same
		c.Head.Pattern = def.Pattern
	}
	m := newMemo(c.Entries, k.cfg.Build)
	m.last = c.Last
	r = k.newRun(c.Head, def, m)
	r.ending.imply(m.planned[journal.ImpliedCleanup])
	r.inbox.begin(c.Head.Mail, c.Inbox, c.More)
	if c.More || c.Err != nil && c.Head.Mail > 0 { // a damaged run comes without its messages
		commands, err := k.loadMessages(c.Head.Number, store.Range{Name: controlName})
		if c.Err = cmp.Or(c.Err, err); err == nil {
			r.inbox.merge(commands)
		}
	}
	if broken = brokenBy(c); broken != nil {
		r.ending = newEnding(m)
		m.planned, m.undoable, m.ends = nil, false, nil
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Kind.IsOutput() {
			e.Data = nil // no code asks for it
		}
		r.bytes += int64(e.Size())
		if e.Kind == journal.DeadLettered {
			r.deadLetters.note(e)
		}
	}
	k.weigh(r.bytes)
	begun := func(e journal.Entry) bool { return e.Status != journal.Pending && e.Status != 0 }
	isPending := c.Head.Status == journal.Pending && !slices.ContainsFunc(c.Entries, begun)
	if isPending && c.Head.Number.Engine() != k.engine {
		r.observed.isNews()
	}
	if len(c.Entries) > 0 {
		first := &c.Entries[0]
		start := journal.StartDetail{}
		if r.start = first.Detail; r.start != nil {
			start = r.start.StartDetail
		}
		input := cmp.Or(m.given, first)
		r.values.begin(input.Data, storedAt(input), &start)
		for _, e := range m.begins {
			r.values.note(e)
		}
	}
	return r, broken
}

// goesOn reports whether the code of the run is to be called. Otherwise the run has ended, or is
// given back. Forced, the code of a parked run is called all the same.
func (a arrival) goesOn(forced bool) bool {
	r := a.run
	if e := r.memo.ends; e != nil && !isOwn(e) {
		a.resumeEnding(e)
	} else if r.overdue() && !r.ending.cleansUp() {
		return false
	}
	if parked(a.claimed.Head) && !forced && !a.unparks() {
		if !r.gone() {
			r.release()
		}
		return false
	}
	return true
}

// brokenBy returns the reason why the journal of a run is not replayable; nil if it is replayable.
func brokenBy(c *store.Run) *journal.Failure {
	switch {
	case c.Err != nil:
		return &journal.Failure{Code: journal.CodeCorrupt, Message: c.Err.Error()}
	case len(c.Entries) == 0 || c.Entries[0].Kind != journal.RunStarted:
		return &journal.Failure{
			Code: journal.CodeCorrupt, Message: "its journal does not begin with its start",
		}
	case slices.ContainsFunc(c.Entries, isEncoded) || slices.ContainsFunc(c.Inbox, isEncoded):
		return &journal.Failure{
			Code: journal.CodeCorrupt, Message: "its payloads are encoded, and the store of this " +
				"program has no codec: give it the codec that has written them",
		}
	}
	return nil
}

func isEncoded(e journal.Entry) bool { return e.IsEncoded() }

// parked reports whether a run waits to be resumed. A run that waits for a decision is SUSPENDED
// too, but without a cause: its code goes on by itself.
func parked(h journal.Head) bool { return h.Status == journal.Suspended && h.Cause != "" }

// leave releases a parked run whose journal is not readable. It carries out the run's messages: a
// cancel ends the run without cleaning up, because its code cannot be replayed; a resume parks it
// again, because its journal was tried once more.
func (a arrival) leave(broken *journal.Failure) {
	r := a.run
	d := &journal.Detail{Reason: broken.Message, Failure: broken}
	if r.overdue() {
		return
	}
	if !parked(r.head()) {
		r.suspend(d)
		return
	}
	for !r.gone() {
		r.takeReasons()
		e := r.inbox.find(unparks)
		switch {
		case e == nil:
			r.release()
		case e.Kind == journal.ResumeAsked:
			d.Mail = e.Seq
			r.inbox.remove(e.Seq, r.last()+1)
			r.suspend(d)
		default:
			command{r, *e}.do()
		}
	}
}

// unparks reports whether the parked run goes on, because of a message in its inbox or because it
// is about to end.
func (a arrival) unparks() bool {
	r := a.run
	if r.ending.closing() != nil && (r.memo.ends == nil || r.memo.ends.Seq > r.memo.suspended) {
		return true
	}
	for !r.gone() {
		r.takeReasons()
		e := r.inbox.find(unparks)
		switch {
		case e == nil:
			return false
		case e.Kind == journal.ResumeAsked:
			number := e.Seq
			r.inbox.remove(number, r.last()+1)
			r.append(journal.Entry{
				Kind: journal.RunResumed, Status: r.values.active(),
				Detail: whyOf(e.Detail).detail(number),
			})
			return true
		case r.ending.as() == 0 && r.values.decided() == 0 &&
			cleansUp(r, whyOf(e.Detail).Mode):
			return true
		}
		command{r, *e}.do() // the command ends the run, or changes nothing
	}
	return false
}

// begin calls the code of a claimed run once its time has come and it is admitted.
func (a arrival) begin() {
	r := a.run
	if !r.memo.admitted && r.admission.isEarly() {
		return
	}
	now := r.k.rules.Load()
	if !r.memo.admitted {
		r.admission.under = now
	}
	held := r.memo.joins != "" || now.HoldsBack(r.def.limited())
	if !r.memo.admitted && held {
		r.admission.askAnew(a.start)
		return
	}
	a.start()
}

// start calls the code of a claimed run. The code of a suspect is called when the run is tried. It
// is called with the lock.
func (a arrival) start() {
	r := a.run
	trials, suspect := r.k.cfg.tried(a.claimed)
	if r.last() > a.claimed.Last { // the run is resumed
		trials, suspect = 0, false
	}
	retrying := r.status() == journal.Waiting && r.head().Cause != "" // the code failed last
	r.because("")
	begins := r.status() == journal.Pending || !r.memo.admitted
	record := begins || retrying || r.memo.build != r.k.cfg.Build
	if record {
		r.ending.imply(r.def.CleansUp && begins)
	}
	if shared := r.k.cfg.suspects(); suspect && shared+trials >= r.k.cfg.MaxCrashes {
		r.suspend(&journal.Detail{Reason: fmt.Sprintf(
			"%d engines in a row died while executing it, the last %d while no other suspect was "+
				"executed",
			shared+trials, trials,
		)})
		return
	}
	r.trial.comesAfter(trials)
	if suspect && r.k.trials.add(r) {
		r.trial.await()
		r.commands()
		return
	}
	if record {
		r.append(r.claim(0))
		r.admission.handOver()
	}
	r.root.call()
}

// resumeEnding goes on with an end that is recorded and not reached.
func (a arrival) resumeEnding(e *journal.Entry) {
	r := a.run
	kind, why := journal.RunCancelled, "workflow cancelled: "+e.Detail.Reason
	if e.Detail.Outcome == journal.TimedOut {
		kind, why = journal.RunTimedOut, "workflow timed out"
	}
	f := e.Detail.Failure
	c := &closing{run: r, termination: termination{
		why: why, end: &journal.Error{Code: f.Code, Message: f.Message}, out: Outcome{Failure: f},
		last: journal.Entry{Kind: kind, Status: e.Detail.Outcome, Detail: &journal.Detail{
			Failure: f, Reason: e.Detail.Reason, By: e.Detail.By,
			MessageDetail: journal.MessageDetail{Mode: e.Detail.Mode},
		}},
	}}
	r.ending.resume(c)
	r.push(e.Seq, c)
}

// isOwn reports whether the code itself came to an end that is recorded.
func isOwn(e *journal.Entry) bool { return e.Detail.Failure == nil }

// claim returns the entry of a claim, and of the trial with that number if it is above 0.
func (r *run) claim(trial int) journal.Entry {
	d := &journal.Detail{
		CodeDetail:  journal.CodeDetail{Build: r.k.cfg.Build, Engine: r.k.engine},
		StartDetail: journal.StartDetail{CleansUp: r.ending.isImplied()},
		Attempt:     trial,
	}
	if r.status() == journal.Pending || !r.memo.admitted { // the run begins
		d.Layers = r.def.Layers
	}
	if trial == 0 {
		d = r.admission.takeGrant(d)
	}
	e := journal.Entry{Kind: journal.RunClaimed, Status: r.values.active(), Detail: d}
	if g := r.admission.given; g != nil && len(g.runs) > 0 {
		d.Gathered = g.ids(r.k.database())
		e = withPayload(e, g.input, g.spill)
	}
	return e
}
