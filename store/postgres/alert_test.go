package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/postgres"
)

// A receiver is a server of webhooks that notes which runs it is told of.
type receiver struct {
	mu   sync.Mutex
	told map[string]bool // run IDs
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	var a alert.Alert
	if err := json.NewDecoder(q.Body).Decode(&a); err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, run := range a.Runs {
		r.told[run.RunID] = true
	}
}

// hasAll reports whether it was told of all of some runs.
func (r *receiver) hasAll(runs []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(runs, func(id string) bool { return !r.told[id] })
}

// others returns the runs that it was told of and that are not among some runs.
func (r *receiver) others(runs []string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.told {
		if !slices.Contains(runs, id) {
			all = append(all, id)
		}
	}
	return all
}

// bills returns a workflow that fails if its input is odd.
func bills() *perdure.Workflow[int, int] {
	return perdure.Define("bill", func(ctx context.Context, n int) (int, error) {
		return perdure.Step(ctx, "pay", func(context.Context) (int, error) {
			if n%2 == 1 {
				return 0, errors.New("no money")
			}
			return n, nil
		}, perdure.NoRetry)
	})
}

// The node that has the run of alerts dies while runs end. The other one takes that run over, and
// alerts of each run that has failed, and of no other. Two more recipients fail: one answers 500,
// and one is not there. That touches no other run.
//
// spec: R-31
func TestAlertsGoOnWhenTheirNodeDies(t *testing.T) {
	url, ctx := testpg.URL(t), patient(t)
	good := &receiver{told: map[string]bool{}}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(good)
	failing := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	working := serve(good)
	gone.Close() // the last, so that no other recipient gets its port
	bill := bills()
	alerts := func() perdure.Definition {
		return alert.Workflow(alert.Options{
			Secret: []byte("s"), Internal: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		})
	}
	dies, died := mortal(t, url, bill, alerts())
	if err := alert.Set(ctx, dies, "bill", alert.Rule{
		To:     []string{failing, working, gone.URL},
		Causes: []alert.Cause{alert.CauseEnded},
	}, admin.Note{}); err != nil {
		t.Fatal(err)
	}
	var owner journal.EngineID
	for owner == 0 { // so that no other node takes the run of alerts
		rest(ctx, t)
		owner = ownerOf(t, dies, "perdure.alert")
	}
	lives, _ := mortal(t, url, bill, alerts())
	runs := map[journal.Status][]string{}
	for n := range 60 {
		if n == 30 {
			if was := ownerOf(t, lives, "perdure.alert"); was != owner || was == 0 {
				t.Fatalf("engine %d has the run of alerts, want the first one, %d", was, owner)
			}
			died()
		}
		eng := lives
		if n < 30 && n%4 < 2 {
			eng = dies
		}
		run, err := bill.Start(ctx, eng, n, perdure.ID(fmt.Sprint("b", n)))
		if err != nil {
			t.Fatal(err)
		}
		ends := journal.Completed
		if n%2 == 1 {
			ends = journal.Failed
		}
		runs[ends] = append(runs[ends], run.RunID())
	}
	fail := runs[journal.Failed]
	for !good.hasAll(fail) {
		rest(ctx, t)
	}
	if others := good.others(fail); len(others) > 0 {
		t.Errorf("it is told of runs that have not failed: %v", others)
	}
	if now := ownerOf(t, lives, "perdure.alert"); now == owner {
		t.Error("the dead node still has the run of alerts")
	}
	delivered(ctx, t, lives, len(fail))
	for status, ids := range runs {
		for _, id := range ids {
			d, err := lives.Describe(ctx, id)
			if err != nil || d.Head.Status != status {
				t.Errorf("run %s: %v, %v", id, d.Head.Status, err)
			}
		}
	}
}

// mortal starts a node that keeps its runs in memory, and returns what ends it as the death of its
// process would.
func mortal(t *testing.T, url string, all ...perdure.Definition) (*perdure.Engine, func()) {
	t.Helper()
	s, err := postgres.OpenWith(t.Context(), url, postgres.Options{Lease: chaosLease})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := perdure.New(s, perdure.Options{
		Build: "test", IdleTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = eng.Register(all...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done; _ = s.Close() })
	return eng, func() { _ = s.Close() }
}

// ownerOf returns the engine that has a run.
func ownerOf(t *testing.T, eng *perdure.Engine, id string) journal.EngineID {
	t.Helper()
	d, err := eng.Describe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return d.Head.Owner
}

// rest waits a while.
func rest(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
}

// delivered waits until each recipient has so many deliveries, and those to one of three are
// COMPLETED. It fails the test if there are more, or if one has failed for good.
func delivered(ctx context.Context, t *testing.T, eng *perdure.Engine, want int) {
	t.Helper()
	for {
		all, _, err := eng.List(ctx, perdure.Query{
			Workflow: "perdure.alert-delivery", Limit: 1000,
		})
		if err != nil {
			t.Fatal(err)
		}
		n := map[journal.Status]int{}
		for _, h := range all {
			n[h.Status]++
		}
		if n[journal.Failed] > 0 || n[journal.Completed] > want || len(all) > 3*want {
			t.Fatalf("%d deliveries are %v", len(all), n)
		}
		if n[journal.Completed] == want && len(all) == 3*want {
			return
		}
		rest(ctx, t)
	}
}
