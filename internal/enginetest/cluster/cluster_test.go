package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A logbook notes when and where each execution of a step began, and how its context
// ended.
type logbook struct {
	mu    sync.Mutex
	began map[string][]time.Time
	ended map[string][]error
}

func (l *logbook) note(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began == nil {
		l.began, l.ended = map[string][]time.Time{}, map[string][]error{}
	}
	l.began[key] = append(l.began[key], time.Now())
}

func (l *logbook) cut(key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[key] = append(l.ended[key], err)
}

func (l *logbook) ends(key string) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[key]
}

func (l *logbook) times(key string) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.began[key]
}

// works returns a workflow with a quick step and one that takes that long, or until its context
// ends, which the logbook notes.
func works(l *logbook, takes time.Duration) *perdure.Workflow[int, int] {
	return perdure.Define("works", func(ctx context.Context, n int) (int, error) {
		quick, err := perdure.Step(ctx, "quick", func(context.Context) (int, error) {
			l.note(fmt.Sprint("quick ", n))
			return n, nil
		})
		if err != nil {
			return 0, err
		}
		long, err := perdure.Step(ctx, "long", func(ctx context.Context) (int, error) {
			key := fmt.Sprint("long ", n)
			l.note(key)
			select {
			case <-time.After(takes):
				return 1, nil
			case <-ctx.Done():
				l.cut(key, context.Cause(ctx))
				return 0, ctx.Err()
			}
		})
		return quick + long, err
	})
}

// launched starts runs 1 to n of a workflow on a node and waits until they are in their long steps.
func launched(
	t *testing.T, w *world.World, wf *perdure.Workflow[int, int], n int,
) []*perdure.Run[int] {
	t.Helper()
	var runs []*perdure.Run[int]
	for i := range n {
		run, err := wf.Start(t.Context(), w.Engine, i+1, perdure.ID(fmt.Sprint("run-", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	synctest.Wait()
	return runs
}

// outputs waits for runs on that engine, and demands that the result of run i is i + 1.
func outputs(t *testing.T, w *world.World, runs []*perdure.Run[int]) {
	t.Helper()
	for i := range runs {
		id := fmt.Sprint("run-", i+1)
		run, err := w.Engine.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(t.Context()); err != nil || string(out) != fmt.Sprint(i+2) {
			t.Errorf("%s gives %s, %v", id, out, err)
		}
		w.History(id)
	}
}

// spec: B-5, P-5
func TestRunsOfAKilledEngineGoOnElsewhereWithinTheLeaseAndASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 30
		l := &logbook{}
		wf := works(l, time.Minute)
		c := world.NewCluster(t, 2, wf)
		defer c.End()
		a, b := c.Nodes[0], c.Nodes[1]
		time.Sleep(7 * time.Second)
		runs := launched(t, a, wf, n)
		time.Sleep(4 * time.Second)
		c.Kill(a)
		killed := time.Now()
		outputs(t, b, runs)
		for i := range n {
			quick, long := l.times(fmt.Sprint("quick ", i+1)), l.times(fmt.Sprint("long ", i+1))
			if len(quick) != 1 || len(long) != 2 {
				t.Fatalf("the quick step was executed %d times, the long one %d times", len(quick),
					len(long))
			}
			if after := long[1].Sub(killed); after > world.Lease+time.Second {
				t.Errorf("the run went on %v after the engine was killed", after)
			}
		}
		if n := b.Seen(observe.EngineExpired); len(n) != 1 || n[0].Rows != 30 {
			t.Errorf("the other engine said of the take-over %+v", n)
		}
	})
}

// spec: B-5, P-8
func TestARunOfADeadEngineSaysWhoHasItAndUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := works(&logbook{}, time.Minute)
		c := world.NewCluster(t, 2, wf)
		defer c.End()
		a, b := c.Nodes[0], c.Nodes[1]
		client, err := perdure.NewClient(t.Context(), c.DB.Beside())
		if err != nil {
			t.Fatal(err)
		}
		launched(t, a, wf, 1)
		var owner journal.EngineID
		for range 8 { // while its engine lives, over some renewals of its lease
			time.Sleep(time.Second)
			d, err := client.Describe(t.Context(), "run-1")
			if err != nil || d.Why != "" {
				t.Error(d.Why, err)
			}
			owner = d.Head.Owner
		}
		c.Kill(a)
		time.Sleep(6 * time.Second)
		want := fmt.Sprintf("engine %d, which has it, was last heard of at 2000-01-01T00:00:06Z: "+
			"if it has died, another engine takes the run up when its lease ends, at "+
			"2000-01-01T00:00:16Z", owner)
		for _, caller := range []interface {
			Describe(ctx context.Context, id string) (perdure.Description, error)
		}{client, b.Engine} {
			if d, err := caller.Describe(t.Context(), "run-1"); err != nil || d.Why != want {
				t.Errorf("why: %q, %v, want %q", d.Why, err, want)
			}
		}
		time.Sleep(world.Lease)
		if d, err := client.Describe(t.Context(), "run-1"); err != nil || d.Why != "" {
			t.Error(d.Why, err)
		}
	})
}

// spec: B-7
func TestARunWhoseEngineDiedDoesNotShowItsOldWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("caller", func(ctx context.Context, _ int) (string, error) {
			return perdure.NewSignal[string]("go").Wait(ctx)
		})
		c := world.NewCluster(t, 1, wf)
		defer c.End()
		client, err := perdure.NewClient(t.Context(), c.DB.Beside())
		if err != nil {
			t.Fatal(err)
		}
		node := c.Node(wf)
		node.Options.IdleTimeout = time.Hour
		node.Begin()
		if _, err := wf.Start(t.Context(), node.Engine, 1, perdure.ID("r")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		c.Kill(node)
		time.Sleep(8 * time.Second)
		d, err := client.Describe(t.Context(), "r")
		if err != nil || !strings.Contains(d.Why, "was last heard of at") {
			t.Errorf("owner %d, why: %q, %v", d.Head.Owner, d.Why, err)
		}
	})
}

// spec: B-5, P-5
func TestWhatRestsIsOnTimeWhenTheEngineThatPutItToRestIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("sleeper", func(ctx context.Context, d int) (int, error) {
			return 1, perdure.Sleep(ctx, time.Duration(d)*time.Second)
		})
		c := world.NewCluster(t, 2, wf)
		defer c.End()
		a, b := c.Nodes[0], c.Nodes[1]
		began := time.Now()
		if _, err := wf.Start(t.Context(), a.Engine, 25, perdure.ID("s")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.Kill(a)
		run, err := b.Engine.Get(t.Context(), "s")
		if err == nil {
			_, err = run.Result(t.Context())
		}
		if late := time.Since(began) - 25*time.Second; err != nil || late < 0 ||
			late > 200*time.Millisecond {
			t.Errorf("it ended %v late: %v", late, err)
		}
	})
}

// spec: B-5, P-1
func TestAStopHandsRunsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logbook{}
		wf := works(l, time.Hour)
		c := world.NewCluster(t, 0)
		defer c.End()
		a, b := c.Node(wf), c.Node(wf)
		a.Options.Drain = -1
		a.Begin()
		b.Begin()
		runs := launched(t, a, wf, 10)
		time.Sleep(time.Minute)
		stopped := time.Now()
		c.Stop(a)
		outputs(t, b, runs)
		for i := range runs {
			if long := l.times(fmt.Sprint("long ", i+1)); len(long) != 2 ||
				long[1].Sub(stopped) > 200*time.Millisecond {
				t.Errorf("the long step began %v, the engine was stopped at %v", long, stopped)
			}
		}
	})
}

// An unsteady store delays all calls while it hangs, and fails them while it is down.
type unsteady struct {
	*memory.Store

	mu    sync.Mutex
	hangs chan struct{} // closed when it goes on; nil while it does not hang
	down  bool
	fails string // the kind of call that fails
	calls map[string]int
}

func (u *unsteady) set(hangs, down bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hangs != nil {
		close(u.hangs)
		u.hangs = nil
	}
	if u.down = down; hangs {
		u.hangs = make(chan struct{})
	}
}

// call counts a call and makes it. A delayed call is made when the store goes on.
func (u *unsteady) call(what string, do func() error) error {
	u.mu.Lock()
	if u.calls == nil {
		u.calls = map[string]int{}
	}
	u.calls[what]++
	hangs, down := u.hangs, u.down || u.fails == what
	u.mu.Unlock()
	switch {
	case hangs != nil:
		<-hangs
	case down:
		return storetest.ErrInjected
	}
	return do()
}

// count returns the number of calls, except those of one kind.
func (u *unsteady) count(but string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for what, calls := range u.calls {
		if what != but {
			n += calls
		}
	}
	return n
}

func (u *unsteady) Commit(ctx context.Context, g *store.Group) error {
	return u.call("commit", func() error { return u.Store.Commit(ctx, g) })
}

func (u *unsteady) Claim(ctx context.Context, c store.Claim) (got store.Claimed, err error) {
	what := "claim"
	if _, renews := c.(store.Renew); renews {
		what = "renew"
	}
	err = u.call(what, func() error {
		got, err = u.Store.Claim(ctx, c)
		return err
	})
	return got, err
}

func (u *unsteady) Load(ctx context.Context, run journal.Number,
	r store.Range) (entries []journal.Entry, err error) {
	err = u.call("load", func() error {
		entries, err = u.Store.Load(ctx, run, r)
		return err
	})
	return entries, err
}

func (u *unsteady) Find(ctx context.Context, f store.Filter) (heads []journal.Head,
	next journal.Cursor, err error) {
	err = u.call("find", func() error {
		heads, next, err = u.Store.Find(ctx, f)
		return err
	})
	return heads, next, err
}

func (u *unsteady) Info(ctx context.Context) (info store.Info, err error) {
	err = u.call("info", func() error {
		info, err = u.Store.Info(ctx)
		return err
	})
	return info, err
}

// unsteadily puts an unsteady store under a node that has not begun.
func unsteadily(w *world.World) *unsteady {
	u := &unsteady{Store: w.DB}
	w.Wrap = func(store.Store) store.Store { return u }
	return u
}

// spec: B-5, R-13
func TestAnEngineThatWasHeldUpForLongerThanItsLeaseIsFencedAndJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		l := &logbook{}
		wf := works(l, time.Minute)
		c := world.NewCluster(t, 0)
		defer c.End()
		a, b := c.Node(wf), c.Node(wf)
		u := unsteadily(a)
		a.Options.Sweep = time.Second // it is held up in a claim, too
		a.Begin()
		b.Begin()
		runs := launched(t, a, wf, n)
		time.Sleep(4 * time.Second)
		u.set(true, false)
		held := time.Now()
		time.Sleep(world.Lease + time.Second)
		synctest.Wait()
		for i := range n {
			key := fmt.Sprint("long ", i+1)
			if ended := l.ends(key); len(ended) != 1 || !errors.Is(ended[0], kernel.ErrUnloaded) {
				t.Fatalf("the context of the step ended with %v", ended)
			}
			if began := l.times(key); len(began) != 2 || began[1].Sub(held) > world.Lease+
				time.Second {
				t.Fatalf("the step began %v, and the engine was held up at %v", began, held)
			}
		}
		if len(a.Seen(observe.LeaseLost)) != 1 || len(a.Seen(observe.LeaseRegained)) != 0 {
			t.Errorf("it has lost its lease %d times", len(a.Seen(observe.LeaseLost)))
		}
		time.Sleep(time.Minute)
		u.set(false, false)
		time.Sleep(5 * time.Second)
		if len(a.Seen(observe.LeaseRegained)) != 1 || a.Stopped() {
			t.Fatal("it has not joined again")
		}
		outputs(t, a, runs)
		if _, err := wf.Start(t.Context(), a.Engine, n+1,
			perdure.ID(fmt.Sprint("run-", n+1))); err != nil {
			t.Fatal(err)
		}
		outputs(t, b, append(runs, nil))
		if again := l.times(fmt.Sprint("long ", n+1)); len(again) != 1 {
			t.Errorf("a run that was started afterwards was executed %d times", len(again))
		}
	})
}

// spec: P-1, R-12
func TestAnOutageOfTenMinutesFailsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		l := &logbook{}
		wf := works(l, 5*time.Second)
		c := world.NewCluster(t, 0)
		defer c.End()
		var down []*unsteady
		for range 2 {
			w := c.Node(wf)
			down = append(down, unsteadily(w))
			w.Begin()
		}
		a, b := c.Nodes[0], c.Nodes[1]
		runs := launched(t, a, wf, n)
		waits := make(chan error, 1)
		go func() {
			run, err := b.Engine.Get(t.Context(), "run-1")
			if err == nil {
				_, err = run.Result(t.Context())
			}
			waits <- err
		}()
		time.Sleep(2 * time.Second)
		for _, u := range down {
			u.set(false, true)
		}
		time.Sleep(10 * time.Minute)
		for _, u := range down {
			u.set(false, false)
		}
		back := time.Now()
		late, err := wf.Start(t.Context(), b.Engine, n+1, perdure.ID(fmt.Sprint("run-", n+1)))
		if err != nil {
			t.Fatal(err)
		}
		outputs(t, a, append(runs, late))
		if err := <-waits; err != nil {
			t.Errorf("who waited for a run was told %v", err)
		}
		for i := range n + 1 {
			began := l.times(fmt.Sprint("long ", i+1))
			if last := began[len(began)-1]; last.Sub(back) > 5*time.Second {
				t.Errorf("it went on %v after the store was back", last.Sub(back))
			}
		}
	})
}

func TestAnOutageShorterThanTheLeaseDisturbsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logbook{}
		wf := works(l, time.Minute)
		c := world.NewCluster(t, 0)
		defer c.End()
		a := c.Node(wf)
		u := unsteadily(a)
		a.Begin()
		runs := launched(t, a, wf, 3)
		for range 5 {
			time.Sleep(7 * time.Second)
			u.set(false, true)
			time.Sleep(world.Lease/2 - time.Second)
			u.set(false, false)
		}
		outputs(t, a, runs)
		for i := range runs {
			if began := l.times(fmt.Sprint("long ", i+1)); len(began) != 1 {
				t.Errorf("the step was executed %d times", len(began))
			}
		}
		if n := len(a.Seen(observe.LeaseLost)); n != 0 {
			t.Errorf("it has lost its lease %d times", n)
		}
	})
}

// spec: R-13
func TestCallsWaitForAnEngineThatHasLostItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := works(&logbook{}, time.Second)
		c := world.NewCluster(t, 0)
		defer c.End()
		a := c.Node(wf)
		u := unsteadily(a)
		a.Begin()
		launched(t, a, wf, 1)
		u.set(false, true)
		time.Sleep(2 * world.Lease)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := wf.Start(ctx, a.Engine, 2)
		world.CodeIs(t, err, journal.CodeUnavailable)
		started := make(chan error, 1)
		go func() {
			_, err := wf.Start(t.Context(), a.Engine, 3, perdure.ID("patient"))
			started <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-started:
			t.Fatalf("it was started while the store did not answer: %v", err)
		default:
		}
		u.set(false, false)
		if err := <-started; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		u.set(false, true)
		time.Sleep(2 * world.Lease)
		eng := a.Engine
		c.Stop(a)
		_, err = wf.Start(t.Context(), eng, 4)
		world.CodeIs(t, err, journal.CodeStopped)
	})
}

// asleep puts n runs of a workflow into the database that wake in a month.
func asleep(c *world.Cluster, workflow string, n int) {
	c.Helper()
	info, err := c.DB.Info(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	reserved, err := c.DB.Claim(c.Context(), store.ReserveID{})
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i < n; {
		g := &store.Group{Now: time.Now()}
		for ; i < n && len(g.Changes) < 1000; i++ {
			number, err := journal.MakeNumber(reserved.Engine, int64(i+1))
			if err != nil {
				c.Fatal(err)
			}
			id := journal.MakeRunID(info.Database, number)
			g.Changes = append(g.Changes, store.Change{
				Run: number, Create: true,
				Head: &journal.Head{
					Number: number, ID: id, WorkflowID: string(id), Workflow: workflow,
					Status: journal.Waiting,
					Wake:   time.Now().Add(30 * 24 * time.Hour), Created: time.Now(), Chain: number,
				},
				Entries: []journal.Entry{
					{
						Run: number, Seq: 1, Kind: journal.RunStarted, Status: journal.Waiting,
						At: time.Now(), Data: []byte("1"),
					},
				},
			})
		}
		if err := c.DB.Commit(c.Context(), g); err != nil {
			c.Fatal(err)
		}
	}
}

// spec: B-6
func TestIdleEnginesAskAtMostTenTimesAMinuteHoweverManyRunsSleep(t *testing.T) {
	const minutes = 20
	crowd := 100_000
	if testing.Short() {
		crowd = 10_000
	}
	asked := func(runs int) (calls []int) {
		synctest.Test(t, func(t *testing.T) {
			wf := works(&logbook{}, time.Second)
			c := world.NewCluster(t, 0)
			defer c.End()
			asleep(c, "works", runs)
			var stores []*unsteady
			for range 2 {
				w := c.Node(wf)
				stores = append(stores, unsteadily(w))
				w.Begin()
			}
			time.Sleep(time.Minute + 7*time.Second) // not at the moment of a sweep, nor is the end
			for _, u := range stores {
				calls = append(calls, -u.count(""))
			}
			time.Sleep(minutes * time.Minute)
			for i, u := range stores {
				calls[i] += u.count("")
			}
		})
		return calls
	}
	none, many := asked(0), asked(crowd)
	for i := range many {
		if many[i] > 10*minutes || many[i] > none[i]+2 {
			t.Errorf("in %d minutes engine %d asked %d times, and %d times without any run",
				minutes, i+1, many[i], none[i])
		}
	}
}

// spec: B-5, R-13
func TestAnEngineWhoseFirstJoinFailsTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := works(&logbook{}, time.Second)
		c := world.NewCluster(t, 0)
		defer c.End()
		for _, what := range []string{"info", "claim"} {
			w := c.Node(wf)
			u := unsteadily(w)
			u.fails = what
			w.Begin()
			time.Sleep(2 * time.Second)
			if n := u.count("renew"); n < 4 || w.Stopped() {
				t.Fatalf("%s failed, and there were %d calls; stopped: %v", what, n, w.Stopped())
			}
			u.mu.Lock()
			u.fails = ""
			u.mu.Unlock()
			run, err := wf.Start(t.Context(), w.Engine, 1)
			if err == nil {
				_, err = run.Result(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			if n := w.Seen(observe.StoreFailed); len(n) < 3 {
				t.Errorf("it has said that the store failed %d times", len(n))
			}
		}
	})
}

// Anything may happen between the begin of an attempt and its body. In this test, an observer takes
// as long as the lease.
//
// spec: B-5, L-12
func TestNoBodyBeginsOnceTheLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logbook{}
		wf := works(l, time.Minute)
		c := world.NewCluster(t, 0)
		defer c.End()
		w := c.Node(wf)
		u := unsteadily(w)
		var slow, lost atomic.Bool
		slow.Store(true)
		w.Options.Observers = append(w.Options.Observers,
			observe.Observer{See: func(n observe.Notice) {
				switch {
				case n.Kind == observe.LeaseLost:
					lost.Store(true)
				case n.Kind == observe.StepStarted && slow.Swap(false):
					u.set(true, false)
					time.Sleep(world.Lease + time.Second)
				}
			}})
		w.Begin()
		world.Start(w, wf, 1, perdure.ID("run-1"))
		time.Sleep(2 * world.Lease)
		if began := l.times("quick 1"); !lost.Load() || len(began) != 0 {
			t.Errorf("the lease was lost: %v, and bodies began at %v", lost.Load(), began)
		}
		u.set(false, false)
		time.Sleep(time.Minute)
		if began := l.times("quick 1"); len(began) != 1 {
			t.Errorf("the body began %d times after the engine had joined again", len(began))
		}
	})
}

// spec: B-5, B-6
func TestAnIdleEngineThatGetsARunIsTakenOverWithinTheUsualLease(t *testing.T) {
	for name, give := range map[string]func(
		t *testing.T, c *world.Cluster, a *world.World, wf *perdure.Workflow[int, int],
	){
		"by a start": func(
			t *testing.T, _ *world.Cluster, a *world.World, wf *perdure.Workflow[int, int],
		) {
			launched(t, a, wf, 1)
		},
		"by a claim": func(
			t *testing.T, c *world.Cluster, _ *world.World, wf *perdure.Workflow[int, int],
		) {
			client, err := perdure.NewClient(t.Context(), c.DB)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := wf.Start(t.Context(), client, 1, perdure.ID("run-1")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &logbook{}
				wf := works(l, time.Minute)
				c := world.NewCluster(t, 0)
				defer c.End()
				a := c.Node(wf)
				a.Options.Sweep = time.Second
				b := c.Node()
				b.Workflows = nil
				a.Begin()
				b.Begin()
				time.Sleep(5 * time.Minute)
				give(t, c, a, wf)
				time.Sleep(2 * time.Second)
				if began := l.times("long 1"); len(began) != 1 {
					t.Fatalf("the step began %d times", len(began))
				}
				c.Kill(a)
				killed := time.Now()
				if err := b.Engine.Register(wf); err != nil {
					t.Fatal(err)
				}
				time.Sleep(world.Lease + 2*time.Second)
				began := l.times("long 1")
				if len(began) != 2 || began[1].Sub(killed) > world.Lease+time.Second {
					t.Errorf("the step began at %v, and the engine was killed at %v", began, killed)
				}
			})
		})
	}
}
