package kernel

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Why has the name of the operator who acts on a run, and the reason.
type Why struct {
	By, Reason string
	Mode       journal.Action // of a cancel; see [journal.MessageDetail]
}

// detail returns the detail of a message or entry that carries it. mail is the number of the
// message that the entry takes; 0 for none. The detail of nothing is nil.
func (w Why) detail(mail int64) *journal.Detail {
	if w == (Why{}) && mail == 0 {
		return nil
	}
	return &journal.Detail{
		By: w.By, Reason: w.Reason,
		MessageDetail: journal.MessageDetail{Mail: mail, Mode: w.Mode},
	}
}

// whyOf returns the instruction that a message carries.
func whyOf(d *journal.Detail) Why {
	if d == nil {
		return Why{}
	}
	return Why{By: d.By, Reason: d.Reason, Mode: d.Mode}
}

// terminate ends a run as CANCELLED at once. It neither cleans up nor undoes anything. A run that
// is CANCELLED already is left unchanged. A run that carries out the decision of a TCC goes on.
func (e *Engine) terminate(ctx context.Context, id string, why Why) error {
	var refused atomic.Bool
	return e.order(ctx, order{
		op: "terminate " + id, id: id, kind: journal.CancelAsked, why: why,
		judge: func(op string, h journal.Head) error {
			if refused.Load() && !h.Status.IsTerminal() {
				return tccDecided(op, h)
			}
			return mayTerminate(op, h)
		},
		do: func(r *run) {
			if !r.values.isTCCDecided() {
				endAtOnce(r, why, 0)
				return
			}
			refused.Store(true)
			if r.memo != nil && r.root.state == isNew { // it was loaded for this
				r.release()
			}
		},
	})
}

// mayTerminate reports whether a run can be terminated, as far as its head has that.
func mayTerminate(op string, h journal.Head) error {
	switch {
	case h.Status == journal.Cancelled:
		return nil
	case h.Status.IsTerminal():
		return wrongState(op, h, "it has ended")
	case h.Status == journal.Confirming || h.Status == journal.Canceling:
		return tccDecided(op, h)
	}
	return errOpen
}

func tccDecided(op string, h journal.Head) error {
	return wrongState(op, h, "it carries out the decision of a TCC")
}

// mayTerminate returns the judge for a process without an engine, which reads the journal. In a
// damaged journal, the entries before the damage count.
func (c *Client) mayTerminate(ctx context.Context) judge {
	return func(op string, h journal.Head) error {
		if err := mayTerminate(op, h); !errors.Is(err, errOpen) {
			return err
		}
		entries, err := c.Read(ctx, h, store.Range{})
		if err != nil && journal.CodeOf(err) != journal.CodeCorrupt {
			return err
		}
		m := newMemo(entries, "")
		if m.tccs > 0 || m.phase == journal.Confirming || m.phase == journal.Canceling {
			return tccDecided(op, h)
		}
		return errOpen
	}
}

// endAtOnce ends the run as CANCELLED, whatever end it cleans up for. mail is as in cancelledBy.
func endAtOnce(r *run, why Why, mail int64) {
	t := cancelledBy(why, mail)
	r.ending.decide(t.out, true)
	r.terminate(t)
}

// obeyAtOnce ends a run that has just been claimed, if a message asks for that. The engine need not
// know its workflow.
func obeyAtOnce(r *run) {
	if e := orderToEnd(r); e != nil {
		command{r, *e}.do()
	}
}

// orderToEnd returns the message by which the run is to end at once; nil if there is none, or if
// the head of the run does not allow that.
func orderToEnd(r *run) *journal.Entry {
	if !errors.Is(mayTerminate("", r.head()), errOpen) {
		return nil
	}
	return r.inbox.find(func(e *journal.Entry) bool {
		return store.OrderOf(e) == store.TerminateOrder
	})
}

// decides returns 1 for an entry by which a TCC begins to carry out a decision, -1 for one by which
// it has carried it out, and else 0.
func decides(e *journal.Entry) int {
	switch e.Kind {
	case journal.PhaseStarted, journal.PhaseCompleted, journal.PhaseFailed:
	default:
		return 0
	}
	switch {
	case e.Detail == nil:
	case e.Detail.Phase != journal.PhaseConfirm && e.Detail.Phase != journal.PhaseCancel:
	case e.Kind == journal.PhaseStarted:
		return 1
	default:
		return -1
	}
	return 0
}
