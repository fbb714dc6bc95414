package kernel

import (
	"fmt"

	"github.com/perdure/perdure/journal"
)

// tooLarge returns the failure for a payload over the limit; nil for a smaller one.
func tooLarge(what string, data []byte, limit int) *journal.Failure {
	if len(data) <= limit {
		return nil
	}
	return &journal.Failure{
		Code: journal.CodeTooLarge,
		Message: fmt.Sprintf(
			"%s has %d bytes, the limit of one payload is %d", what, len(data), limit,
		),
	}
}

// spillOver spills a payload of workflow code, which has the turn. The code may wait for a lock
// that a transaction of the run has, and the transaction for the turn: see propose.
func (s *scope) spillOver(what string, data *[]byte) (journal.Number, *journal.Failure) {
	r := s.run
	if len(*data) <= r.k.cfg.SpillOver {
		return r.k.persistPayload(what, data)
	}
	r.mu.Lock()
	r.spills(1)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.spills(-1)
		r.mu.Unlock()
	}()
	return r.k.persistPayload(what, data)
}

// spillOver spills a payload of a body, whose entries go with its result. In a transaction the
// payload goes with them too, because a payload made durable beside it may wait for the lock of the
// transaction.
func (a *attempt) spillOver(what string, data []byte) (journal.Number, *journal.Failure) {
	if k := a.op.run.k; a.op.work.Tx {
		return k.bring(what, data, k.number)
	}
	return a.op.run.k.persistPayload(what, &data)
}

// brings reports whether an entry of the body that names a spilled payload also contains it.
func (a *attempt) brings(spill journal.Number) bool { return spill == 0 || a.op.work.Tx }

// storedAt returns the sequence of an entry whose payload is in rows of its own; 0 if it is not.
func storedAt(e *journal.Entry) int64 {
	if e.Spill == 0 || e.Data != nil {
		return 0
	}
	return e.Seq
}
