package tcc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

// A slow store takes a millisecond for each commit, and notes the entries in it.
type slow struct {
	store.Store
	mu      sync.Mutex
	commits []string
	durable map[journal.Status]bool // statuses that durable entries have set
}

func (s *slow) Commit(ctx context.Context, g *store.Group) error {
	time.Sleep(time.Millisecond)
	var kinds []string
	for _, c := range g.Changes {
		for _, e := range c.Entries {
			kinds = append(kinds, e.Kind.String())
		}
	}
	err := s.Store.Commit(ctx, g)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits = append(s.commits, strings.Join(kinds, " "))
	for _, c := range g.Changes {
		for _, e := range c.Entries {
			s.durable[e.Status] = true
		}
	}
	return err
}

// has reports whether an entry with that status is durable.
func (s *slow) has(status journal.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable[status]
}

// withSlowStore runs a test with an engine on a slow store.
func withSlowStore(t *testing.T, make func(*slow) *tcc.TCC[int],
	test func(t *testing.T, eng *perdure.Engine, s *slow, d *tcc.TCC[int])) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memory.New(), durable: map[journal.Status]bool{}}
		d := make(s)
		eng, err := perdure.New(s, perdure.Options{Build: "test"})
		if err == nil {
			err = eng.Register(d)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := inBackground(func() error { return eng.Run(ctx) })
		test(t, eng, s, d)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func inBackground(run func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	return done
}

// participants returns a TCC of n participants. Their phases return the result of of.
func participants(n int, of func(phase string, i int) error) *tcc.TCC[int] {
	d := tcc.New[int]("some")
	for i := range n {
		tcc.Add(d, fmt.Sprint("p", i), func(context.Context, int) (int, error) {
			return i, of("try", i)
		}).
			Confirm(func(context.Context, int, int) error { return of("confirm", i) }).
			Cancel(func(context.Context, int, int) error { return of("cancel", i) }).
			Retry(perdure.NoRetry)
	}
	return d
}

// The commits are: the start, one for each try, the last of which has the decision, and the
// confirms with the end. The best of some runs counts, since a timer may make a result durable
// before the others are there.
//
// spec: F-37, F-38
func TestTCCOfThreeCostsFiveCommits(t *testing.T) {
	withSlowStore(t, func(*slow) *tcc.TCC[int] {
		return participants(3, func(string, int) error { return nil })
	}, func(t *testing.T, eng *perdure.Engine, s *slow, d *tcc.TCC[int]) {
		var fewest []string
		for range 5 {
			s.commits = nil
			r, err := d.Execute(t.Context(), eng, 1)
			if err != nil || !r.IsConfirmed() {
				t.Fatal(r.Status, r.Err, err)
			}
			if n := len(s.commits); fewest == nil || n < len(fewest) {
				fewest = s.commits
			}
		}
		if n := len(fewest); n > 5 {
			t.Errorf("%d commits:\n%s", n, strings.Join(fewest, "\n"))
		}
	})
}

// spec: F-38
func TestDecisionIsDurableBeforeAnybodyHearsOfIt(t *testing.T) {
	for _, fails := range []string{"", "try 2", "confirm 1"} {
		t.Run(fails, func(t *testing.T) {
			var heard sync.Map
			withSlowStore(t, func(s *slow) *tcc.TCC[int] {
				return participants(3, func(phase string, i int) error {
					heard.Store(phase, true)
					if phase == "confirm" && !s.has(journal.Confirming) ||
						phase == "cancel" && !s.has(journal.Canceling) {
						t.Errorf("%s of p%d begins before that is durable", phase, i)
					}
					if fmt.Sprint(phase, " ", i) == fails {
						return errOdd
					}
					return nil
				})
			}, func(t *testing.T, eng *perdure.Engine, s *slow, d *tcc.TCC[int]) {
				r, err := d.Execute(t.Context(), eng, 1)
				if err != nil || r.IsConfirmed() != (fails == "") ||
					r.IsCanceled() != (fails != "") {
					t.Error(r.Status, r.Err, err)
				}
				for _, phase := range []string{"confirm", "cancel"} {
					_, did := heard.Load(phase)
					if want := phase == "confirm" && fails != "try 2" ||
						phase == "cancel" && fails != ""; did != want {
						t.Errorf("%s: %v", phase, did)
					}
				}
			})
		})
	}
}
