package barrier_test

import (
	"database/sql"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
)

// A history has the commits of a participant, in order. It is the model: tests look up in it
// what the result of a delivery must be.
type history []event

type event struct {
	phase perdure.Phase
	ran   bool // it took effect
	n     int  // its result
}

// ran returns the one execution of a phase that took effect.
func (h history) ran(phase perdure.Phase) (event, bool) {
	for _, e := range h {
		if e.phase == phase && e.ran {
			return e, true
		}
	}
	return event{}, false
}

// came reports whether a phase succeeded, with or without an effect.
func (h history) came(phase perdure.Phase) bool {
	for _, e := range h {
		if e.phase == phase {
			return true
		}
	}
	return false
}

// next returns what the next delivery of a phase must result in: an effect, the result of an
// earlier delivery, or an error.
func (h history) next(phase perdure.Phase) (runs bool, n int, err error) {
	if e, again := h.ran(phase); again {
		return false, e.n, nil
	}
	_, tried := h.ran(try)
	_, done := h.ran(plain)
	switch {
	case phase == try && h.came(cancel), phase == confirm && h.came(cancel), phase == plain &&
		h.came(undo):
		return false, 0, barrier.ErrCancelled
	case phase == confirm && !tried:
		return false, 0, barrier.ErrNotTried
	case phase == cancel && !tried, phase == undo && !done:
		return false, 0, nil
	}
	return true, 0, nil
}

// play delivers a phase, compares the result with the model, and returns the model after that.
func (h history) play(p *participant, phase perdure.Phase, f fault) history {
	p.t.Helper()
	runs, n, wantErr := h.next(phase)
	if runs {
		n = int(p.next.Load()) + 1
		switch f {
		case fails:
			n, wantErr = 0, errNo
		case panics:
			n, wantErr = 0, errPanic
		}
	}
	got, err := p.deliver(phase, f)
	if got != n || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		p.t.Errorf("after %v, %s with fault %d gives %d, %v, want %d, %v", h, name(phase), f, got,
			err, n, wantErr)
	}
	if wantErr != nil || f == lost {
		return h
	}
	return append(h, event{phase, runs, n})
}

// agrees compares the ledger with the effects in the model.
func (h history) agrees(p *participant) {
	p.t.Helper()
	var want []entry
	_, confirmed := h.ran(confirm)
	for _, e := range h {
		if e.phase == cancel && confirmed {
			e.phase = back
		}
		if e.ran {
			want = append(want, entry{e.phase, e.n})
		}
	}
	p.tookEffect(want...)
}

// orders calls play with every sequence of that many phases.
func orders(of []perdure.Phase, length int, play func([]perdure.Phase)) {
	at := make([]perdure.Phase, length)
	var from func(int)
	from = func(i int) {
		if i == length {
			play(at)
			return
		}
		for _, phase := range of {
			at[i] = phase
			from(i + 1)
		}
	}
	from(0)
}

// spec: F-43
func TestEveryOrderOfDeliveriesIsAsTheModelSays(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		s := newStage(t)
		play := func(order []perdure.Phase) {
			p := s.participant(db)
			var h history
			for _, phase := range order {
				h = h.play(p, phase, none)
			}
			h.agrees(p)
		}
		orders([]perdure.Phase{try, confirm, cancel}, 4, play)
		orders([]perdure.Phase{plain, undo}, 4, play)
	})
}

// spec: F-43
func TestRandomOrdersWithFaultsAreAsTheModelSays(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		s := newStage(t)
		for range 100 {
			p := s.participant(db)
			var h history
			for range 15 {
				h = h.play(p, phases[random.IntN(len(phases))], fault(random.IntN(4)))
			}
			h.agrees(p)
		}
	})
}
