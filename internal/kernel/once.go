package kernel

import (
	"github.com/perdure/perdure/journal"
)

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
		return nil, &journal.Error{
			Code: journal.CodeMisuse, Op: "once " + key,
			Message: "nothing else becomes durable while a step has a transaction",
			Hint:    "do it in a step of its own before this one",
		}
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
	durable := make(chan struct{})
	r.mu.Lock()
	if o.attempt != s.a || r.gone() {
		r.mu.Unlock()
		return nil, &journal.Error{
			Code: journal.CodeCancelled, Op: "once " + key, Message: "the attempt was given up",
		}
	}
	e := journal.Entry{
		Kind: journal.CheckpointSaved, Op: o.id, Data: data, Spill: spill,
		Detail: o.mark(&journal.Detail{StepDetail: journal.StepDetail{Once: key}}),
	}
	if spill != 0 {
		e.Data = nil
	}
	r.outside(e)
	r.whenDurable(effect{do: func() { close(durable) }})
	r.dispatch()
	r.mu.Unlock()
	select {
	case <-durable:
	case <-r.done:
		return nil, &journal.Error{
			Code: journal.CodeCancelled, Op: "once " + key, Message: "the run left this engine",
		}
	case <-r.k.dead:
		return nil, r.k.cause()
	}
	r.mu.Lock()
	c.data, c.known, recorded = data, true, true
	r.mu.Unlock()
	return data, nil
}
