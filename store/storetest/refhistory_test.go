package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

func history(seed uint64) check {
	return check{run: func(w *world) { playLimits(w, seed, 120) }}
}

// spec, B-9
func TestARandomHistoryOfLimitsIsAsTheReferenceSays(t *testing.T) {
	seeds := uint64(25)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			history(seed).try(t, over(broken{})())
			history(seed).try(t, overMany(broken{})())
		})
	}
}

// spec: R-33
func TestTheReferenceGivesNoMoreThanTheBurstAndOneForEachEvery(t *testing.T) {
	random, m := rand.New(rand.NewPCG(1, 3)), reference{}
	var given []float64
	for run := range journal.Number(500) {
		m.now += float64(random.IntN(5)) // 2 on average: as the bucket fills
		c := store.Change{Run: run + 1, Asks: []store.Ask{
			{Slot: 1, Limit: "calls", Every: hours(2), Burst: 3},
		}}
		m.answer(&c)
		given = append(given, m.now+c.Asks[0].Wait.Hours())
		for i, from := range given {
			span, tokens := given[run]-from, float64(len(given)-i)
			if span < 0 || tokens > 3+span/2 {
				t.Fatalf("%v tokens in %v hours: %v", tokens, span, given)
			}
		}
	}
}

// spec, B-9
func TestRandomHistoriesOfLimitsCatchBrokenDrivers(t *testing.T) {
	const seeds = 5
	asks := func(f func(*store.Ask)) broken { return broken{commit: eachAsk(f)} }
	adjusts := func(f func(*store.Adjust)) broken { return broken{commit: eachAdjust(f)} }
	for name, b := range map[string]broken{
		"gives a slot too many": asks(func(a *store.Ask) {
			if a.Max > 0 {
				a.Max++
			}
		}),
		"has one key":                      asks(func(a *store.Ask) { a.Key = "" }),
		"knows no priority":                asks(func(a *store.Ask) { a.Priority = 0 }),
		"serves the lowest priority first": asks(func(a *store.Ask) { a.Priority *= -1 }),
		"knows no shares":                  asks(func(a *store.Ask) { a.Share = "" }),
		"knows no time of a start":         asks(func(a *store.Ask) { a.Came = time.Time{} }),
		"has larger buckets":               asks(func(a *store.Ask) { a.Burst++ }),
		"knows no revision of an ask":      asks(func(a *store.Ask) { a.Revision = 0 }),

		"changes nothing for who waits": adjusts(func(a *store.Adjust) { a.Limit = "?" }),
		"knows no revision of a change": adjusts(func(a *store.Adjust) { a.Revision += 100 }),
		"never begins to count runs": adjusts(func(a *store.Adjust) {
			a.Workflow, a.Slot = "", 0
		}),

		"never frees a slot":                 {commit: neverFrees},
		"keeps the slots of a run that ends": {commit: leaksAtTheEnd},
		"lets no run inherit slots":          {commit: inheritsNone},
		"frees the slots of a dead engine":   {claim: freesAtJoin},
		"counts from before a change":        {commit: changesEarly},
		"counts from the latest time":        {commit: neverBack()},
		"answers what is not asked":          {commit: answersAll},
		"tells nobody of grants":             {commit: silentGrants},
		"does not know Again":                {commit: neverAgain},
		"writes a part of what it refuses":   {commit: writesRefused},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				if f := history(seed).failures(t.Context(), over(b)()); len(f) > 0 {
					t.Logf("caught: %.300s", f[0])
					return
				}
			}
			t.Errorf("%d histories do not catch it", seeds)
		})
	}
}

// eachAdjust changes the changes of limits of a group before it is written.
func eachAdjust(change func(*store.Adjust)) func(store.Store, *store.Group) error {
	return func(s store.Store, g *store.Group) error {
		for i := range g.Changes {
			for j := range g.Changes[i].Adjusts {
				change(&g.Changes[i].Adjusts[j])
			}
		}
		return s.Commit(context.Background(), g)
	}
}

func isEnd(c store.Change) bool { return !c.Create && c.Head != nil && !c.Head.Ended.IsZero() }

// leaksAtTheEnd moves what a run has that ends to another one.
func leaksAtTheEnd(s store.Store, g *store.Group) error {
	info, _ := s.Info(context.Background()) // the store in memory does not fail
	told := *g
	for _, c := range g.Changes {
		if isEnd(c) && c.Head.Status != journal.ContinuedAsNew && !g.Again {
			n := c.Run + 1<<20
			head := *c.Head
			head.ID = journal.MakeRunID(info.Database, n)
			head.Number, head.Status, head.Ended, head.Last = n, journal.Running, time.Time{}, 1
			told.Changes = append(told.Changes, store.Change{Run: n, Create: true, From: c.Run,
				Head: &head, Entries: []journal.Entry{{Run: n, Seq: 1, Kind: journal.RunStarted}}})
		}
	}
	err := s.Commit(context.Background(), &told)
	copy(g.Changes, told.Changes)
	g.Grants = told.Grants
	return err
}

func inheritsNone(s store.Store, g *store.Group) error {
	for i, c := range g.Changes {
		if isEnd(c) {
			g.Changes[i].Frees = []int64{-1, -2, -3}
		}
	}
	return s.Commit(context.Background(), g)
}

func freesAtJoin(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	if _, isJoin := c.(store.Join); err != nil || !isJoin {
		return got, err
	}
	slots, err := s.(store.SlotReader).Slots(context.Background(), store.SlotQuery{})
	g := &store.Group{Engine: got.Engine, Now: at(0)}
	for _, x := range slots {
		g.Changes = append(g.Changes, store.Change{Run: x.Run, Frees: []int64{x.Slot}})
	}
	return got, errors.Join(err, s.Commit(context.Background(), g))
}

func changesEarly(s store.Store, g *store.Group) error {
	for _, c := range g.Changes {
		if len(c.Adjusts) > 0 {
			g.Now = g.Now.Add(-time.Hour)
		}
	}
	return s.Commit(context.Background(), g)
}

// neverBack has a clock of its own for groups, which is not put back.
func neverBack() func(store.Store, *store.Group) error {
	var latest time.Time
	return func(s store.Store, g *store.Group) error {
		if g.Now.Before(latest) {
			g.Now = latest
		}
		latest = g.Now
		return s.Commit(context.Background(), g)
	}
}

func writesRefused(s store.Store, g *store.Group) error {
	err := s.Commit(context.Background(), g)
	if data := new(store.DataError); errors.As(err, &data) {
		g.Changes = g.Changes[:len(g.Changes)-1]
		return errors.Join(err, s.Commit(context.Background(), g))
	}
	return err
}
