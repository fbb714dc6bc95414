package waiting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
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

// sink takes messages in many ways; each message determines what comes next.
var sink = perdure.Define("sink", func(ctx context.Context, _ int) (int, error) {
	second := paid.Future(ctx, perdure.Where(func(v int) bool { return v%5 == 3 }))
	for n := 0; ; n++ {
		v, err := paid.Wait(ctx, perdure.Within(700*time.Millisecond))
		if journal.CodeOf(err) == journal.CodeTimedOut {
			if _, err = paid.Has(ctx); err == nil {
				v, err = paid.Wait(ctx)
			}
		}
		if err != nil {
			return n, err
		}
		switch v % 11 {
		case 0:
			return n, nil
		case 1, 2:
			return n, perdure.ContinueAsNew(ctx, v)
		case 3:
			_, err = perdure.Step(ctx, "work", world.Work("w", time.Second, nil))
		case 4:
			err = perdure.Sleep(ctx, 500*time.Millisecond)
		case 5:
			_, err = second.Cancel(ctx, "enough")
		case 6:
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			_, _ = other.Wait(short)
			cancel()
		}
		if err != nil {
			return n, err
		}
	}
})

// A storm sends messages while everything else happens to the runs that they are
// for.
type storm struct {
	*world.World
	mu    sync.Mutex
	rand  *rand.Rand
	next  int
	acked map[int]bool
	runs  []string
}

func (s *storm) pick(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// engine returns the current engine.
func (s *storm) engine() *perdure.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Engine
}

// target returns a workflow ID or a run ID.
func (s *storm) target() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs) > 0 && s.rand.IntN(3) == 0 {
		return s.runs[s.rand.IntN(len(s.runs))]
	}
	return []string{"a", "b"}[s.rand.IntN(2)]
}

// deliver sends one message. If it is for one run, and not for whichever run has the workflow ID,
// it is sent again and again under the same key.
func (s *storm) deliver(start bool) {
	s.mu.Lock()
	v := s.next
	s.next++
	s.mu.Unlock()
	to, key := s.target(), perdure.SendKey(strconv.Itoa(v))
	byID, tries := to == "a" || to == "b", 1+s.pick(3)
	if byID {
		tries = 1
	}
	for range tries {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		var d perdure.Delivery
		var err error
		if start && byID {
			d, err = perdure.SendWithStart(ctx, s.engine(), paid, v, sink, 0, perdure.ID(to), key)
		} else {
			d, err = paid.Send(ctx, s.engine(), to, v, key)
		}
		cancel()
		if err != nil || d.NotDelivered {
			continue
		}
		s.mu.Lock()
		s.acked[v] = true
		if d.RunID != "" {
			s.runs = append(s.runs, string(d.RunID))
		}
		s.mu.Unlock()
	}
}

func (s *storm) act() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch s.pick(16) {
	case 0:
		_ = s.engine().Suspend(ctx, s.target(), "storm")
	case 1, 2, 3:
		_ = s.engine().Resume(ctx, s.target())
	case 4:
		if s.pick(3) == 0 {
			_ = s.engine().Cancel(ctx, s.target(), "storm")
		}
	case 5:
		if all, err := s.engine().Unrouted(ctx, 0, 1); err == nil && len(all) > 0 {
			_, _ = s.engine().Deliver(ctx, all[0].Number, s.target())
		}
	case 6, 7:
		s.deliver(true)
	case 8, 9:
		time.Sleep(time.Duration(s.pick(1500)) * time.Millisecond)
	default:
		s.deliver(false)
	}
}

// faults makes a store of which some commits and claims fail, or lose their
// answers.
func (s *storm) faults(db store.Store) store.Store {
	var plans []storetest.Plan
	for range 15 {
		plans = append(plans, storetest.Plan{
			Method: []storetest.Method{
				storetest.Commit, storetest.Commit, storetest.Claim,
			}[s.rand.IntN(3)],
			Call: 2 + s.rand.IntN(60), Fault: storetest.Fault(1 + s.rand.IntN(2)),
		})
	}
	return storetest.NewFaulty(db, plans...)
}

// audit demands that each acknowledged message is in one place, and no message in two.
func (s *storm) audit(seed uint64) {
	bg := context.Background()
	where := map[int][]string{}
	put := func(place string, data []byte) {
		v, err := strconv.Atoi(string(data))
		if err != nil {
			s.T.Errorf("seed %d: %s has %q", seed, place, data)
		}
		where[v] = append(where[v], place)
	}
	heads, _, err := s.DB.Find(bg, store.Filter{Limit: store.MaxLimit})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, h := range append(heads, journal.Head{}) {
		if h.Number != 0 {
			for _, e := range s.History(string(h.ID)) {
				if e.Kind == journal.SignalConsumed {
					put(fmt.Sprintf("%s, taken by entry %d", h.ID, e.Seq), e.Data)
				}
			}
		}
		left, err := s.DB.Load(bg, h.Number, store.Range{Inbox: true})
		if err != nil {
			s.T.Fatal(err)
		}
		for _, m := range left {
			if m.Kind == journal.SignalReceived {
				put(fmt.Sprintf("%s %v, message %d", h.ID, h.Status, m.Seq), m.Data)
			}
		}
		if h.Status == journal.Suspended && h.Cause != "storm" {
			s.T.Errorf("seed %d: run %s is parked: %s", seed, h.ID, h.Cause)
		}
	}
	for v := range s.next {
		if n := len(where[v]); n > 1 || n == 0 && s.acked[v] {
			s.T.Errorf("seed %d: message %d (acknowledged: %v) is in %d places: %q", seed, v,
				s.acked[v], n,
				where[v])
		}
	}
	if len(s.acked) < 10 {
		s.T.Errorf("seed %d: only %d messages were acknowledged", seed, len(s.acked))
	}
}

// Signals race with starts, suspends, resumes, ends, successors, unloads, crashes,
// and answers of the store that are lost. None that was acknowledged is lost, and
// none is taken twice.
//
// spec
func TestNoAcknowledgedSignalIsLost(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := &storm{rand: rand.New(rand.NewPCG(seed, 6)), acked: map[int]bool{}}
			s.World = &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{sink},
				Wrap: s.faults}
			s.Options.Build, s.Options.IdleTimeout = "test", []time.Duration{
				-1, 0, 50 * time.Millisecond,
			}[seed%3]
			s.Begin()
			for range 3 {
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						for range 12 {
							s.act()
						}
					})
				}
				time.Sleep(time.Duration(s.pick(3000)) * time.Millisecond)
				if s.pick(2) == 0 {
					s.Kill()
					s.mu.Lock()
					s.Begin()
					s.mu.Unlock()
				}
				all.Wait()
			}
			s.Wrap = nil
			s.Crash()
			defer func() { s.End() }()
			time.Sleep(time.Hour)
			s.audit(seed)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
