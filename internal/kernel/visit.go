package kernel

import (
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// A visiting is the part of an attempt that belongs to a visit. A visit is a piece of work that may
// take several operations of one name and key: between two of them workflow code waits or does
// something else. They have one idempotency key and the same checkpoints.
//
// An attempt claims the messages that it observes: no other visit of the run sees them while it
// goes on. If its result counts as an end of the work, it takes them with that record. Otherwise
// they stay.
//
// The mu of the run guards it, except for said and over: the body's goroutine sets them, and
// nothing reads them before it returns.
type visiting struct {
	said     journal.VisitDetail // what the body says about its result
	over     bool                // its events and messages count, also if it fails for good
	decided  bool                // it has failed by its own decision
	last     int64               // the number of the last message as the attempt began
	observed []journal.Entry     // messages, in the order in which the body has seen them
	hidden   []int64             // messages that it has looked for and others had claimed
	data     []byte              // the payload of a failure
	spill    journal.Number      // the same, if it is stored in rows of its own
}

// Says records how the visit goes on after this attempt. If over is set, the events that the body
// has emitted are recorded with its result, and the messages that it has observed are taken, also
// if it fails for good. Otherwise neither counts.
func (s StepInfo) Says(d journal.VisitDetail, over bool) { s.a.said, s.a.over = d, over }

// Draining reports whether the engine is stopping, so that the step should hand over soon.
func (s StepInfo) Draining() bool {
	_, draining := s.a.op.run.k.state()
	return draining
}

// Before returns the failure of the attempt before this one; nil if there is none.
func (s StepInfo) Before() *journal.Failure {
	r := s.a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.a.op.failure
}

// Took returns how long the attempt has taken so far.
func (s StepInfo) Took() time.Duration { return time.Since(s.a.began) }

// says adds to the detail of a result what the body says about it, and records the messages that it
// takes.
func (a *attempt) says(d *journal.Detail) *journal.Detail {
	if a.over {
		a.take()
	} else {
		a.events = nil
	}
	if a.said.Seen != 0 {
		a.said.Seen = a.last
		if len(a.hidden) > 0 {
			// in memory the wait looks for these only; without that it looks for all from there on
			a.said.Seen = min(a.last, slices.Min(a.hidden)-1)
		}
		a.op.outcome.Last, a.op.outcome.Hidden = a.last, a.hidden
	}
	if a.said == (journal.VisitDetail{}) {
		return d
	}
	if d == nil {
		d = &journal.Detail{}
	}
	d.VisitDetail = a.said
	return d
}

// claim claims messages that the body observes, and returns those that it has got. An attempt that
// was given up claims nothing, and may see everything.
func (a *attempt) claim(messages []journal.Entry) []journal.Entry {
	in := &a.op.run.inbox
	if a.op.attempt != a {
		return messages
	}
	var got []journal.Entry
	for _, e := range messages {
		isNew, mine := in.claim(e.Seq, a)
		if mine {
			got = append(got, e)
		}
		if isNew {
			a.observed = append(a.observed, e)
		}
	}
	return got
}

// take records that the visit takes the messages that the attempt has observed, except those that a
// wait has taken meanwhile. The payloads are recorded for a run that does the step again.
func (a *attempt) take() {
	r := a.op.run
	for _, m := range a.observed {
		if r.inbox.isTaken(m.Seq) {
			continue
		}
		r.inbox.remove(m.Seq, r.last()+1)
		d := takes(&m)
		d.Reason, d.ByStep = m.Op.Name, true
		r.outside(journal.Entry{
			Kind: journal.SignalConsumed, Op: a.op.id, Data: m.Data, Spill: m.Spill, Detail: d,
		})
	}
}

// letGo releases the attempt's claims. It is called when the attempt is over.
func (a *attempt) letGo() {
	for _, m := range a.observed {
		a.op.run.inbox.release(m.Seq, a)
	}
	a.observed = nil
}

// offerFreed lets the waits for any signal look at messages that attempts have let go. It reports
// whether there may be any.
func offerFreed(r *run) bool {
	if r.gone() || !r.inbox.takeFreed() {
		return false
	}
	r.inbox.offerAll(slices.Collect(r.waits.of(anySignal)))
	return true
}

// A visits has the checkpoints of the visits of a scope, by their names and keys.
type visits map[opName]map[string]*checkpoint

// checkpoints returns the checkpoints of a visit, which all its operations share.
func (v *visits) checkpoints(op journal.Op) map[string]*checkpoint {
	name := opName{op.Name, op.Key}
	if *v == nil {
		*v = visits{}
	}
	c := (*v)[name]
	if c == nil {
		c = map[string]*checkpoint{}
		(*v)[name] = c
	}
	return c
}

// A checkpoint is a value that a step keeps over its attempts.
type checkpoint struct {
	data   []byte
	stored int64         // the entry that has data, if that is still in the store; else 0
	by     *attempt      // the attempt whose body makes it
	known  bool          // it is recorded and durable
	busy   chan struct{} // closed when the goroutine that makes it is done; nil while none does
}

// remember adds a checkpoint that is recorded.
func (o *operation) remember(key string, data []byte, stored int64) {
	if o.once == nil {
		o.once = map[string]*checkpoint{}
	}
	o.once[key] = &checkpoint{data: data, stored: stored, known: true}
}

// Once returns the value that is recorded under key in this step. If there is none, it calls
// produce and records the value. It returns when the value is durable. An error of produce is not
// recorded. Goroutines of one body that ask for one key wait for each other.
func (s StepInfo) Once(key string, produce func() ([]byte, error)) ([]byte, error) {
	o := s.a.op
	r := o.run
	if o.work.Tx {
		return nil, notInTx("once " + key)
	}
	for {
		r.mu.Lock()
		c := o.once[key]
		switch {
		case c == nil || !c.known && c.by != s.a && o.attempt == s.a:
			c = &checkpoint{by: s.a, busy: make(chan struct{})}
			if o.once == nil {
				o.once = map[string]*checkpoint{}
			}
			o.once[key] = c
			r.mu.Unlock()
			return s.produce(c, key, produce)
		case c.known:
			r.mu.Unlock()
			if c.stored != 0 {
				return r.k.fetch(r.number(), c.stored)
			}
			return c.data, nil
		}
		busy := c.busy
		r.mu.Unlock()
		<-busy
	}
}

// produce makes the value of a checkpoint and records it.
func (s StepInfo) produce(
	c *checkpoint, key string, produce func() ([]byte, error),
) ([]byte, error) {
	o := s.a.op
	r := o.run
	recorded := false
	defer func() {
		r.mu.Lock()
		if !recorded && o.once[key] == c {
			delete(o.once, key)
		}
		close(c.busy)
		r.mu.Unlock()
	}()
	data, err := produce()
	if err != nil {
		return nil, err
	}
	spill, failure := r.k.persistPayload("checkpoint "+key, &data)
	if failure != nil {
		return nil, &journal.Error{Code: failure.Code, Op: "once " + key, Message: failure.Message}
	}
	e := withPayload(journal.Entry{
		Kind:   journal.CheckpointSaved,
		Detail: o.mark(&journal.Detail{StepDetail: journal.StepDetail{Once: key}}),
	}, data, spill)
	if err := s.a.record("once "+key, true, func() (journal.Entry, error) {
		return e, nil
	}, nil); err != nil {
		return nil, err
	}
	r.mu.Lock()
	c.data, c.known, recorded = data, true, true
	r.mu.Unlock()
	return data, nil
}
