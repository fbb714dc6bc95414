package kernel

import (
	"context"
	"fmt"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An owing is a store that owes one end of each of its runs, by their numbers.
type owing struct {
	store.Store
	runs  int64
	asked func(after int64)
}

func (o owing) Claim(_ context.Context, c store.Claim) (out store.Claimed, err error) {
	o.asked(c.After)
	for n := c.After + 1; n <= o.runs && len(out.Owed) < c.Owed; n++ {
		h := journal.Head{Number: journal.Number(n), ID: journal.RunID(fmt.Sprint(n)), Workflow: "w", Status: journal.Completed}
		out.Owed = append(out.Owed, store.Owed{Number: n, Head: h, Entry: journal.Entry{Kind: journal.RunCompleted}})
		out.More = n < o.runs
	}
	return out, nil
}

// While a room is caught up on, an end that is further on finds no place in it: others have
// heard of that end just now. What lies between is read again then.
//
// spec: L-18
func TestCatchingUpPassesOverNothing(t *testing.T) {
	const runs = 3 * owedPage
	l := NewListener("w", nil, func(context.Context, End) error { return nil })
	var a *announcer
	o := owing{runs: runs, asked: func(after int64) {
		if after == owedPage {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.miss([]*Listener{l}, runs)
		}
	}}
	k := newKernel(o, Config{}, newShared())
	k.draining = true // nothing is told: what has a place keeps it
	k.add(&Workflow{Name: "w", Listeners: []*Listener{l}})
	a = newAnnouncer(k, t.Context(), t.Context())
	a.after = runs
	a.miss([]*Listener{l}, 1)
	a.catchUp(k.names())
	for n := range int64(runs) {
		if r := a.rooms[l]; !a.mine[n+1] && (r.behind == 0 || n+1 < r.behind) {
			t.Fatalf("number %d has no place, and the room is read again from %d on", n+1, r.behind)
		}
	}
}
