package races

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// Mistakes that random histories have found, each as a case of its own.

var caseSignal = perdure.NewSignal[int]("a")

// A message that is posted right after the request to resume a run is not taken in its place.
//
// spec: R-17
func TestAMessageAfterTheRequestToResumeIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum := perdure.Define("sum", func(ctx context.Context, _ int) (int, error) {
			one, err := caseSignal.Wait(ctx)
			if err != nil {
				return 0, err
			}
			two, err := caseSignal.Wait(ctx)
			return one + two, err
		})
		ctx := context.Background()
		w, other := newWorldOfTwo(t, sum)
		run, err := sum.Start(ctx, w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.Suspend(ctx, run.ID(), "for now"); err != nil {
			t.Fatal(err)
		}
		if err := other.Resume(ctx, run.ID()); err != nil {
			t.Fatal(err)
		}
		for _, v := range []int{1, 2} {
			if _, err := caseSignal.Send(ctx, other, run.ID(), v); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		d, err := w.Engine.Describe(ctx, run.ID())
		if err != nil || d.Head.Status != journal.Completed || len(d.Unread) != 0 {
			t.Errorf("the run is %v and has not read %v; %v", d.Head.Status, d.Unread, err)
		}
		w.End()
	})
}

// A meddler calls meets before a group is committed that has an entry of that
// kind, the first time.
type meddler struct {
	store.Store
	kind  journal.Kind
	meets func()
}

func (m *meddler) Commit(ctx context.Context, g *store.Group) error {
	for i := range g.Changes {
		for _, e := range g.Changes[i].Entries {
			if meets := m.meets; e.Kind == m.kind && meets != nil {
				m.meets = nil
				meets()
			}
		}
	}
	return m.Store.Commit(ctx, g)
}

// A run is parked while another process asks for its end: the request does not stay in the inbox of
// a run that nothing wakes.
//
// spec: L-10
func TestARequestThatMeetsParkingIsCarriedOut(t *testing.T) {
	// with again it is claimed once more, and given back
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
				return caseSignal.Wait(ctx)
			})
			ctx := context.Background()
			w, other := newWorldOfTwo(t, waits)
			w.End()
			m := &meddler{kind: journal.RunSuspended}
			w.Wrap = func(s store.Store) store.Store { m.Store = s; return m }
			w.Begin()
			run, err := waits.Start(ctx, w.Engine, 0)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			asked := 0
			cancel := func() {
				asked++
				if err := other.Cancel(ctx, run.ID(), "at once"); err != nil {
					t.Error(err)
				}
			}
			if m.meets = cancel; again {
				m.meets = func() {
					m.kind, m.meets = journal.StatusChanged, cancel
					if err := other.Suspend(ctx, run.ID(), "too"); err != nil {
						t.Error(err)
					}
				}
			}
			_ = w.Engine.Suspend(ctx, run.ID(), "for now") // it may have been cancelled by now
			time.Sleep(time.Minute)
			d, err := w.Engine.Describe(ctx, run.ID())
			if err != nil || asked != 1 || d.Head.Status != journal.Cancelled {
				t.Errorf("again: %v: the run is %v, asked %d times; %v", again, d.Head.Status,
					asked, err)
			}
			w.End()
		})
	}
}

// A run is parked while its engine reads a request for its end, of which it knows only that it was
// posted. That counts as not seen.
//
// spec: L-10
func TestARequestThatIsReadWhileARunIsParkedIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
			return caseSignal.Wait(ctx)
		})
		ctx := context.Background()
		reads := 0
		h := &world.Hook{OnLoad: func(_ journal.Number, r store.Range) error {
			if r.Inbox && r.Name != "" {
				reads++
				time.Sleep(time.Second)
			}
			return nil
		}}
		w := world.Hooked(t, h, perdure.Options{IdleTimeout: time.Hour, Sweep: 10 * time.Minute},
			waits)
		other, err := perdure.NewClient(ctx, w.DB)
		if err != nil {
			t.Fatal(err)
		}
		run, err := waits.Start(ctx, w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := other.Cancel(ctx, run.ID(), "at once"); err != nil {
			t.Fatal(err)
		}
		// By its number the engine's own message tells that there was one before.
		if err := w.Engine.CancelTimer(ctx, run.ID(), "none", ""); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); reads != 1 {
			t.Errorf("the run has begun to read %d times", reads)
		}
		_ = w.Engine.Suspend(ctx, run.ID(), "for now")
		time.Sleep(time.Minute)
		if d, err := w.Engine.Describe(ctx, run.ID()); err != nil ||
			d.Head.Status != journal.Cancelled {
			t.Errorf("the run is %v; %v", d.Head.Status, err)
		}
		w.End()
	})
}

// spec: R-20
//
// An unrouted signal that an operator moves to a run in memory is taken by its
// wait, as if it had been sent there.
func TestASignalThatIsMovedReachesARunInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
			return caseSignal.Wait(ctx)
		})
		ctx := context.Background()
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{waits}}
		w.Options.Build, w.Options.IdleTimeout = "test", time.Hour
		w.Begin()
		run, err := waits.Start(ctx, w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		lost, err := caseSignal.Send(ctx, w.Engine, "elsewhere", 7)
		if err != nil || !lost.Unrouted {
			t.Fatalf("%+v, %v", lost, err)
		}
		if _, err := w.Engine.Deliver(ctx, lost.Number, run.ID()); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if got, err := run.Result(soon); got != 7 || err != nil {
			t.Errorf("the run has got %d, %v", got, err)
		}
		w.End()
	})
}

// A forgetful store loses the first answer that has mail.
type forgetful struct {
	store.Store
	lost bool
}

func (f *forgetful) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := f.Store.Claim(ctx, c)
	if len(got.Mail) > 0 && !f.lost {
		f.lost = true
		return store.Claimed{}, storetest.ErrInjected
	}
	return got, err
}

// The answer that brought a message is lost, and the store counts it as delivered: the wait takes
// it all the same, in time, and before later messages.
//
// spec: L-6, R-17
func TestAMessageWhoseAnswerWasLostIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
			return caseSignal.Wait(ctx, perdure.Within(time.Minute))
		})
		ctx := context.Background()
		w, other := newWorldOfTwo(t, waits)
		w.End()
		f := &forgetful{}
		w.Options.IdleTimeout = time.Hour
		w.Wrap = func(s store.Store) store.Store { f.Store = s; return f }
		w.Begin()
		run, err := waits.Start(ctx, w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := caseSignal.Send(ctx, other, run.ID(), 7); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(ctx); got != 7 || err != nil || !f.lost {
			t.Errorf("the run has got %d, %v", got, err)
		}
		w.End()
	})
}

// A deaf store fails claims for a while.
type deaf struct {
	store.Store
	mu    sync.Mutex
	until time.Time
	asked int
}

func (d *deaf) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.until) && d.asked < 1000 {
		d.asked++
		return store.Claimed{}, storetest.ErrInjected
	}
	return d.Store.Claim(ctx, c)
}

// spec: L-6
//
// A wait whose time is over while the store does not answer asks again now and
// then, not all the time.
func TestAWaitThatIsOverAsksASilentStoreInPeace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
			return caseSignal.Wait(ctx, perdure.Within(10*time.Second))
		})
		d := &deaf{}
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{waits}}
		w.Options.Build, w.Options.IdleTimeout = "test", time.Hour
		w.Wrap = func(s store.Store) store.Store { d.Store = s; return d }
		w.Begin()
		run, err := waits.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.mu.Lock()
		d.until = time.Now().Add(time.Minute)
		d.mu.Unlock()
		_, err = run.Result(context.Background())
		world.CodeIs(t, err, journal.CodeTimedOut)
		d.mu.Lock()
		asked, until := d.asked, d.until
		d.mu.Unlock()
		if asked == 0 || asked > 200 {
			t.Errorf("it asked %d times in 50 seconds", asked)
		}
		if !time.Now().After(until) {
			t.Errorf("the wait ended %v before the store answered", time.Until(until))
		}
		w.End()
	})
}

// An ender calls ended after a group is committed by which a run is cancelled, before the engine
// hears of that.
type ender struct {
	store.Store
	ended func()
}

func (e *ender) Commit(ctx context.Context, g *store.Group) error {
	err := e.Store.Commit(ctx, g)
	for i := range g.Changes {
		for _, x := range g.Changes[i].Entries {
			if x.Kind == journal.RunCancelled {
				e.ended()
			}
		}
	}
	return err
}

// An order by workflow ID is for the run that has the ID then: not for a run that is started when
// that one has ended, while the order waits for its answer.
//
// spec
func TestAnOrderIsForOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		id, again := []perdure.StartOption{perdure.ID("one"), perdure.Dedup(0)}, false
		idle := perdure.Define("idle", func(ctx context.Context, _ int) (int, error) {
			return caseSignal.Wait(ctx)
		})
		w, other := newWorldOfTwo(t, idle)
		w.End()
		w.DB = w.DB.Reopen()
		w.Wrap = func(s store.Store) store.Store {
			return &ender{s, func() {
				if !again {
					return
				}
				again = false
				if _, err := idle.Start(ctx, other, 0, id...); err != nil {
					t.Error(err)
				}
			}}
		}
		w.Begin()
		if _, err := idle.Start(ctx, w.Engine, 0, id...); err != nil {
			t.Fatal(err)
		}
		for i := range 20 { // which of two facts it hears of first is a matter of chance
			again = true
			if err := w.Engine.Cancel(ctx, "one", ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			runs, _, err := w.DB.Find(ctx, store.Filter{
				Statuses: []journal.Status{journal.Cancelled}, Limit: 100,
			})
			if err != nil || len(runs) != i+1 {
				t.Fatalf("%d orders have ended %d runs; %v", i+1, len(runs), err)
			}
		}
		w.End()
	})
}

// A parent does not wait for a detached child, and does not show such a wait.
//
// spec: R-17
func TestADetachedChildIsWaitedForByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Sleep(ctx, time.Hour)
		})
		parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
			child.Child(ctx, 0, perdure.ChildDetached)
			return caseSignal.Wait(ctx)
		})
		w := world.New(t, child, parent)
		run, err := parent.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if err != nil || d.Why != "it waits for signal a" || len(d.State.Waits) != 1 {
			t.Errorf("%q, waits %+v; %v", d.Why, d.State.Waits, err)
		}
		w.End()
	})
}

// newWorldOfTwo returns a world whose database another process uses, too.
func newWorldOfTwo(t *testing.T, workflows ...perdure.Definition) (*world.World, *perdure.Client) {
	t.Helper()
	first := memory.New()
	w := &world.World{T: t, DB: first.Reopen(), Workflows: workflows}
	w.Options.Build = "test"
	other, err := perdure.NewClient(t.Context(), first.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	w.Begin()
	return w, other
}
