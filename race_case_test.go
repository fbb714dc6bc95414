package perdure_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// What random histories have found, each as a case of its own.

var caseSignal = perdure.NewSignal[int]("a")

// spec: R-17
//
// What is posted right after the request to resume a run is not taken in its place.
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
		run, err := sum.Start(ctx, w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.eng.Suspend(ctx, run.ID(), "for now"); err != nil {
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
		d, err := w.eng.Describe(ctx, run.ID())
		if err != nil || d.Head.Status != journal.Completed || len(d.Unread) != 0 {
			t.Errorf("the run is %v and has not read %v; %v", d.Head.Status, d.Unread, err)
		}
		w.end()
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

// spec: L-10
//
// A run is parked while another process asks for its end: the request is not left
// lying in the inbox of a run that nothing wakes.
func TestARequestThatMeetsParkingIsCarriedOut(t *testing.T) {
	for _, again := range []bool{false, true} { // with again it is claimed once more, and given back
		synctest.Test(t, func(t *testing.T) {
			waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) { return caseSignal.Wait(ctx) })
			ctx := context.Background()
			w, other := newWorldOfTwo(t, waits)
			w.end()
			m := &meddler{kind: journal.RunSuspended}
			w.wrap = func(s store.Store) store.Store { m.Store = s; return m }
			w.begin()
			run, err := waits.Start(ctx, w.eng, 0)
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
			_ = w.eng.Suspend(ctx, run.ID(), "for now") // it may have been cancelled by now
			time.Sleep(time.Minute)
			d, err := w.eng.Describe(ctx, run.ID())
			if err != nil || asked != 1 || d.Head.Status != journal.Cancelled {
				t.Errorf("again: %v: the run is %v, asked %d times; %v", again, d.Head.Status, asked, err)
			}
			w.end()
		})
	}
}

// spec: L-10
//
// A run is parked while its engine reads a request for its end, of which it knows no
// more than that it was posted. That counts as not seen.
func TestARequestThatIsReadWhileARunIsParkedIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) { return caseSignal.Wait(ctx) })
		ctx := context.Background()
		reads := 0
		h := &hook{load: func(_ journal.Number, r store.Range) error {
			if r.Inbox && r.Name != "" {
				reads++
				time.Sleep(time.Second)
			}
			return nil
		}}
		w := hooked(t, h, perdure.Options{Linger: time.Hour, Sweep: 10 * time.Minute}, waits)
		other, err := perdure.NewClient(ctx, w.db)
		if err != nil {
			t.Fatal(err)
		}
		run, err := waits.Start(ctx, w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := other.Cancel(ctx, run.ID(), "at once"); err != nil {
			t.Fatal(err)
		}
		// By its number the engine's own message tells that there was one before.
		if err := w.eng.CancelTimer(ctx, run.ID(), "none", ""); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); reads != 1 {
			t.Errorf("the run has begun to read %d times", reads)
		}
		_ = w.eng.Suspend(ctx, run.ID(), "for now")
		time.Sleep(time.Minute)
		if d, err := w.eng.Describe(ctx, run.ID()); err != nil || d.Head.Status != journal.Cancelled {
			t.Errorf("the run is %v; %v", d.Head.Status, err)
		}
		w.end()
	})
}

// spec: R-20
//
// An unrouted signal that an operator moves to a run in memory is taken by its
// wait, as if it had been sent there.
func TestASignalThatIsMovedReachesARunInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) { return caseSignal.Wait(ctx) })
		ctx := context.Background()
		w := &world{t: t, db: memory.New(), workflows: []perdure.Definition{waits}}
		w.opts.Build, w.opts.Linger = "test", time.Hour
		w.begin()
		run, err := waits.Start(ctx, w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		lost, err := caseSignal.Send(ctx, w.eng, "elsewhere", 7)
		if err != nil || !lost.Unrouted {
			t.Fatalf("%+v, %v", lost, err)
		}
		if _, err := w.eng.Deliver(ctx, lost.Number, run.ID()); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if got, err := run.Result(soon); got != 7 || err != nil {
			t.Errorf("the run has got %d, %v", got, err)
		}
		w.end()
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

// spec: L-6, R-17
//
// The answer that brought a message is lost, and the store counts it as given: the
// wait takes it all the same, in time, and before what came later.
func TestAMessageWhoseAnswerWasLostIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
			return caseSignal.Wait(ctx, perdure.Within(time.Minute))
		})
		ctx := context.Background()
		w, other := newWorldOfTwo(t, waits)
		w.end()
		f := &forgetful{}
		w.opts.Linger = time.Hour
		w.wrap = func(s store.Store) store.Store { f.Store = s; return f }
		w.begin()
		run, err := waits.Start(ctx, w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := caseSignal.Send(ctx, other, run.ID(), 7); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(ctx); got != 7 || err != nil || !f.lost {
			t.Errorf("the run has got %d, %v", got, err)
		}
		w.end()
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
		w := &world{t: t, db: memory.New(), workflows: []perdure.Definition{waits}}
		w.opts.Build, w.opts.Linger = "test", time.Hour
		w.wrap = func(s store.Store) store.Store { d.Store = s; return d }
		w.begin()
		run, err := waits.Start(context.Background(), w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.mu.Lock()
		d.until = time.Now().Add(time.Minute)
		d.mu.Unlock()
		_, err = run.Result(context.Background())
		codeIs(t, err, journal.CodeTimedOut)
		d.mu.Lock()
		asked, until := d.asked, d.until
		d.mu.Unlock()
		if asked == 0 || asked > 200 {
			t.Errorf("it asked %d times in 50 seconds", asked)
		}
		if !time.Now().After(until) {
			t.Errorf("the wait ended %v before the store answered", time.Until(until))
		}
		w.end()
	})
}

// A parent does not wait for a child that it has detached, and is not said to.
//
// spec: R-17
func TestADetachedChildIsWaitedForByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) { return 0, perdure.Sleep(ctx, time.Hour) })
		parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
			child.Child(ctx, 0, perdure.ChildDetached)
			return caseSignal.Wait(ctx)
		})
		w := newWorld(t, child, parent)
		run, err := parent.Start(context.Background(), w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		d, err := w.eng.Describe(context.Background(), run.ID())
		if err != nil || d.Why != "it waits for signal a" || len(d.State.Waits) != 1 {
			t.Errorf("%q, waits %+v; %v", d.Why, d.State.Waits, err)
		}
		w.end()
	})
}

// newWorldOfTwo gives a world whose database another process uses too.
func newWorldOfTwo(t *testing.T, workflows ...perdure.Definition) (*world, *perdure.Client) {
	t.Helper()
	first := memory.New()
	w := &world{t: t, db: first.Reopen(), workflows: workflows}
	w.opts.Build = "test"
	other, err := perdure.NewClient(t.Context(), first.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	w.begin()
	return w, other
}
