package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/observe"
)

// An engine has heard that a limit is gone, and loses its lease before it has told the store. It
// does so when it has joined again.
//
// spec: R-32, B-5
func TestAnEngineThatJoinsAgainCarriesOutTheSettingsThatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := works(&logbook{}, time.Hour)
		c := world.NewCluster(t, 0)
		defer c.End()
		a := c.Node(wf)
		u := unsteadily(a)
		a.Begin()
		client := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), c.DB.Beside()))
		one, op := 1, admin.New(client)
		world.NoError(t, op.SetLimit(t.Context(), "works", limit.Bounds{Concurrency: &one},
			admin.Note{}))
		time.Sleep(time.Minute)
		launched(t, a, wf, 3)
		pending := func() int {
			heads, _, err := client.List(t.Context(), perdure.Query{
				Statuses: []journal.Status{journal.Pending},
			})
			world.NoError(t, err)
			return len(heads)
		}
		if n := pending(); n != 2 {
			t.Fatalf("%d runs wait, want 2", n)
		}
		u.mu.Lock()
		u.fails = "commit"
		u.mu.Unlock()
		world.NoError(t, op.ResetLimit(t.Context(), "works", admin.Note{}))
		time.Sleep(time.Minute) // it hears of that
		u.set(false, true)
		time.Sleep(2 * world.Lease)
		u.mu.Lock()
		u.fails = ""
		u.mu.Unlock()
		u.set(false, false)
		time.Sleep(time.Minute)
		if n := pending(); n != 0 || len(a.Seen(observe.LeaseRegained)) != 1 {
			t.Errorf("%d runs wait, and the engine has joined again %d times", n,
				len(a.Seen(observe.LeaseRegained)))
		}
	})
}
