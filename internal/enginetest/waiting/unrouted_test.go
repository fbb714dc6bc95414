package waiting

import (
	"bytes"
	"context"
	"fmt"
	"strings"
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

// takes takes n messages, one after the other, and continues as new after each
// where every is set.
var takes = perdure.Define("takes", func(ctx context.Context, n int) ([]int, error) {
	var out []int
	for range n {
		v, err := paid.Wait(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
})

// chain is the same as a chain of runs.
var chain = perdure.Define("chain", func(ctx context.Context, got []int) ([]int, error) {
	v, err := paid.Wait(ctx)
	if err != nil || v < 0 {
		return got, err
	}
	return got, perdure.ContinueAsNew(ctx, append(got, v))
})

func unroutedNow(w *world.World) []string {
	w.T.Helper()
	all, err := w.Engine.Unrouted(context.Background(), 0, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	info, err := w.DB.Info(context.Background())
	if err != nil || info.Unrouted != int64(len(all)) {
		w.T.Errorf("%d are counted, %v, listed %d", info.Unrouted, err, len(all))
	}
	out := []string{}
	for _, m := range all {
		out = append(out, fmt.Sprintf("%s:%s=%s", m.To, m.Name, m.Data))
	}
	return out
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// spec
func TestSignalWithoutARunIsKeptForOne(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		bg := context.Background()
		for i := range 3 {
			d := send(w, paid, "x", i, perdure.SendKey(fmt.Sprint("k", i)))
			if !d.Unrouted || d.RunID != "" || d.Duplicate || d.Number == 0 {
				t.Errorf("%+v", d)
			}
		}
		if d := send(w, paid, "x", 9, perdure.SendKey("k1")); !d.Duplicate {
			t.Errorf("the same key: %+v", d)
		}
		send(w, paid, "y", 5, perdure.SendKey("k1"))
		w.Crash()
		all, err := w.Engine.Unrouted(bg, 0, 0)
		if err != nil || len(all) != 4 || all[3].To != "y" || all[3].ID == "" ||
			all[3].Until.Sub(all[3].Sent) != 7*24*time.Hour {
			t.Errorf("%+v, %v", all, err)
		}
		page, err := w.Engine.Unrouted(bg, all[1].Number, 2)
		if err != nil || len(page) != 2 || page[0].Number != all[1].Number {
			t.Errorf("a page: %+v, %v", page, err)
		}
		same(t, "kept", unroutedNow(w), "[x:paid=0 x:paid=1 x:paid=2 y:paid=5]")

		world.Start(w, takes, 3, perdure.ID("x")) // another workflow ID's are not its own
		gives(w, takes, "x", []int{0, 1, 2})
		same(t, "kept", unroutedNow(w), "[y:paid=5]")
		if d := send(w, paid, "x", 9, perdure.SendKey("k2")); !d.Duplicate {
			t.Errorf("the same key after the run has ended: %+v", d)
		}

		other := world.Start(w, takes, 1, perdure.ID("z"))
		d, err := w.Engine.Deliver(bg, all[3].Number, other.RunID())
		if err != nil || d.RunID != other.RunID() || d.Unrouted {
			t.Errorf("deliver: %+v, %v", d, err)
		}
		before := time.Now()
		gives(w, takes, "z", []int{5})
		if took := time.Since(before); took != 0 {
			t.Errorf("what was moved is seen after %v", took)
		}
		same(t, "kept", unroutedNow(w), "[]")
		for number, id := range map[int64]string{all[3].Number: "z", 77: "x", 1: "nobody"} {
			if _, err := w.Engine.Deliver(bg, number, id); err == nil {
				t.Errorf("message %d is delivered to %s", number, id)
			}
		}
	}, takes)
}

// spec: R-20
func TestUnroutedSignalsExpire(t *testing.T) {
	for keep, days := range map[time.Duration]int{0: 7, 48 * time.Hour: 2} {
		world.InBothModesWith(t, perdure.Options{KeepUnrouted: keep},
			func(t *testing.T, w *world.World) {
				send(w, paid, "x", 1)
				time.Sleep(time.Duration(days)*24*time.Hour - time.Second)
				same(t, "kept", unroutedNow(w), "[x:paid=1]")
				send(w, paid, "y", 2)
				time.Sleep(time.Second)
				world.Start(w, takes, 1, perdure.ID("x"))
				world.Start(w, takes, 1, perdure.ID("y"))
				gives(w, takes, "y", []int{2})
				synctest.Wait()
				statusIs(w, "x", journal.Waiting)
				time.Sleep(2 * time.Hour) // the clean-up has come by
				same(t, "kept", unroutedNow(w), "[]")
			}, takes)
	}
	world.InBothModesWith(t, perdure.Options{KeepUnrouted: -1}, func(t *testing.T, w *world.World) {
		if d, err := paid.Send(context.Background(), w.Engine, "x", 1); err != nil ||
			!d.NotDelivered ||
			d.RunID != "" {
			t.Errorf("%+v, %v", d, err)
		}
		same(t, "kept", unroutedNow(w), "[]")
	})
}

// spec: R-17
func TestKeyReachesARunAndItsChainOnce(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		key := perdure.SendKey("k")
		again := func(when, id string) {
			t.Helper()
			if d := send(w, paid, id, 9, key); !d.Duplicate {
				t.Errorf("%s: %+v", when, d)
			}
		}
		a, b := world.Start(w, takes, 2, perdure.ID("a")), world.Start(w, takes, 1, perdure.ID("b"))
		if d := send(w, paid, "a", 1, key); d.Duplicate || d.RunID != a.RunID() {
			t.Errorf("%+v", d)
		}
		again("at once", "a")
		synctest.Wait()
		again("after it was taken", a.RunID())
		w.Crash()
		again("after a crash", "a")
		if d := send(w, paid, b.RunID(), 2, key); d.Duplicate {
			t.Errorf("to another run: %+v", d)
		}
		gives(w, takes, "b", []int{2})
		send(w, paid, "a", 3)
		gives(w, takes, "a", []int{1, 3})
		again("after the end", a.RunID())
		again("after the end, by workflow ID", "a")
		if d, err := paid.Send(context.Background(), w.Engine, a.RunID(), 9); err != nil ||
			!d.NotDelivered || d.RunID != a.RunID() {
			t.Errorf("%+v, %v", d, err)
		}

		first := world.Start(w, chain, nil, perdure.ID("c"))
		for i := range 3 {
			send(w, paid, "c", i, perdure.SendKey(fmt.Sprint("k", i)))
			time.Sleep(time.Duration(i) * time.Second)
			for j := range i + 1 {
				for _, id := range []string{"c", first.RunID()} {
					if d := send(w, paid, id, 9,
						perdure.SendKey(fmt.Sprint("k", j))); !d.Duplicate {
						t.Errorf("key %d along the chain: %+v", j, d)
					}
				}
			}
			w.Crash()
		}
		send(w, paid, first.RunID(), -1)
		gives(w, chain, first.RunID(), []int{0, 1, 2})
	}, takes, chain)
}

// spec
func TestSendersAreToldWhatCannotBe(t *testing.T) {
	world.InBothModesWith(t, perdure.Options{MaxPayload: 100}, func(t *testing.T, w *world.World) {
		bg := context.Background()
		run := world.Start(w, takes, 1, perdure.ID("x"))
		cases := map[journal.Code][]func() error{
			journal.CodeInvalid: {
				func() error { _, err := paid.Send(bg, w.Engine, "", 1); return err },
				func() error { _, err := paid.Send(bg, w.Engine, "a b", 1); return err },
				func() error { _, err := paid.Send(bg, w.Engine, "x", 1, nil); return err },
				func() error {
					_, err := paid.Send(bg, w.Engine, "x", 1, perdure.SendKey(""))
					return err
				},
				func() error { _, err := w.Engine.Send(bg, "x", "perdure:child", nil); return err },
				func() error { _, err := w.Engine.Send(bg, "x", "", nil); return err },
				func() error { _, err := w.Engine.Send(bg, "x", "paid", nil, nil); return err },
				func() error { _, err := w.Engine.Deliver(bg, 1, "a b"); return err },
				func() error { return w.Engine.Decide(bg, "x", "", perdure.Decision{}) },
				func() error {
					_, err := perdure.SendWithStart(bg, w.Engine, paid, 1, takes, 1)
					return err
				},
			},
			journal.CodeTooLarge: {
				func() error {
					_, err := w.Engine.Send(bg, "x", "paid", make([]byte, 101))
					return err
				},
			},
			journal.CodeEncode: {
				func() error {
					_, err := perdure.NewSignal[any]("s").Send(bg, w.Engine, "x", func() {})
					return err
				},
			},
			journal.CodeNotFound: {
				func() error { return w.Engine.Decide(bg, "nobody", "p", perdure.Decision{}) },
				func() error { return w.Engine.Decide(bg, "x", "p", perdure.Decision{}) },
				func() error { _, err := w.Engine.Deliver(bg, 1, "nobody"); return err },
			},
		}
		for code, calls := range cases {
			for i, call := range calls {
				if err := call(); journal.CodeOf(err) != code {
					t.Errorf("call %d that should give %s: %v", i, code, err)
				}
			}
		}
		if d, err := w.Engine.Send(bg, "x", "paid",
			append(bytes.Repeat([]byte(" "), 99), '7')); err != nil || d.RunID != run.RunID() {
			t.Errorf("at the limit: %+v, %v", d, err)
		}
		gives(w, takes, "x", []int{7})
		same(t, "kept", unroutedNow(w), "[]")
	}, takes)
}

// spec: R-11
func TestSignalsOfTheEnginesNameCancel(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		bg := context.Background()
		for _, name := range []string{"Cancel", "CancelWorkflow"} {
			for _, state := range []string{"waits", "suspended", "crashed"} {
				id := name + state
				run := world.Start(w, takes, 1, perdure.ID(id))
				synctest.Wait()
				switch state {
				case "suspended":
					if err := w.Engine.Suspend(bg, id, "later"); err != nil {
						t.Fatal(err)
					}
				case "crashed":
					w.Crash()
				}
				d, err := w.Engine.Send(bg, id, name, []byte("{}"), perdure.SendKey("k"))
				if err != nil || d.RunID != run.RunID() {
					t.Errorf("%+v, %v", d, err)
				}
				time.Sleep(time.Minute)
				statusIs(w, id, journal.Cancelled)
				d, err = w.Engine.Send(bg, run.RunID(), name, nil, perdure.SendKey("k"))
				if err != nil || !d.Duplicate {
					t.Errorf("again with the key: %+v, %v", d, err)
				}
				if d, err = w.Engine.Send(bg, run.RunID(), name, nil); err != nil ||
					!d.NotDelivered {
					t.Errorf("once it is cancelled: %+v, %v", d, err)
				}
				same(t, "not taken", w.Unread(id), "[]")
			}
		}
	}, takes)
}

// spec
func TestLargePayloadsOfMessagesComeWhole(t *testing.T) {
	text := perdure.NewSignal[string]("text")
	large := func(i int) string { return strings.Repeat(fmt.Sprint(i%10), 500) }
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
		chosen, err := text.Wait(ctx, perdure.Where(func(s string) bool { return s == large(3) }))
		if err != nil {
			return nil, err
		}
		all, err := text.All(ctx)
		if err != nil || len(all) != 3 || all[0] != large(0) || all[2] != large(2) {
			return nil, fmt.Errorf("the code sees %d, %w", len(all), err)
		}
		n, err := perdure.Step(ctx, "look", func(ctx context.Context) (int, error) {
			all, err := text.All(ctx)
			return len(strings.Join(all, "")), err
		})
		if err != nil || n != 1500 {
			return nil, fmt.Errorf("the step sees %d, %w", n, err)
		}
		first, err := text.Future(ctx).Await(ctx)
		if err != nil {
			return nil, err
		}
		d, err := perdure.Park(ctx, "p", "why")
		return []string{chosen, first, string(d.Data)}, err
	})
	world.InBothModesWith(t, perdure.Options{SpillOver: 100}, func(t *testing.T, w *world.World) {
		for _, crash := range []bool{false, true} {
			id := fmt.Sprint(crash)
			next := func() {
				synctest.Wait()
				if crash {
					w.Crash()
				}
			}
			send(w, text, id, large(0))
			next()
			world.Start(w, wf, 0, perdure.ID(id))
			for i := range 3 {
				next()
				send(w, text, id, large(i+1))
			}
			next()
			if err := w.Engine.Decide(context.Background(), id, "p",
				perdure.Decision{Data: []byte(large(9))}); err != nil {
				t.Fatal(err)
			}
			gives(w, wf, id, []string{large(3), large(0), large(9)})
			same(t, "not taken", w.Unread(id), fmt.Sprintf("[text=%q text=%q]", large(1), large(2)))
		}
	}, wf)
}

// spec: R-22
func TestSendWithStartReachesTheOpenRunOrANewOne(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		bg := context.Background()
		sendWith := func(id string, v int, opts ...perdure.StartOption) perdure.Delivery {
			t.Helper()
			d, err := perdure.SendWithStart(bg, w.Engine, paid, v, takes, 3,
				append(opts, perdure.ID(id))...)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		send(w, paid, "x", 0)
		first := sendWith("x", 1, perdure.SendKey("k"))
		if !first.New || first.RunID == "" || first.Duplicate {
			t.Errorf("%+v", first)
		}
		if d := sendWith("x", 9, perdure.SendKey("k")); d.New || !d.Duplicate ||
			d.RunID != first.RunID {
			t.Errorf("the same key: %+v", d)
		}
		time.Sleep(time.Minute)
		w.Crash()
		if d := sendWith("x", 2); d.New || d.RunID != first.RunID {
			t.Errorf("to the open run: %+v", d)
		}
		gives(w, takes, "x", []int{0, 1, 2})
		second := sendWith("x", 3, perdure.SendKey("k"))
		if !second.New || second.RunID == first.RunID || second.Duplicate {
			t.Errorf("after the end: %+v", second)
		}
		if err := w.Engine.Suspend(bg, "x", "later"); err != nil {
			t.Fatal(err)
		}
		if d := sendWith("x", 4); d.New || d.RunID != second.RunID {
			t.Errorf("to a suspended run: %+v", d)
		}
		if err := w.Engine.Resume(bg, "x"); err != nil {
			t.Fatal(err)
		}
		sendWith("x", 5)
		gives(w, takes, "x", []int{3, 4, 5})

		world.Start(w, chain, nil, perdure.ID("held"))
		_, err := perdure.SendWithStart(bg, w.Engine, paid, 1, takes, 3, perdure.ID("held"))
		world.CodeIs(t, err, journal.CodeConflict)
		time.Sleep(time.Second)
		same(t, "not taken", w.Unread("held"), "[]")
		statusIs(w, "held", journal.Waiting)
	}, takes, chain)
}

// Each call of the store fails or is the last one before a crash.
//
// spec
func TestSendWithStartIsAtomicWhateverFails(t *testing.T) {
	for _, fault := range []storetest.Fault{
		storetest.FailBefore, storetest.FailAfter, storetest.CrashBefore, storetest.CrashAfter,
	} {
		for call := 1; ; call++ {
			reached := false
			synctest.Test(t, func(t *testing.T) {
				var faulty *storetest.Faulty
				w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{takes}}
				w.Options.Build, w.Options.IdleTimeout = "test", -1
				w.Wrap = func(s store.Store) store.Store {
					faulty = storetest.NewFaulty(s, storetest.Plan{Call: call, Fault: fault})
					return faulty
				}
				w.Begin()
				first := faulty
				acked := 0
				for i := range 3 {
					_, err := perdure.SendWithStart(context.Background(), w.Engine, paid, i, takes,
						4,
						perdure.ID("x"), perdure.SendKey(fmt.Sprint("k", i)))
					if err != nil {
						break
					}
					acked++
				}
				time.Sleep(time.Minute)
				reached = len(first.Injected()) > 0
				w.Wrap = nil
				if w.Stopped() {
					w.DB = w.DB.Reopen()
					<-w.Done
					w.Begin()
				} else {
					w.Crash()
				}
				defer func() { w.End() }()
				if acked > 0 {
					if d := send(w, paid, "x", 9, perdure.SendKey("k0")); !d.Duplicate {
						t.Errorf("call %d, fault %d: an acknowledged signal is lost: %+v", call,
							fault, d)
					}
				}
				for i := range 3 { // the sender tries again
					if _, err := perdure.SendWithStart(context.Background(), w.Engine, paid, i,
						takes, 4,
						perdure.ID("x"), perdure.SendKey(fmt.Sprint("k", i))); err != nil {
						t.Error(err)
					}
				}
				heads, _, err := w.Engine.List(context.Background(), perdure.Query{})
				if err != nil || len(heads) != 1 {
					t.Errorf("call %d, fault %d: %d runs, %v", call, fault, len(heads), err)
				}
				send(w, paid, "x", 9)
				gives(w, takes, "x", []int{0, 1, 2, 9})
			})
			if !reached || t.Failed() {
				if call < 4 {
					t.Errorf("only %d faults were injected", call-1)
				}
				break
			}
		}
	}
}

// A signal has one of three answers, and the state of the run is not an error.
//
// spec: F-22
func TestASignalIsDeliveredUnroutedOrNotDelivered(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run := world.Start(w, takes, 2, perdure.ID("x")) // both signals of the first answers
		gone := perdure.Delivery{NotDelivered: true}
		over := perdure.Delivery{RunID: run.RunID(), NotDelivered: true, Status: journal.Completed}
		c, err := perdure.NewClient(t.Context(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		answers := func(id, name string, want perdure.Delivery) {
			t.Helper()
			typed, err := paid.Send(t.Context(), c, id, 1)
			if name != "paid" {
				typed, err = w.Engine.Send(t.Context(), id, name, []byte("1"))
			}
			bare, other := c.Send(t.Context(), id, name, []byte("1"))
			typed.Number, bare.Number = 0, 0
			if typed != want || bare != want || err != nil || other != nil {
				t.Errorf("%s to %s: %+v, %v; %+v, %v; want %+v", name, id, typed, err, bare, other,
					want)
			}
		}
		answers("x", "paid", perdure.Delivery{RunID: run.RunID()})
		answers("nobody", "paid", perdure.Delivery{Unrouted: true})
		nobody := string(run.RunID()[:9]) + "1-999"
		answers(nobody, "paid", gone)
		answers(nobody, "Cancel", gone)
		answers("nobody", "Cancel", gone)
		gives(w, takes, "x", []int{1, 1})
		answers(run.RunID(), "paid", over)
		answers(run.RunID(), "Cancel", over)
		answers("x", "paid", perdure.Delivery{Unrouted: true})
	}, takes)
}
