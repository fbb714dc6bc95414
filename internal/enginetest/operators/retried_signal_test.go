package operators

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/update"
)

// A run that goes on from another one has the signals that have left no trace in its journal. These
// are those that the other run had not taken, and those that only what is done again had taken.
//
// spec: P-4, R-17, R-18
func TestARetryHasTheSignalsOfWhatItDoesAgain(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHands("charge")
				paid, note := perdure.NewSignal[string]("paid"), perdure.NewSignal[string]("note")
				wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
					got := ""
					wait := func(sig perdure.Signal[string]) error {
						v, err := sig.Wait(ctx)
						got += fmt.Sprintf(" %.2s/%d", v, len(v))
						return err
					}
					if err := wait(paid); err != nil {
						return "", err
					}
					_, err := perdure.Step(ctx, "charge", s.step("charge"), perdure.NoRetry)
					if err != nil { // what it takes from here on is done again
						_ = wait(note)
						all, _ := perdure.Inbox(ctx, "paid")
						_, _ = perdure.Take(ctx, all[1].Number)
						return "", err
					}
					for _, sig := range []perdure.Signal[string]{paid, paid, note, paid, note} {
						if err := wait(sig); err != nil {
							return "", err
						}
					}
					return got, nil
				}, perdure.Retention{Period: time.Hour})
				w := world.New(t, wf)
				defer func() { w.End() }()
				send := func(sig perdure.Signal[string], v string) perdure.Delivery {
					d, err := sig.Send(t.Context(), w.Engine, "w", v, perdure.SendKey(v[:2]))
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				old := world.Start(w, wf, 1, perdure.ID("w"), perdure.Dedup(0))
				if err := w.Engine.Suspend(t.Context(), "w", "wait"); err != nil {
					t.Fatal(err)
				}
				send(paid, "p1")
				send(paid, "p2")
				send(note, "n1")
				send(paid, "p3"+strings.Repeat("x", 300_000))
				send(note, "n2")
				if err := w.Engine.Resume(t.Context(), "w"); err != nil {
					t.Fatal(err)
				}
				ends(t, old, "charge is broken")
				for range 2 { // the second time, the signals come from a run that had them moved
					time.Sleep(time.Second)
					ends(t, retry(w, wf, "w"), "charge is broken")
				}
				s.breaks()
				time.Sleep(time.Second)
				again := retry(w, wf, "w")
				if crash {
					w.Crash()
					again, _ = wf.Get(t.Context(), w.Engine, again.RunID())
				}
				synctest.Wait()
				if d := send(paid, "p2"); !d.Duplicate {
					t.Errorf("the same signal is %+v", d)
				}
				send(paid, "p4")
				want := " p1/2 p2/2 p3/300002 n1/2 p4/2 n2/2"
				if out := ends(t, again, ""); out != want {
					t.Errorf("it got%s, want%s", out, want)
				}
			})
		})
	}
}

// The sender of an update that the run has not replied to was told that the run has ended. So the
// update does not count later. One that has its reply counts, and has a reply again.
//
// spec: B-21, P-4
func TestARetryHasTheUpdatesThatHaveReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		add := update.New[int, int]("add", nil)
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, failed := perdure.Step(ctx, "charge", s.step("charge"), perdure.NoRetry)
			ask, err := add.Wait(ctx)
			if err != nil {
				return 0, err
			}
			if err := ask.Reply(ctx, ask.Value+1); err != nil {
				return 0, err
			}
			if failed != nil {
				return 0, perdure.Sleep(ctx, time.Minute)
			}
			if ask, err := add.Wait(ctx, perdure.Within(time.Minute)); err == nil {
				t.Errorf("update %d counts", ask.Value)
			}
			return ask.Value, nil
		}, perdure.Timeout(time.Hour))
		w := world.New(t, wf)
		defer w.End()
		old := world.Start(w, wf, 1, perdure.ID("w"))
		send := func(v int, key string) (int, error) {
			return add.Send(t.Context(), w.Engine, "w", v, perdure.SendKey(key))
		}
		if got, err := send(1, "a"); got != 2 || err != nil {
			t.Fatal(got, err)
		}
		unread := make(chan error)
		go func() {
			_, err := send(5, "b")
			unread <- err
		}()
		synctest.Wait()
		if err := w.Engine.Cancel(t.Context(), "w", "enough"); err != nil {
			t.Fatal(err)
		}
		if err := <-unread; err == nil || !strings.Contains(err.Error(), "without a reply") {
			t.Fatal(err)
		}
		ends(t, old, "cancelled")
		s.breaks()
		fork, err := admin.New(w.Engine).Act(t.Context(), "w", admin.Order{
			Action: journal.ActionFork, Step: "charge",
		})
		if err != nil {
			t.Fatal(err)
		}
		again, err := wf.Get(t.Context(), w.Engine, fork.RunID)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := send(1, "a"); got != 2 || err != nil {
			t.Errorf("its reply is %d, %v", got, err)
		}
		if got := ends(t, again, ""); got != 1 {
			t.Errorf("it returned %d", got)
		}
	})
}

// The second retry does not have the reply in its own past.
//
// spec: B-21, P-4
func TestAnUpdateThatHasItsReplyIsInEveryRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		add := update.New[int, int]("add", nil)
		first := true
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, failed := perdure.Step(ctx, "charge", s.step("charge"), perdure.NoRetry)
			if failed != nil && !first {
				return 0, failed
			}
			ask, err := add.Wait(ctx, perdure.Within(time.Minute))
			if err != nil {
				return 0, err
			}
			if err := ask.Reply(ctx, ask.Value+1); err != nil {
				return 0, err
			}
			return ask.Value, failed
		})
		w := world.New(t, wf)
		defer w.End()
		old := world.Start(w, wf, 1, perdure.ID("w"))
		got, err := add.Send(t.Context(), w.Engine, "w", 1, perdure.SendKey("a"))
		if got != 2 || err != nil {
			t.Fatal(got, err)
		}
		ends(t, old, "charge is broken")
		first = false
		for range 2 {
			time.Sleep(time.Second)
			ends(t, retry(w, wf, "w"), "charge is broken")
		}
		s.breaks()
		time.Sleep(time.Second)
		if got := ends(t, retry(w, wf, "w"), ""); got != 1 {
			t.Errorf("it got %d", got)
		}
	})
}
