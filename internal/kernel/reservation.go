package kernel

import (
	"github.com/perdure/perdure/store"
)

// A reservation makes the log of a run go with the transaction of an attempt; see transact.go.
//
// Invariants: while an attempt is the keeper and has not been given up, the pipeline takes nothing
// of the run. While tentative is not 0, the entry of that sequence is the result of the keeper,
// only the transaction knows it, and no fact is delivered.
//
// The mu of the run guards it.
type reservation struct {
	keeper    *attempt
	tentative int64         // the entry of the result, while it may still be withdrawn; else 0
	spilling  int           // payloads that are being made durable for workflow code, which waits
	stirred   chan struct{} // closed when this or the log has changed; nil while nobody waits
}

// keep reserves the log for an attempt. It returns false if another attempt has it.
func (v *reservation) keep(a *attempt) bool {
	if v.keeper != a && v.isReserved() {
		return false
	}
	v.keeper = a
	return true
}

// giveBack ends the reservation of an attempt. It reports whether the attempt had the log.
func (v *reservation) giveBack(a *attempt) bool {
	if v.keeper != a {
		return false
	}
	v.keeper = nil
	v.stir()
	return true
}

// isReserved reports whether the log is that of an attempt. An attempt that was given up does not
// have the log any more.
func (v *reservation) isReserved() bool {
	return v.keeper != nil && (v.keeper.op.attempt == v.keeper || v.tentative != 0)
}

// changes returns a channel that is closed when something has changed that an attempt may wait for.
func (v *reservation) changes() <-chan struct{} {
	if v.stirred == nil {
		v.stirred = make(chan struct{})
	}
	return v.stirred
}

// stir wakes the attempts that wait for a change.
func (v *reservation) stir() {
	if v.stirred != nil {
		close(v.stirred)
		v.stirred = nil
	}
}

// spills counts payloads that are being made durable for workflow code: n is 1 or -1.
func (v *reservation) spills(n int) {
	v.spilling += n
	if n > 0 {
		v.stir()
	}
}

// isTentative reports whether a result may still be withdrawn.
func (v *reservation) isTentative() bool { return v.tentative != 0 }

// certain ends the time in which the result is tentative.
func (v *reservation) certain() { v.tentative = 0 }

// isLater reports whether the result is tentative, and later than an entry.
func (v *reservation) isLater(seq int64) bool { return v.tentative > seq }

// mayBreak reports whether the entries of a turn may be sealed before the turn ends, because the
// holder may wait for the transaction.
func (v *reservation) mayBreak() bool { return v.spilling > 0 }

// hold makes the entry of that sequence tentative.
func (v *reservation) hold(seq int64) { v.tentative = seq }

// A proposal has the changes of a run that go with a transaction.
type proposal struct {
	changes    []store.Change
	outgoing   []outgoing
	headSeq    int64
	first, seq int64 // the entries of the attempt: its events and its result
	data       []byte
}
