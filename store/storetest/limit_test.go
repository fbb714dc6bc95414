package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure/store"
)

// The following drivers are wrong about limits.

// eachAsk changes the asks of a group before it is written.
func eachAsk(change func(*store.Ask)) func(store.Store, *store.Group) error {
	return func(s store.Store, g *store.Group) error {
		for i := range g.Changes {
			for j := range g.Changes[i].Asks {
				change(&g.Changes[i].Asks[j])
			}
		}
		return s.Commit(context.Background(), g)
	}
}

func neverFrees(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		g.Changes[i].Frees = nil
	}
	return s.Commit(context.Background(), g)
}

func alwaysAdjusts(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		for j := range g.Changes[i].Adjusts {
			g.Changes[i].Adjusts[j].Revision += 100
		}
	}
	return s.Commit(context.Background(), g)
}

func answersAll(s store.Store, g *store.Group) error {
	err := s.Commit(context.Background(), g)
	for i := range g.Changes {
		for j := range g.Changes[i].Asks {
			if a := &g.Changes[i].Asks[j]; a.Answer == store.NotAnswered {
				a.Answer = store.Granted
			}
		}
	}
	return err
}

func silentGrants(s store.Store, g *store.Group) error {
	err := s.Commit(context.Background(), g)
	g.Grants = 0
	return err
}

// spec
func TestSuiteFailsDriversThatAreWrongAboutLimits(t *testing.T) {
	for name, c := range map[string]struct {
		commit func(store.Store, *store.Group) error
		check  string
	}{
		"gives as many slots as are asked for": {
			eachAsk(func(a *store.Ask) { a.Max = 0 }),
			"limit/there are Max slots for each name and key, and who comes later waits",
		},
		"has one key": {
			eachAsk(func(a *store.Ask) { a.Key = "" }),
			"limit/there are Max slots for each name and key, and who comes later waits",
		},
		"knows no priority": {
			eachAsk(func(a *store.Ask) { a.Priority = 0 }),
			"limit/who waits is in order of priority, then by shares in turn",
		},
		"knows no time of a start": {
			eachAsk(func(a *store.Ask) { a.Came = time.Time{} }),
			"limit/who came first of a share is before those who asked first",
		},
		"knows no shares": {
			eachAsk(func(a *store.Ask) { a.Share = "" }),
			"limit/who waits is in order of priority, then by shares in turn",
		},
		"has larger buckets": {
			eachAsk(func(a *store.Ask) {
				if a.Burst > 0 {
					a.Burst++
				}
			}),
			"limit/a token is given for a time, in order",
		},
		"fills buckets sooner": {
			eachAsk(func(a *store.Ask) { a.Every /= 2 }),
			"limit/a token is given for a time, in order",
		},
		"does not know the revision of an ask": {
			eachAsk(func(a *store.Ask) { a.Revision = 0 }),
			"limit/numbers of an older revision do not count, and the same ones give no token anew",
		},
		"does not know the revision of a change": {
			alwaysAdjusts,
			"limit/numbers of an older revision do not count, and the same ones give no token anew",
		},
		"never frees a slot": {
			neverFrees, "limit/a slot that is freed goes to the first in line, who is told",
		},
		"tells nobody of grants": {
			silentGrants, "limit/a slot that is freed goes to the first in line, who is told",
		},
		"answers what is not asked": {
			answersAll, "limit/after an ask for the run that is not granted no other is answered",
		},
		"does not know Again": {
			neverAgain, "limit/a group that is sent again changes no limit twice",
		},
	} {
		if !Catches(t, c.check, 1, over(broken{commit: c.commit})) {
			t.Errorf("%q does not fail a driver that %s", c.check, name)
		}
	}
}

// Slots is [store.SlotReader.Slots].
func (b broken) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	return b.Store.(store.SlotReader).Slots(ctx, q)
}
