package operators_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// elsewhere returns a client as a process without an engine has it.
func elsewhere(t *testing.T, s store.Store) *admin.Client {
	t.Helper()
	return admin.New(world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), s)))
}

// A held store does not answer claims of some kind while it holds them.
type held struct {
	holds   atomic.Bool
	release chan struct{}
}

// hook returns the hook of a store that holds the claims that are such.
func (h *held) hook(such func(store.Claim) bool) *world.Hook {
	h.release = make(chan struct{})
	return &world.Hook{OnClaim: func(c store.Claim,
		do func() (store.Claimed, error)) (store.Claimed, error) {
		if h.holds.Load() && such(c) {
			<-h.release
		}
		return do()
	}}
}

func isRenewal(c store.Claim) bool { _, is := c.(store.Renew); return is }

func isLook(c store.Claim) bool { _, is := c.(store.TakeDue); return is }

// Without leases an engine says a second after its start, and then every minute, when its loops had
// their latest turns.
//
// spec: R-35
func TestAnotherProcessSeesTheLatestTurnsOfTheLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{Sweep: 25 * time.Second})
		defer func() { w.End() }()
		other := elsewhere(t, w.DB)
		time.Sleep(500 * time.Millisecond)
		if c := check(t, other, "loops"); c.Evidence != "none has stopped; engine 1 was heard of "+
			"500ms ago" {
			t.Errorf("before the first renewal: %s", c.Evidence)
		}
		time.Sleep(time.Second)
		is(t, check(t, other, "loops"), admin.Healthy, "none has stopped; engine 1 was heard of "+
			"500ms ago: claims 1.5s ago, outbox 1.5s ago, watch 1.5s ago, retention 1.5s ago, "+
			"renewal 500ms ago")
		time.Sleep(89 * time.Second)
		is(t, check(t, other, "loops"), admin.Healthy, "engine 1 was heard of 29.5s ago: claims "+
			"40.5s ago, outbox 1m30.5s ago, watch 1m30.5s ago, retention 1m30.5s ago, "+
			"renewal 29.5s ago")
		is(t, check(t, admin.New(w.Engine), "loops"), admin.Healthy, "engine 1 was heard of "+
			"29.5s ago: claims 15.5s ago, outbox 1m30.5s ago, watch 1m30.5s ago, "+
			"retention 1m30.5s ago, renewal 29.5s ago")
		for _, a := range []*admin.Client{other, admin.New(w.Engine)} {
			all := world.Must[[]admin.Loop](t)(a.Loops(t.Context()))
			if len(all) != 5 || all[0].Name != "claims" || all[0].Stopped || all[0].Hangs ||
				all[0].Every != 25*time.Second {
				t.Errorf("loops %+v", all)
			}
		}
	})
}

// A loop hangs by the same words in the process of the engine and in another one.
//
// spec: R-35
func TestALoopThatHangsIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h held
		w := world.Hooked(t, h.hook(isLook), perdure.Options{})
		defer func() { w.End() }()
		here, other := admin.New(w.Engine), elsewhere(t, w.DB)
		time.Sleep(time.Minute)
		for _, a := range []*admin.Client{here, other} {
			is(t, check(t, a, "loops"), admin.Healthy, "claims")
		}
		h.holds.Store(true)
		time.Sleep(10 * time.Minute)
		for _, a := range []*admin.Client{here, other} {
			c := check(t, a, "loops")
			is(t, c, admin.Failing, " ago hangs: restart the program")
			if c.Count != 1 || !slices.Equal(c.IDs, []string{"1:claims"}) {
				t.Errorf("it finds %d: %q", c.Count, c.IDs)
			}
		}
		close(h.release)
	})
}

// An engine that says nothing any more hangs. What it said last about its other loops was good.
//
// spec: R-35
func TestAnEngineThatRenewsNoMoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h held
		w := world.Hooked(t, h.hook(isRenewal), perdure.Options{})
		defer func() { w.End() }()
		other := elsewhere(t, w.DB)
		time.Sleep(time.Second)
		synctest.Wait()
		h.holds.Store(true)
		time.Sleep(4 * time.Minute)
		is(t, check(t, other, "loops"), admin.Healthy, "renewal 4m0s ago")
		time.Sleep(time.Second)
		c := check(t, other, "loops")
		is(t, c, admin.Failing, "renewal 4m1s ago hangs: restart the program")
		if !slices.Equal(c.IDs, []string{"1:renewal"}) {
			t.Errorf("it finds %q", c.IDs)
		}
		close(h.release)
	})
}

// A store on another host has another time.
type elsewhen struct{ store.Store }

func (s elsewhen) Info(ctx context.Context) (store.Info, error) {
	const off = -5 * time.Hour
	info, err := s.Store.Info(ctx)
	info.Now = info.Now.Add(off)
	for i := range info.Engines {
		e := &info.Engines[i]
		e.Seen, e.Until = e.Seen.Add(off), e.Until.Add(off)
	}
	return info, err
}

// An engine whose lease is long says seldom that it goes on. None of its loops hangs by that,
// whatever the clock of the store is.
//
// spec: R-35
func TestAnEngineThatRenewsSeldomDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.NewShared(3 * time.Minute)
		w := &world.World{T: t, DB: db.Beside(), Options: perdure.Options{Sweep: time.Second}}
		w.Begin()
		defer func() { w.End() }()
		other, oldest := elsewhere(t, elsewhen{db}), ""
		for range 40 {
			time.Sleep(15 * time.Second)
			c := check(t, other, "loops")
			is(t, c, admin.Healthy, "engine 1 was heard of ")
			if strings.Contains(c.Evidence, "claims 5m") {
				oldest = c.Evidence
			}
		}
		if oldest == "" {
			t.Error("no renewal was 5 minutes old")
		}
	})
}

// Most loops of an engine are over when it drains, which may take long.
//
// spec: R-35
func TestTheLoopsOfAnEngineThatDrainsDoNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := perdure.Define("slow", func(ctx context.Context, d time.Duration) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(d) // it does not heed its context
				return 0, nil
			})
		})
		w := world.With(t, perdure.Options{Drain: time.Hour, Sweep: time.Second}, slow)
		world.Start(w, slow, 30*time.Minute, perdure.ID("s"))
		time.Sleep(time.Minute)
		here, other := admin.New(w.Engine), elsewhere(t, w.DB)
		go w.End()
		time.Sleep(20 * time.Minute)
		for _, a := range []*admin.Client{here, other} {
			c := check(t, a, "loops")
			is(t, c, admin.Healthy, "renewal ")
			if strings.Contains(c.Evidence, "claims") {
				t.Error(c.Evidence)
			}
		}
		time.Sleep(time.Hour)
	})
}

// Without leases and without sweeps nothing else uses the store: nobody is told.
//
// spec: R-35
func TestAnEngineAloneRenewsNothing(t *testing.T) {
	for sweep, want := range map[time.Duration]int64{-1: 0, 0: 60} {
		synctest.Test(t, func(t *testing.T) {
			var renewals atomic.Int64
			w := world.Hooked(t, &world.Hook{OnClaim: func(c store.Claim,
				do func() (store.Claimed, error)) (store.Claimed, error) {
				if isRenewal(c) {
					renewals.Add(1)
				}
				return do()
			}}, perdure.Options{Sweep: sweep})
			defer func() { w.End() }()
			time.Sleep(time.Hour)
			if n := renewals.Load(); n != want {
				t.Errorf("sweep %v: %d renewals in an hour, want %d", sweep, n, want)
			}
		})
	}
}
