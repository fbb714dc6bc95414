package kernel

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// A retrier asks the store for a kernel, and tries again while the store does not answer, as long
// as the kernel lives. Meanwhile only observers are notified of the errors.
type retrier struct{ k *Kernel }

// persist calls f until it succeeds or fails for good. It gives up when the engine is dead.
func (a retrier) persist(f func() error) error {
	k := a.k
	wait := 10 * time.Millisecond
	for tries := 1; ; tries++ {
		err := f()
		var corrupt *journal.CorruptError
		if err == nil || final(err) || errors.As(err, &corrupt) {
			k.recovered(tries)
			return err
		}
		k.observe(observe.Notice{Kind: observe.StoreFailed, Attempt: tries, Err: err.Error()})
		if !k.pause(&wait) {
			return err
		}
	}
}

// pause waits before the store is tried again, longer each time and at most 1 s. It returns false
// when the engine is dead.
func (a retrier) pause(wait *time.Duration) bool {
	k := a.k
	t := time.NewTimer(*wait)
	defer t.Stop()
	*wait = min(2**wait, time.Second)
	select {
	case <-t.C:
		return true
	case <-k.dead:
		return false
	}
}

// final reports whether trying again cannot help.
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

// persistPayload makes a payload durable that is too large for its entry, and returns the number
// that the entry names it by; 0 if the payload fits. It waits as long as the store does not answer.
func (a retrier) persistPayload(what string, data *[]byte) (journal.Number, *journal.Failure) {
	k := a.k
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
		return 0, &journal.Failure{
			Code: journal.CodeUnavailable, Message: what + " could not be stored: " + err.Error(),
		}
	}
	return id, nil
}

// fetch returns a spilled payload by the entry that names it. It waits as long as the store does
// not answer.
func (a retrier) fetch(run journal.Number, seq int64) (data []byte, err error) {
	k := a.k
	err = k.persist(func() error {
		entries, err := k.store.Load(context.Background(), run, store.Range{
			From: seq, Limit: 1, Payloads: true,
		})
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

// wholeJournal reads the journal of a run with its payloads.
func (a retrier) wholeJournal(run journal.Number) (entries []journal.Entry, err error) {
	k := a.k
	err = k.persist(func() error {
		entries, err = k.store.Load(context.Background(), run, store.Range{Payloads: true})
		return err
	})
	return entries, err
}

// lastPayload returns the payload that a run had last: its input, or the payload that replaced it.
// It waits as long as the store does not answer.
func (a retrier) lastPayload(run journal.Number) ([]byte, error) {
	k := a.k
	var entries []journal.Entry
	err := k.persist(func() (err error) {
		entries, err = k.store.Load(context.Background(), run, store.Range{})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(entries) {
		switch {
		case e.Kind != journal.PayloadSet && e.Kind != journal.RunStarted:
		case storedAt(&e) != 0:
			return k.fetch(run, e.Seq)
		default:
			return e.Data, nil
		}
	}
	return nil, nil
}

// loadMessages reads untaken messages of a run. It waits as long as the store does
// not answer.
func (a retrier) loadMessages(
	run journal.Number, r store.Range,
) (messages []journal.Entry, err error) {
	k := a.k
	r.Inbox = true
	err = k.persist(func() error {
		messages, err = k.store.Load(context.Background(), run, r)
		return err
	})
	return messages, err
}

// fetchMessage returns the payload of a message that was not taken.
func (a retrier) fetchMessage(run journal.Number, number int64) ([]byte, error) {
	k := a.k
	messages, err := k.loadMessages(run, store.Range{From: number, Limit: 1, Payloads: true})
	if err == nil && (len(messages) == 0 || messages[0].Seq != number) {
		err = &journal.CorruptError{Run: run, Seq: number, Reason: "the message is not there"}
	}
	if err != nil {
		return nil, err
	}
	return messages[0].Data, nil
}

// settleTx waits until the store answers, which means that all transactions of this engine are
// over. It returns how often it asked.
func (a retrier) settleTx() (tries int, err error) {
	k := a.k
	err = k.persist(func() error {
		tries++
		if !k.holds() {
			return store.ErrFenced
		}
		return k.store.Commit(context.Background(), &store.Group{
			Engine: k.engine, Now: k.Now(), Again: true,
		})
	})
	return tries, err
}

// resolve finds out whether an entry is durable whose transaction ended with an error. An entry
// that was not sent is not there. It returns an error if this engine will not find out.
func (a retrier) resolve(
	run journal.Number, seq int64, sent bool, why error,
) (tries int, happened bool, err error) {
	k := a.k
	if final(why) && !refusal(why) {
		err = why
	} else if tries, err = k.settleTx(); err == nil && sent {
		err = k.persist(func() error {
			entries, err := k.store.Load(context.Background(), run, store.Range{
				From: seq, Limit: 1,
			})
			happened = len(entries) > 0
			return err
		})
	}
	if err != nil && final(err) {
		k.fenced("commit", err)
	}
	return tries, happened, err
}
