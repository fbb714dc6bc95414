package waiting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
)

// flood posts n messages to a run, as another process would: the payload of the
// i-th is i.
func flood(w *world.World, number journal.Number, n int, name func(i int) string) {
	w.T.Helper()
	for i := 0; i < n; {
		var posts []store.Post
		for ; i < n && len(posts) < 2000; i++ {
			posts = append(posts, store.Post{Run: number, Follow: store.FollowChain,
				Message: journal.Entry{
					Kind: journal.SignalReceived, Op: journal.Op{Name: name(i)}, At: time.Now(),
					Data: fmt.Append(nil, i),
				}})
		}
		g := &store.Group{Now: time.Now(), Changes: []store.Change{{Posts: posts}}}
		if err := w.DB.Commit(context.Background(), g); err != nil {
			w.T.Fatal(err)
		}
	}
}

// A look is a function that reads an inbox.
type look struct {
	Has    bool
	All    []int
	Latest int
	Any    bool
	Inbox  []string
}

func lookAt(ctx context.Context) (look, error) {
	var l look
	var err error
	if l.Has, err = paid.Has(ctx); err != nil {
		return l, err
	}
	if l.All, err = paid.All(ctx); err != nil {
		return l, err
	}
	if l.Latest, l.Any, err = paid.Latest(ctx); err != nil {
		return l, err
	}
	all, err := perdure.Inbox(ctx, "")
	for _, m := range all {
		l.Inbox = append(l.Inbox, fmt.Sprintf("%d:%s=%s", m.Number, m.Name, m.Data))
	}
	return l, err
}

// The code looks again and again, each time after another message.
//
// spec: R-17
func TestLookingIntoTheInboxTakesNothingAndIsTheSameOnReplay(t *testing.T) {
	absent := perdure.NewSignal[int]("absent")
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]look, error) {
		var seen []look
		for range 3 {
			l, err := lookAt(ctx)
			if err != nil {
				return nil, err
			}
			has, err := absent.Has(ctx)
			_, latest, err2 := absent.Latest(ctx)
			if has || latest || err != nil || err2 != nil {
				return nil, fmt.Errorf("absent: %v, %v, %v, %v", has, latest, err, err2)
			}
			inStep, err := perdure.Step(ctx, "look", lookAt)
			if err != nil {
				return nil, err
			}
			if fmt.Sprint(inStep) != fmt.Sprint(l) {
				return nil, fmt.Errorf("the step sees %v, the code %v", inStep, l)
			}
			seen = append(seen, l)
			if _, err := perdure.NewSignal[string]("go").Wait(ctx); err != nil {
				return nil, err
			}
		}
		return seen, nil
	})
	want := []look{
		{},
		{Has: true, All: []int{1}, Latest: 1, Any: true, Inbox: []string{"1:paid=1", "2:other=5"}},
		{
			Has:    true,
			All:    []int{1, 2},
			Latest: 2,
			Any:    true,
			Inbox:  []string{"1:paid=1", "2:other=5", "4:paid=2"},
		},
	}
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, crash := range []bool{false, true} {
			id := fmt.Sprint(crash)
			world.Start(w, wf, 0, perdure.ID(id))
			next := func() {
				send(w, perdure.NewSignal[string]("go"), id, "")
				synctest.Wait()
				if crash {
					w.Crash()
					synctest.Wait()
				}
				time.Sleep(2 * time.Second)
			}
			synctest.Wait()
			send(w, paid, id, 1)
			send(w, other, id, 5)
			next()
			send(w, paid, id, 2)
			next()
			next()
			gives(w, wf, id, want)
			if got := w.Unread(id); len(got) != 3 {
				t.Errorf("not taken are %v", got)
			}
		}
	}, wf)
}

// spec
func TestNewRunSeesTheMessagesThatWaitedForIt(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]int, error) {
		return paid.All(ctx)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		send(w, paid, "x", 1)
		send(w, paid, "x", 2)
		world.Start(w, wf, 0, perdure.ID("x"))
		gives(w, wf, "x", []int{1, 2})
	}, wf)
}

// spec: L-6, R-17
func TestTakenMessagesAreGoneForWaits(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		if _, err := perdure.NewSignal[string]("go").Wait(ctx); err != nil {
			return "", err
		}
		all, err := perdure.Inbox(ctx, "paid")
		if err != nil || len(all) != 3 {
			return "", fmt.Errorf("%v, %w", all, err)
		}
		first, err := perdure.Take(ctx, all[1].Number, all[0].Number, 99, all[1].Number)
		if err != nil {
			return "", err
		}
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		second, err := perdure.Take(ctx, all[0].Number)
		if err != nil {
			return "", err
		}
		left, err := paid.Wait(ctx)
		return fmt.Sprint(first, second, left), err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, crash := range []bool{false, true} {
			id := fmt.Sprint(crash)
			world.Start(w, wf, 0, perdure.ID(id))
			for i := range 3 {
				send(w, paid, id, i)
			}
			send(w, perdure.NewSignal[string]("go"), id, "")
			synctest.Wait()
			if crash {
				w.Crash()
			}
			gives(w, wf, id, "[2 1] [] 2")
		}
		bg := context.Background()
		_, err := perdure.Inbox(bg, "paid")
		world.CodeIs(t, err, journal.CodeMisuse)
		_, err = perdure.Take(bg, 1)
		world.CodeIs(t, err, journal.CodeMisuse)
	}, wf)
}

// Messages that the code has taken in this turn are not shown, although the store still has them as
// unread.
//
// spec: L-6, R-17
func TestLargeInboxIsTakenAsAWhole(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for n := 0; ; {
			all, err := perdure.Inbox(ctx, "")
			if err != nil || len(all) == 0 {
				return n, err
			}
			for _, m := range all {
				if string(m.Data) != fmt.Sprint(n) {
					return n, fmt.Errorf("message %d is %s", n, m.Data)
				}
				if taken, err := perdure.Take(ctx, m.Number); err != nil || len(taken) != 1 {
					return n, fmt.Errorf("take %d: %v, %w", n, taken, err)
				}
				n++
			}
		}
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		synctest.Wait()
		w.Kill()
		c, err := perdure.NewClient(context.Background(), w.DB)
		if err != nil {
			t.Error(err)
		}
		run, err := wf.Start(context.Background(), c, 0, perdure.ID("x"))
		if err != nil {
			t.Error(err)
		}
		number, _ := journal.RunID(run.RunID()).Number(dbOf(w))
		flood(w, number, 2500, func(int) string { return "paid" })
		w.Begin()
		gives(w, wf, "x", 2500)
	}, wf)
}

// More messages are there than are in memory, and than one page of the store has.
//
// spec: R-17
func TestLookingIntoALargeInboxSeesAllOfIt(t *testing.T) {
	const many = 2500
	look := func(ctx context.Context) (string, error) {
		has, err1 := paid.Has(ctx)
		all, err2 := paid.All(ctx)
		last, any, err3 := paid.Latest(ctx)
		first, err4 := perdure.Inbox(ctx, "paid")
		return fmt.Sprint(has, len(all), any, last, len(first)), errors.Join(err1, err2, err3, err4)
	}
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		inCode, err := look(ctx)
		if err != nil {
			return "", err
		}
		inStep, err := perdure.Step(ctx, "look", look)
		if _, err := perdure.Take(ctx, many); err != nil {
			return "", err
		}
		taken, _, err2 := paid.Latest(ctx)
		return fmt.Sprint(inCode, "/", inStep, "/", taken), errors.Join(err, err2)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		w.Kill()
		c, err := perdure.NewClient(context.Background(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		run, err := wf.Start(context.Background(), c, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		number, _ := journal.RunID(run.RunID()).Number(dbOf(w))
		flood(w, number, many, func(int) string { return "paid" })
		w.Begin()
		gives(w, wf, "x", "true 2500 true 2499 1000/true 2500 true 2499 1000/2498")
	}, wf)
}

// The messages that are waited for lie far behind others, and behind each other.
//
// spec: L-6
func TestOrderHoldsInAnInboxThatIsNotInMemory(t *testing.T) {
	is := func(n int) perdure.WaitOption {
		return perdure.Where(func(i int) bool { return i == n })
	}
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]int, error) {
		far, near := paid.Future(ctx, is(4900)), paid.Future(ctx, is(3000), perdure.Key("near"))
		out, err := collect(ctx, far, near)
		if err != nil {
			return nil, err
		}
		for _, opts := range [][]perdure.WaitOption{{}, {is(2000)}, {}, {is(1103)}, {}} {
			v, err := paid.Wait(ctx, opts...)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		v, err := other.Wait(ctx)
		if err != nil {
			return nil, err
		}
		_, err = paid.Wait(ctx, is(-1), perdure.Within(time.Minute))
		world.CodeIs(t, err, journal.CodeTimedOut)
		return append(out, v), nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run := world.Start(w, wf, 0, perdure.ID("x"))
		synctest.Wait()
		w.Kill()
		number, _ := journal.RunID(run.RunID()).Number(dbOf(w))
		flood(w, number, 5000, func(i int) string {
			if i < 1100 {
				return "other"
			}
			return "paid"
		})
		w.Begin()
		gives(w, wf, "x", []int{4900, 3000, 1100, 2000, 1101, 1103, 1102, 0})
	}, wf)
}

func dbOf(w *world.World) string {
	info, err := w.DB.Info(context.Background())
	if err != nil {
		w.T.Fatal(err)
	}
	return info.Database
}

// Commands and decisions take effect although they come behind the messages that may be in memory.
//
// spec: L-6
func TestCommandsAreHeardBehindManyMessages(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		d, err := perdure.Park(ctx, "p", "why")
		return d.Choice, err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		bg := context.Background()
		c, err := perdure.NewClient(bg, w.DB)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"decided", "resumed", "cancelled"} {
			world.Start(w, wf, 0, perdure.ID(id))
			synctest.Wait()
			if id != "decided" {
				if err := w.Engine.Suspend(bg, id, "later"); err != nil {
					t.Fatal(err)
				}
			}
			flood(w, w.Describe(id).Head.Number, 2000, func(int) string { return "paid" })
		}
		if err := c.Resume(bg, "resumed"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, id := range []string{"decided", "resumed"} {
			if err := c.Decide(bg, id, "p", perdure.Decision{Choice: "yes"}); err != nil {
				t.Fatal(err)
			}
			gives(w, wf, id, "yes")
		}
		if err := c.Cancel(bg, "cancelled", "enough"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		statusIs(w, "cancelled", journal.Cancelled)
	}, wf)
}

// given counts the messages that the engine has received and has not taken.
type given struct {
	store.Store
	mu   sync.Mutex
	left map[int64]bool
	peak int
}

func (g *given) count(messages []journal.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range messages {
		g.left[m.Seq] = true
	}
	g.peak = max(g.peak, len(g.left))
}

func (g *given) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	entries, err := g.Store.Load(ctx, run, r)
	if r.Inbox {
		g.count(entries)
	}
	return entries, err
}

func (g *given) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := g.Store.Claim(ctx, c)
	for _, r := range slices.Concat(claimed.Runs, claimed.Mail) {
		g.count(r.Inbox)
	}
	return claimed, err
}

func (g *given) Commit(ctx context.Context, group *store.Group) error {
	g.mu.Lock()
	for _, c := range group.Changes {
		for _, e := range c.Entries {
			if e.Detail != nil {
				delete(g.left, e.Detail.Mail)
			}
		}
	}
	g.mu.Unlock()
	return g.Store.Commit(ctx, group)
}

// What the engine has in memory of an inbox does not grow with it, and a chain of
// runs takes every message once, in order.
//
// spec: L-6, R-17
func TestManySignalsToOneRun(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	wf := perdure.Define("w", func(ctx context.Context, next int) (int, error) {
		if next == 0 { // what is not there is looked for behind all others
			if _, err := other.Wait(
				ctx, perdure.Within(time.Minute)); journal.CodeOf(err) != journal.CodeTimedOut {
				return 0, fmt.Errorf("other: %w", err)
			}
		}
		for range 1000 {
			if next == n {
				return next, nil
			}
			v, err := paid.Wait(ctx)
			if err == nil && v != next {
				err = fmt.Errorf("message %d came as number %d", v, next)
			}
			if err != nil {
				return next, err
			}
			next++
		}
		return next, perdure.ContinueAsNew(ctx, next)
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		defer func() { w.End() }()
		run := world.Start(w, wf, 0, perdure.ID("x"))
		synctest.Wait()
		w.Kill()
		number, _ := journal.RunID(run.RunID()).Number(dbOf(w))
		flood(w, number, n, func(int) string { return "paid" })
		g := &given{left: map[int64]bool{}}
		w.Wrap = func(s store.Store) store.Store { g.Store = s; return g }
		w.Begin()
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
		defer cancel()
		last, err := wf.Get(ctx, w.Engine, run.RunID())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := last.Result(ctx); err != nil || out != n {
			t.Errorf("%d, %v", out, err)
		}
		if got := w.Unread("x"); len(got) != 0 {
			t.Errorf("not taken are %v", got)
		}
		if g.peak > 2*1024 {
			t.Errorf("up to %d messages were in memory", g.peak)
		}
	})
}

// Messages that arrive during a call of the store come with its answer, and once more with a claim
// that is answered late.
//
// spec: L-6, R-17
func TestMessagesThatCameWithAnAnswerAreTakenOnce(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, take bool) (string, error) {
		alarm := perdure.Timer(ctx, "alarm", time.Hour)
		var taken []int64
		if take {
			var err error
			if taken, err = perdure.Take(ctx, 2); err != nil {
				return "", err
			}
			if err := perdure.Sleep(ctx, 10*time.Minute); err != nil {
				return "", err
			}
		}
		var got []int
		for {
			n, err := paid.Wait(ctx, perdure.Within(10*time.Minute))
			if err != nil {
				_, timed := alarm.Await(ctx)
				return fmt.Sprintf("%v %v %s %s", taken, got, journal.CodeOf(err),
					journal.CodeOf(timed)), nil
			}
			got = append(got, n)
		}
	})
	bg := context.Background()
	for name, c := range map[string]struct {
		take bool
		post func(*perdure.Client) error
		want string
	}{
		"a signal": {
			post: func(c *perdure.Client) error { _, err := paid.Send(bg, c, "x", 2); return err },
			want: "[] [1 2] timed_out ",
		},
		"a signal by number": {
			take: true,
			post: func(c *perdure.Client) error { _, err := paid.Send(bg, c, "x", 2); return err },
			want: "[2] [1] timed_out ",
		},
		"a timer's end": {
			post: func(c *perdure.Client) error { return c.CancelTimer(bg, "x", "alarm", "early") },
			want: "[] [1] timed_out cancelled",
		},
		"a suspension": {
			post: func(c *perdure.Client) error { return c.Suspend(bg, "x", "a pause") },
			want: "[] [1] timed_out ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var far *perdure.Client
				var came, late atomic.Bool
				h := &world.Hook{}
				h.OnLoad = func(_ journal.Number, r store.Range) error {
					if !r.Inbox || came.Swap(true) {
						return nil
					}
					defer time.Sleep(1500 * time.Millisecond) // a claim comes first
					return c.post(far)
				}
				h.OnClaim = func(_ store.Claim, do func() (store.Claimed, error)) (store.Claimed,
					error) {
					got, err := do()
					if came.Load() && !late.Swap(true) {
						time.Sleep(3 * time.Second)
					}
					return got, err
				}
				w := world.Hooked(t, h, perdure.Options{Sweep: time.Second, IdleTimeout: time.Hour},
					wf)
				defer func() { w.End() }()
				var err error
				if far, err = perdure.NewClient(bg, w.DB); err != nil {
					t.Fatal(err)
				}
				send(w, paid, "x", 1)
				world.Start(w, wf, c.take, perdure.ID("x"))
				time.Sleep(5 * time.Minute)
				if name == "a suspension" {
					statusIs(w, "x", journal.Suspended)
					if err := far.Resume(bg, "x"); err != nil {
						t.Fatal(err)
					}
				}
				gives(w, wf, "x", c.want)
				if !came.Load() ||
					len(w.Seen(observe.RunParked)) != len(w.Seen(observe.RunResumed)) {
					t.Error("nothing came, or the run was parked")
				}
			})
		})
	}
}

// A run may wait for many things at a time; none of these costs a look at all the others.
//
// spec: B-3, L-6, L-7, R-23
func TestManyWaitsInOneRun(t *testing.T) {
	many := 20_000
	if testing.Short() {
		many = 2_000
	}
	child := perdure.Define("child", func(_ context.Context, n int) (int, error) { return n, nil })
	waits := map[string]func(ctx context.Context, i int) pattern.Awaitable{
		"timers": func(ctx context.Context, i int) pattern.Awaitable {
			return perdure.Timer(ctx, "t", time.Hour+time.Duration(i%1000)*time.Millisecond)
		},
		"waits": func(ctx context.Context, _ int) pattern.Awaitable { return paid.Future(ctx) },
		"children": func(ctx context.Context, i int) pattern.Awaitable {
			return child.Child(ctx, i)
		},
	}
	wf := perdure.Define("w", func(ctx context.Context, of string) (int, error) {
		set, err := pattern.NewSet(ctx)
		for i := 0; i < many && err == nil; i++ {
			err = set.Add(waits[of](ctx, i))
		}
		n := 0
		for ; err == nil && set.Len() > 0; n++ {
			_, err = set.Next()
		}
		return n, err
	})
	for of := range waits {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t, wf, child)
				defer w.End()
				world.Start(w, wf, of, perdure.ID(of))
				synctest.Wait()
				if of == "waits" {
					flood(w, w.Describe(of).Head.Number, many, func(int) string { return "paid" })
				}
				gives(w, wf, of, many)
			})
		})
	}
}
