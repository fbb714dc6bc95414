package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/postgres"
)

// A node is an engine with a handle of its own on the database.
type node struct {
	*perdure.Engine
	store *postgres.Store
	stop  func() // makes it leave, and waits until it has
}

// start starts a node that executes workflows. It ends with the test.
func start(t testing.TB, url string, o postgres.Options, workflows ...perdure.Definition) *node {
	t.Helper()
	s, err := postgres.OpenWith(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := perdure.New(s, perdure.Options{Build: "test", IdleTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Register(workflows...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var stopped atomic.Bool
	n := &node{Engine: e, store: s}
	n.stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the engine stopped: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(n.stop)
	return n
}

// patient returns a context that ends when a test takes far too long.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// await returns a workflow that waits for two signals. Its result has the name of the node
// that executed the step between them.
func await(name string) *perdure.Workflow[string, string] {
	return perdure.Define("await", func(ctx context.Context, in string) (string, error) {
		first, err := perdure.NewSignal[string]("go").Wait(ctx)
		if err != nil {
			return "", err
		}
		at, err := perdure.Step(ctx, "where", func(context.Context) (string, error) {
			return name, nil
		})
		if err != nil {
			return "", err
		}
		second, err := perdure.NewSignal[string]("go").Wait(ctx)
		return in + first + second + "@" + at, err
	})
}

// TestRunsAreUsedFromAnyNode starts, signals, cancels and awaits runs from nodes that
// do not own them.
//
// spec: B-5, R-13
func TestRunsAreUsedFromAnyNode(t *testing.T) {
	url := testpg.URL(t)
	ctx := patient(t)
	wf := await("one")
	one := start(t, url, postgres.Options{}, wf)
	two := start(t, url, postgres.Options{}) // has no workflow
	client, err := postgres.OpenWith(ctx, url, postgres.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	third, err := perdure.NewClient(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := range 10 {
		id := fmt.Sprint("r-", i)
		run, err := third.Start(ctx, "await", []byte(`"in"`), perdure.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := perdure.NewSignal[string]("go").Send(ctx, two, id, "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := perdure.NewSignal[string]("go").Send(ctx, third, id, "b"); err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(ctx); string(out) != `"inab@one"` || err != nil {
			t.Fatalf("the run gives %s, %v", out, err)
		}
	}
	t.Logf("a start, two signals and an end that was awaited, all on other nodes: %v",
		time.Since(began)/10)
	run, err := wf.Start(ctx, one, "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Cancel(ctx, run.ID(), "enough"); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); err == nil {
		t.Error("a run that another node has cancelled has ended well")
	}
	d, err := third.Describe(ctx, run.ID())
	if err != nil || d.Head.Status != journal.Cancelled {
		t.Errorf("the run is %v, %v", d.Head.Status, err)
	}
}
