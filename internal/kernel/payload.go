package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// tooLarge gives the failure that a payload over the limit is.
func tooLarge(what string, data []byte, limit int) *journal.Failure {
	if len(data) <= limit {
		return nil
	}
	return &journal.Failure{
		Code:    journal.CodeTooLarge,
		Message: fmt.Sprintf("%s has %d bytes, the limit of one payload is %d", what, len(data), limit),
	}
}

// spillOver makes a payload durable that is too large for its entry, and gives
// the number that the entry names it by: 0 where it fits. It waits as long as
// the store does not answer.
func (k *Kernel) spillOver(what string, data *[]byte) (journal.Number, *journal.Failure) {
	if f := tooLarge(what, *data, k.cfg.MaxPayload); f != nil {
		*data = nil
		return 0, f
	}
	if len(*data) <= k.cfg.SpillOver {
		return 0, nil
	}
	id, err := k.number()
	if err == nil {
		err = k.persist(func() error {
			if !k.holds() {
				return store.ErrFenced
			}
			return k.store.Spill(context.Background(), k.engine, id, *data)
		})
	}
	if err != nil {
		return 0, &journal.Failure{Code: journal.CodeUnavailable, Message: what + " could not be stored: " + err.Error()}
	}
	return id, nil
}

// spillOver is that of workflow code, which has the turn. It may wait for a lock that a
// transaction of the run has, and that one for the turn: see propose.
func (s *scope) spillOver(what string, data *[]byte) (journal.Number, *journal.Failure) {
	r := s.run
	if len(*data) <= r.k.cfg.SpillOver {
		return r.k.spillOver(what, data)
	}
	r.mu.Lock()
	r.spills(1)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.spills(-1)
		r.mu.Unlock()
	}()
	return r.k.spillOver(what, data)
}

// spillOver is that of a body, whose records go with its result. In a transaction the
// payload goes with them too: what is made durable beside it may wait for its lock.
func (a *attempt) spillOver(what string, data []byte) (journal.Number, *journal.Failure) {
	if k := a.op.run.k; a.op.work.Tx {
		return k.Desk.bring(what, data, k.number)
	}
	return a.op.run.k.spillOver(what, &data)
}

// brings reports whether an entry of the body that names a spilled payload has it too.
func (a *attempt) brings(spill journal.Number) bool { return spill == 0 || a.op.work.Tx }

// fetch gives a spilled payload by the entry that names it. It waits as long as
// the store does not answer.
func (k *Kernel) fetch(run journal.Number, seq int64) (data []byte, err error) {
	err = k.persist(func() error {
		entries, err := k.store.Load(context.Background(), run, store.Range{From: seq, Limit: 1, Payloads: true})
		if err == nil && len(entries) == 0 {
			return &journal.CorruptError{Run: run, Seq: seq, Reason: "it is not there"}
		}
		if err == nil {
			data = entries[0].Data
		}
		return err
	})
	return data, err
}

// fetchMessage gives the payload of a message that nobody has taken.
func (k *Kernel) fetchMessage(run journal.Number, number int64) ([]byte, error) {
	messages, err := k.loadMessages(run, store.Range{From: number, Limit: 1, Payloads: true})
	if err == nil && (len(messages) == 0 || messages[0].Seq != number) {
		err = &journal.CorruptError{Run: run, Seq: number, Reason: "the message is not there"}
	}
	if err != nil {
		return nil, err
	}
	return messages[0].Data, nil
}

// storedAt is the sequence of an entry whose payload is in rows of its own; 0
// where it is not.
func storedAt(e *journal.Entry) int64 {
	if e.Spill == 0 || e.Data != nil {
		return 0
	}
	return e.Seq
}

// persist calls f until it succeeds or fails for good. It gives up when the
// engine is dead.
func (k *Kernel) persist(f func() error) error {
	wait := 10 * time.Millisecond
	for tries := 1; ; tries++ {
		err := f()
		var corrupt *journal.CorruptError
		if err == nil || final(err) || errors.As(err, &corrupt) {
			k.recovered(tries)
			return err
		}
		k.observe(observe.Notice{Kind: observe.StoreFailed, At: time.Now(), Attempt: tries, Err: err.Error()})
		if !k.pause(&wait) {
			return err
		}
	}
}

// final says whether trying again cannot help.
func final(err error) bool {
	return refusal(err) || errors.Is(err, store.ErrNotFound) || over(err)
}

// over reports whether the engine must not go on with its store.
func over(err error) bool {
	for _, end := range []error{store.ErrClosed, store.ErrFenced, store.ErrLost, store.ErrDamaged} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
