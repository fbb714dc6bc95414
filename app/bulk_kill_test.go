package app

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/scripted"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/store/open"
	"github.com/perdure/perdure/store/sqlite"
)

var bulkRuns = flag.Int("bulk.runs", 600, "failed runs of the batch whose engine is killed")

// An engine that carries out a batch is killed twice with SIGKILL, and another one ends the batch:
// each run has been retried once. CI has a few hundred runs; -bulk.runs=10000 has as many as a bad
// night.
//
// spec: B-8, R-40
func TestABatchWhoseEngineIsKilledTwiceRetriesEachRunOnce(t *testing.T) {
	n, dir := *bulkRuns, t.TempDir()
	t.Chdir(dir)
	failRuns(t, filepath.Join(dir, "perdure.db"), n)
	args := []string{"runs", "retry", "--filter", "workflow=refuse", "--yes", "-o", "json"}
	if n <= 1000 { // a second for each page, so that it is not over before it is looked at
		args = append(args, "--rate", "100")
	}
	r := shop(t.Context(), t, args...)
	var b batch.Batch
	if err := json.Unmarshal([]byte(r.stdout), &b); err != nil || r.code != exitOK {
		t.Fatal(r, err)
	}
	c := reader(t)
	began := time.Now()
	for _, until := range []int{n / 4, n / 2} {
		worker := serve(t)
		started := untilStarted(t, c, until)
		if err := worker.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = worker.Wait() // it was killed
		b = look(t, c, b.ID)
		t.Logf("killed after %v, %d runs, of which %d are recorded", time.Since(began), started,
			b.Done)
	}
	worker := serve(t)
	run, err := c.Get(t.Context(), b.RunID)
	if err == nil {
		_, err = run.Result(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	b = look(t, c, b.ID)
	t.Logf("%d runs in %v", b.Done, time.Since(began))
	_ = worker.Process.Signal(os.Interrupt)
	_ = worker.Wait() // its exit code is that of an interrupt
	if b.Status != batch.Done || b.Done != int64(n) || b.Matched != b.Done {
		t.Errorf("%+v", b)
	}
	retried := runsOfIDs(t, c)
	for id, runs := range retried {
		if runs != 2 {
			t.Errorf("%s has %d runs, want 2", id, runs)
		}
	}
	if len(retried) != n {
		t.Errorf("%d workflow IDs, want %d", len(retried), n)
	}
}

// failRuns makes a database with n runs that have failed.
func failRuns(t *testing.T, file string, n int) {
	t.Helper()
	s, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = eng.Register(scripted.Workflows...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- eng.Run(ctx) }()
	var all sync.WaitGroup
	slots := make(chan struct{}, 100)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			run, err := eng.Start(ctx, "refuse", []byte(`"no"`), perdure.ID(fmt.Sprint("r-", i)))
			if err == nil {
				_, _ = run.Result(ctx) // that it was refused
			} else {
				t.Error(err)
			}
			<-slots
		})
	}
	all.Wait()
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
}

// serve starts the program as an engine.
func serve(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "serve", "--log", "off")
	cmd.Env = append(os.Environ(), child+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	return cmd
}

// reader returns a client that reads the database of this directory.
func reader(t *testing.T) *perdure.Client {
	t.Helper()
	s, err := open.Store(t.Context(), "perdure.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c, err := perdure.NewClient(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// look returns a batch as it is now.
func look(t *testing.T, c *perdure.Client, id string) batch.Batch {
	t.Helper()
	b, err := batch.Get(t.Context(), c, id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// untilStarted returns when a batch has retried so many runs, if possible in the middle of a page
// of a hundred.
func untilStarted(t *testing.T, c *perdure.Client, until int) int {
	t.Helper()
	for {
		n := 0
		for _, runs := range runsOfIDs(t, c) {
			n += runs - 1
		}
		switch {
		case n == *bulkRuns:
			t.Fatal("the batch was over before its engine was killed")
		case n >= until && n%100 > 20 && n%100 < 60, n > until+100: // the page was over too soon
			return n
		}
	}
}

// runsOfIDs returns the number of runs of each workflow ID.
func runsOfIDs(t *testing.T, c *perdure.Client) map[string]int {
	t.Helper()
	all := map[string]int{}
	for q := (perdure.Query{Workflow: "refuse", Limit: 1000}); ; {
		heads, next, err := c.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads {
			all[h.WorkflowID]++
		}
		if q.After = next; next.IsZero() {
			return all
		}
	}
}
