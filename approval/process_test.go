package approval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/sqlite"
)

// Wherever a crash comes, each decision counts once, and what is refused is refused.
//
// spec: R-21
func TestADecisionCountsOnceWhereverACrashComes(t *testing.T) {
	wf := asking(approval.Ask{
		Key: "k", Role: "clerk", Quorum: 2, Within: 10 * hour, Form: percentForm{},
		Escalate: []approval.Escalation{{After: hour, Role: "boss"}},
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, wf, 0, perdure.ID("a"))
		var got []string
		decide := func(by, role, data string) {
			var r approval.Receipt
			err := env.Do(func(e *perdure.Engine) (err error) {
				r, err = approval.Decide(env.Context(), e, "a", "k", approval.Decision{
					Approved: true, By: by, Role: role, Data: json.RawMessage(data),
				}, perdure.SendKey(by+role+fmt.Sprint(len(data))))
				return err
			})
			got = append(got, fmt.Sprint(r.Status, r.Approved, journal.CodeOf(err)))
		}
		env.Settle()
		decide("ada", "clerk", `{"percent":1}`)
		decide("bob", "boss", `{"percent":1}`)
		decide("bob", "clerk", `{}`)
		decide("ada", "clerk", `{"percent":22}`)
		env.Sleep(2 * hour)
		list := 0
		if err := env.Do(func(e *perdure.Engine) error {
			all, _, err := approval.List(env.Context(), e, approval.Query{Role: "boss"})
			list = len(all)
			return err
		}); err != nil || list != 1 {
			env.Errorf("%d asks, %v", list, err)
		}
		decide("bob", "boss", `{"percent":22}`)
		run.Returns("approved ada:true bob:true")
		decide("bob", "boss", `{"percent":22}`)
		decide("cy", "boss", `{"percent":22}`)
		want := "[open1 0unauthorised 0invalid 0conflict approved2 approved2 0conflict]"
		if fmt.Sprint(got) != want {
			env.Errorf("%v, want %s", got, want)
		}
		return got
	}, wf)
}

// A process without an engine decides what the run of another one asks for.
//
// spec: R-21
func TestAnotherProcessDecides(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	s, err := sqlite.Open(path)
	world.NoError(t, err)
	e, err := perdure.New(s, perdure.Options{})
	world.NoError(t, err)
	wf := asking(approval.Ask{Key: "k", Role: "manager", Title: "30 %"})
	world.NoError(t, e.Register(wf))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		stop()
		world.NoError(t, <-done)
		world.NoError(t, s.Close())
	}()
	run, err := wf.Start(t.Context(), e, 0, perdure.ID("a"))
	world.NoError(t, err)
	beside, err := sqlite.Open(path)
	world.NoError(t, err)
	defer func() { world.NoError(t, beside.Close()) }()
	client, err := perdure.NewClient(t.Context(), beside)
	world.NoError(t, err)
	var open []approval.Pending
	for len(open) == 0 {
		open, _, err = approval.List(t.Context(), client, approval.Query{Role: "manager"})
		world.NoError(t, err)
	}
	if open[0].RunID != run.RunID() || open[0].Title != "30 %" {
		t.Errorf("%+v", open)
	}
	d := approval.Decision{Approved: true, By: "ada", Role: "clerk"}
	_, err = approval.Decide(t.Context(), client, "a", "k", d)
	world.CodeIs(t, err, journal.CodeUnauthorised)
	d.Role = "manager"
	r, err := approval.Decide(t.Context(), client, run.RunID(), "k", d)
	if err != nil || r.Status != approval.Approved {
		t.Errorf("%+v, %v", r, err)
	}
	if out, err := run.Result(t.Context()); err != nil || out != "approved ada:true" {
		t.Errorf("%q, %v", out, err)
	}
}

// Deciders come in any order, some of them twice, some without the role, and the engine dies
// meanwhile. What the ask comes to is what the accepted decisions make of it, in their order.
//
// spec: R-21
func TestRandomDecidersAgreeWithTheRecord(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			random := world.Seeded(t)
			a := approval.Ask{
				Key: "k", Role: "r", Quorum: 1 + random.IntN(4), Within: time.Minute,
			}
			if random.IntN(2) == 0 {
				a.Of = a.Quorum + random.IntN(4)
			}
			wf := asking(a)
			w := world.With(t, perdure.Options{IdleTimeout: -1}, wf)
			d := office{w, t, wf}
			world.StartAndSettle(w, wf, 0, perdure.ID("a"))
			var mu sync.Mutex
			accepted := map[string]bool{}
			decider := func(by string, random *rand.Rand) {
				for range 3 {
					time.Sleep(time.Duration(random.IntN(25_000)) * time.Millisecond)
					role := "r"
					if random.IntN(3) == 0 {
						role = "other"
					}
					yes := random.IntN(3) > 0
					r, err := approval.Decide(t.Context(), w.Current(), "a", "k",
						approval.Decision{Approved: yes, By: by, Role: role})
					mu.Lock()
					switch code := journal.CodeOf(err); {
					case err == nil && role == "other":
						t.Errorf("%s without the role: %+v", by, r)
					case err == nil && accepted[by]:
						t.Errorf("%s has decided twice: %+v", by, r)
					case err == nil:
						accepted[by] = true
					case code == journal.CodeStopped || code == journal.CodeUnavailable:
						accepted[by] = true // perhaps
					case code == journal.CodeUnauthorised && role != "r",
						code == journal.CodeConflict:
					default:
						t.Errorf("%s as %s: %v", by, role, err)
					}
					mu.Unlock()
				}
			}
			var all sync.WaitGroup
			for i := range 6 {
				r := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
				all.Go(func() { decider(fmt.Sprint("p", i), r) })
			}
			for range random.IntN(3) {
				time.Sleep(time.Duration(random.IntN(20)) * time.Second)
				w.Crash()
			}
			all.Wait()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			s := d.state()
			want, yes, no := approval.Expired, 0, 0
			seen := map[string]bool{}
			for _, o := range s.Decisions {
				if want != approval.Expired || seen[o.By] || o.Role != "r" || !accepted[o.By] {
					t.Errorf("%+v", s)
				}
				if seen[o.By] = true; o.Approved {
					yes++
				} else {
					no++
				}
				switch {
				case yes >= a.Quorum:
					want = approval.Approved
				case a.Of == 0 && no > 0, a.Of > 0 && a.Of-no < a.Quorum:
					want = approval.Rejected
				}
			}
			out := approval.Outcome{Status: s.Status, Decisions: s.Decisions}
			if s.Status != want {
				t.Errorf("%s, want %s: %+v", s.Status, want, s)
			}
			d.returns(textOf(out))
			w.End()
		})
	}
}
