package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// The following drivers are wrong for several engines.

// TestSuiteFailsDriversThatDoLeasesWrong is like TestSuiteFailsBrokenDrivers, on a store with
// leases.
func TestSuiteFailsDriversThatDoLeasesWrong(t *testing.T) {
	var last sync.Map // the runs that the last claim returned
	for name, c := range map[string]struct {
		driver broken
		check  string
	}{
		"has no fence": {
			broken{commit: fencesNobody},
			"among/nothing of an engine appears after its take-over",
		},
		"has no fence, as an engine sees": {
			broken{commit: fencesNobody},
			"takeover/the engine that was taken over is fenced from everything",
		},
		"takes over who lives": {
			broken{claim: takesOverTheLiving},
			"lease/a living engine is not taken over",
		},
		"fences by the clock": {
			broken{commit: fencesByClock},
			"lease/an engine whose lease has passed renews it where nobody took over",
		},
		"takes nobody over": {
			broken{claim: takesNobodyOver},
			"takeover/a renewal makes a dead engine's runs due now and nobody's",
		},
		"counts no mail": {
			broken{commit: alwaysUnloads},
			"lease/a run that another engine has posted to is not unloaded",
		},
		"strands those who race": {
			broken{commit: alwaysUnloads},
			"among/between posts of other engines and unloads no message is stranded",
		},
		"gives runs again": {
			broken{claim: givesAgain(&last)},
			"among/claims of several engines never give one run to two",
		},
		"terminates what another engine has": {
			broken{claim: keepsNoneOf},
			"lease/a run that is to be terminated comes to another engine if none has its workflow",
		},
		"gives everybody the outbox": {
			broken{claim: sharesOutbox},
			"lease/what an engine is to tell no other engine gets",
		},
		"does not lock workflow IDs": {
			broken{commit: neverNow},
			"among/between starts and signals of one workflow ID no signal is stranded",
		},
		"gives no mail": {
			broken{claim: noMail},
			"lease/a message to another engine's run comes with its claim, once",
		},
	} {
		t.Run(name, func(t *testing.T) {
			names := failures(t, overMany(c.driver))
			if !strings.Contains(strings.Join(names, "\n"), c.check) {
				t.Errorf("%q passes; what fails is %q", c.check, names)
			}
		})
	}
}

// others returns the engines that have a row, except for one engine.
func others(s store.Store, self journal.EngineID) []journal.EngineID {
	var ids []journal.EngineID
	info, _ := s.Info(context.Background())
	for _, e := range info.Engines {
		if e.ID != self {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// fencesNobody writes the groups of an engine that was taken over, in the name of another
// engine.
func fencesNobody(s store.Store, g *store.Group) error {
	err := s.Commit(context.Background(), g)
	if ids := others(s, g.Engine); errors.Is(err, store.ErrFenced) && len(ids) > 0 {
		other := *g
		other.Engine = ids[0]
		return s.Commit(context.Background(), &other)
	}
	return err
}

func takesOverTheLiving(s store.Store, c store.Claim) (store.Claimed, error) {
	var living []journal.EngineID
	switch c := c.(type) {
	case store.Join:
		living = others(s, 0)
	case store.Renew:
		living = others(s, c.Engine)
	}
	for _, id := range living {
		if err := s.(*memory.Store).Lapse(id); err != nil {
			return store.Claimed{}, err
		}
	}
	return s.Claim(context.Background(), c)
}

// fencesByClock refuses an engine that has not renewed its lease, although no engine has
// taken it over.
func fencesByClock(s store.Store, g *store.Group) error {
	info, err := s.Info(context.Background())
	if err != nil {
		return err
	}
	for _, e := range info.Engines {
		if e.ID == g.Engine && e.Expired {
			return store.ErrFenced
		}
	}
	return s.Commit(context.Background(), g)
}

// takesNobodyOver renews the leases of expired engines.
func takesNobodyOver(s store.Store, c store.Claim) (store.Claimed, error) {
	if renew, ok := c.(store.Renew); ok {
		for _, id := range others(s, renew.Engine) {
			if _, err := s.Claim(context.Background(), store.Renew{
				Engine: id, Now: renew.Now,
			}); err != nil {
				return store.Claimed{}, err
			}
		}
	}
	return s.Claim(context.Background(), c)
}

// givesAgain also returns the runs of the last claim with the next claim.
func givesAgain(last *sync.Map) func(s store.Store, c store.Claim) (store.Claimed, error) {
	return func(s store.Store, c store.Claim) (store.Claimed, error) {
		got, err := s.Claim(context.Background(), c)
		if due, ok := c.(store.TakeDue); !ok || due.Max == 0 {
			return got, err
		}
		before, _ := last.Swap("runs", got.Runs)
		if runs, _ := before.([]store.Run); len(runs) > 0 {
			got.Runs = append(got.Runs[:len(got.Runs):len(got.Runs)], runs...)
		}
		return got, err
	}
}

// sharesOutbox returns outbox entries of one engine to another engine.
func sharesOutbox(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	take, ok := c.(store.TakeOutbox)
	if !ok || err != nil {
		return got, err
	}
	for _, id := range others(s, take.Engine) {
		take.Engine = id
		more, err := s.Claim(context.Background(), take)
		got.Outbox = append(got.Outbox, more.Outbox...)
		if err != nil {
			return got, err
		}
	}
	return got, nil
}
