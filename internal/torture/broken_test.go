//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A wrongStore makes one mistake now and then, as a kernel or a driver could: one time of so many
// in which it could make it.
type wrongStore struct {
	store.Store
	every  int64
	times  *atomic.Int64
	commit func(w *wrongStore, g *store.Group) error
	claim  func(w *wrongStore, c store.Claim) (store.Claimed, error)
}

// now reports whether it is time for the mistake.
func (w *wrongStore) now() bool {
	return w.times.Add(1)%w.every == 0
}

func (w *wrongStore) Commit(ctx context.Context, g *store.Group) error {
	if w.commit == nil {
		return w.Store.Commit(ctx, g)
	}
	return w.commit(w, g)
}

func (w *wrongStore) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if w.claim == nil {
		return w.Store.Claim(ctx, c)
	}
	return w.claim(w, c)
}

// Slots reads the slots of the store behind it.
func (w *wrongStore) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	return w.Store.(store.SlotReader).Slots(ctx, q)
}

// The judge finds mistakes of a store: with each of these it does within a few seeds. Without a
// mistake it finds nothing.
//
// spec: B-27
func TestTortureCatchesWhatIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	const enough = 10
	for name, c := range map[string]struct {
		wrong wrongStore
		rival bool // another engine runs beside
		catch bool // the judge is to find something
	}{
		"nothing":                   {wrongStore{every: 1}, false, false},
		"nothing, with two engines": {wrongStore{every: 1}, true, false},
		"nothing, but later":        {wrongStore{every: 1, commit: late}, false, false},
		"a signal is lost":          {wrongStore{every: 5, commit: losesSignals}, false, true},
		"the end of a run is lost":  {wrongStore{every: 2, commit: losesEnds}, false, true},
		"a message comes twice":     {wrongStore{every: 3, commit: postsTwice}, false, true},
		"a group is written twice":  {wrongStore{every: 20, commit: writesTwice}, false, true},
		"a result is lost":          {wrongStore{every: 20, commit: forgets}, false, true},
		"a run is unloaded anyway":  {wrongStore{every: 1, commit: unloads}, false, true},
		"a claim forgets the inbox": {wrongStore{every: 1, claim: forgetsInbox}, false, true},
		"a run is given to engines": {wrongStore{every: 2, claim: givesAgain}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			count := uint64(enough)
			if !c.catch {
				count = 1
			}
			for seed := range count {
				bad := tortureWrong(t, seed, c.wrong, c.rival)
				if len(bad) > 0 {
					t.Logf("seed %d: %.150q and %d more", seed, bad[0], len(bad)-1)
				}
				switch {
				case len(bad) == 0:
				case c.catch:
					return
				default:
					t.Errorf("%q", bad)
				}
			}
			if c.catch {
				t.Errorf("%d seeds found nothing wrong", enough)
			}
		})
	}
}

// tortureWrong returns what the judge finds in the programs of a seed on a store that makes a
// mistake. An engine that never ends what it has begun, so that the bubble cannot end, counts, too.
func tortureWrong(t *testing.T, seed uint64, wrong wrongStore, rival bool) (bad []string) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case strings.Contains(fmt.Sprint(p), "blocked goroutines remain"):
			bad = append(bad, fmt.Sprint(p))
		default:
			panic(p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		var programs []*program.Program
		for i := range uint64(6) {
			programs = append(programs, program.Generate(seed*100+i, program.Limits{Avoid: unreal}))
		}
		l, stop := inMemory(t), func() {}
		if wrong.commit != nil || wrong.claim != nil {
			l.patience = time.Minute // some programs never end
		}
		open := l.open
		if rival {
			open, stop = withRival(t, l, wrong)
		}
		l.open = func() store.Store { return wrong.on(open()) }
		bad = l.torture(seed, programs, 4, 200*time.Millisecond)
		stop()
	})
	return bad
}

// on returns a store that makes the mistake on another one.
func (w wrongStore) on(s store.Store) store.Store {
	w.Store, w.times = s, new(atomic.Int64)
	return &w
}

// withRival runs another engine beside that of the lab until stop is called. Both have the store
// that open opens.
func withRival(t *testing.T, l *lab, wrong wrongStore) (open func() store.Store, stop func()) {
	db := memory.NewShared(time.Second)
	open = func() store.Store {
		db = db.Reopen()
		return db
	}
	env := l.play()
	if err := registered(); err != nil {
		t.Fatal(err)
	}
	eng, err := perdure.New(wrong.on(db.Beside()), perdure.Options{
		Build: "lab", IdleTimeout: -1, Drain: -1, Sweep: time.Second, Publisher: moody(),
		Interceptor: play.Around,
	})
	if err == nil {
		err = eng.Register(env.Definitions()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	env.Use(eng)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	return open, func() { cancel(); <-done }
}

// lose commits a group without the posts that are to be lost, and reports that they are delivered.
func lose(w *wrongStore, g *store.Group, which func(store.Post) bool) error {
	own := make([][]store.Post, len(g.Changes))
	kept := make([][]int, len(g.Changes))
	for i := range g.Changes {
		c := &g.Changes[i]
		own[i], c.Posts = c.Posts, nil
		for k, p := range own[i] {
			if which(p) && w.now() {
				own[i][k].Verdict = store.Delivered
				continue
			}
			c.Posts, kept[i] = append(c.Posts, p), append(kept[i], k)
		}
	}
	err := w.Store.Commit(context.Background(), g)
	for i := range g.Changes {
		for n, k := range kept[i] {
			own[i][k] = g.Changes[i].Posts[n]
		}
		g.Changes[i].Posts = own[i]
	}
	return err
}

const alerts = "perdure.alert"

func losesSignals(w *wrongStore, g *store.Group) error {
	return lose(w, g, func(p store.Post) bool {
		return p.Message.Kind == journal.SignalReceived && p.Message.Op.Name != alerts
	})
}

func losesEnds(w *wrongStore, g *store.Group) error {
	return lose(w, g, func(p store.Post) bool { return p.Message.Op.Name == alerts })
}

// postsTwice posts a message once more after the group, as if it were another one.
func postsTwice(w *wrongStore, g *store.Group) error {
	var more []store.Post
	for _, c := range g.Changes {
		for _, p := range c.Posts {
			if p.Message.Kind == journal.SignalReceived && w.now() {
				if p.Message.Detail != nil {
					d := *p.Message.Detail
					d.Message, p.Message.Detail = "", &d
				}
				more = append(more, p)
			}
		}
	}
	err := w.Store.Commit(context.Background(), g)
	if len(more) > 0 && err == nil {
		again := *g
		again.Changes, again.Again = []store.Change{{Posts: more}}, false
		_ = w.Store.Commit(context.Background(), &again)
	}
	return err
}

// writesTwice loses the answer of a commit, and does not know the group when it comes again.
func writesTwice(w *wrongStore, g *store.Group) error {
	g.Again = false
	err := w.Store.Commit(context.Background(), g)
	if err == nil && w.now() {
		return storetest.ErrInjected
	}
	return err
}

// forgets writes a wait in the place of the result of a step.
func forgets(w *wrongStore, g *store.Group) error {
	for i := range g.Changes {
		entries := append([]journal.Entry(nil), g.Changes[i].Entries...)
		for k := range entries {
			e := &entries[k]
			if e.Kind == journal.StepCompleted && w.now() {
				e.Kind, e.Op, e.Data, e.Detail = journal.StatusChanged, journal.Op{}, nil, nil
				e.Took = 0
			}
		}
		g.Changes[i].Entries = entries
	}
	return w.Store.Commit(context.Background(), g)
}

// late commits as it should, and takes a while for it.
func late(w *wrongStore, g *store.Group) error {
	s := slow{w.Store, 5 * time.Millisecond, new(atomic.Int64)}
	return s.Commit(context.Background(), g)
}

// unloads lets a run leave memory whatever it was sent meanwhile. It is late, so that a message and
// the leaving of its run meet often.
func unloads(w *wrongStore, g *store.Group) error {
	was := make([]bool, len(g.Changes))
	for i := range g.Changes {
		was[i], g.Changes[i].Unload = g.Changes[i].Unload, false
	}
	err := late(w, g)
	for i := range g.Changes {
		g.Changes[i].Unload = was[i]
	}
	return err
}

func forgetsInbox(w *wrongStore, c store.Claim) (store.Claimed, error) {
	got, err := w.Store.Claim(context.Background(), c)
	for i := range got.Runs {
		got.Runs[i].Inbox = nil
	}
	return got, err
}

// givesAgain lets an engine have a run that the other one has.
func givesAgain(w *wrongStore, c store.Claim) (store.Claimed, error) {
	got, err := w.Store.Claim(context.Background(), c)
	due, is := c.(store.TakeDue)
	if !is || due.Max == 0 || err != nil || len(got.Runs) > 0 || !w.now() {
		return got, err
	}
	heads, _, err := w.Find(context.Background(), store.Filter{Open: true})
	for _, h := range heads {
		if h.Owner == 0 || h.Owner == due.Engine || strings.HasPrefix(h.Workflow, "perdure.") {
			continue
		}
		entries, err := w.Load(context.Background(), h.Number, store.Range{})
		if err != nil {
			return got, err
		}
		h.Owner = due.Engine
		got.Runs = []store.Run{{Head: h, Entries: entries, Last: int64(len(entries))}}
		break
	}
	return got, err
}
