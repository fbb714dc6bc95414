package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An engine claims a run that a process without an engine has started.
//
// spec: P-2
func TestANodeHearsOfARunThatAClientHasStarted(t *testing.T) {
	url := testpg.URL(t)
	node, client := mustOpen(t, url, Options{}), mustOpen(t, url, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	heard, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		node.Watch(ctx, func() { heard <- struct{}{} })
	}()
	defer func() {
		cancel()
		for {
			select {
			case <-heard:
			case <-over:
				return
			}
		}
	}()
	<-heard // it listens
	reserved, err := client.Claim(ctx, store.ReserveID{})
	if err != nil {
		t.Fatal(err)
	}
	now, number := time.Now(), journal.Number(reserved.Engine)<<37|1
	err = client.Commit(ctx, &store.Group{Now: now, Changes: []store.Change{{
		Run: number, Create: true,
		Head: &journal.Head{
			Number: number, ID: journal.MakeRunID(client.database, number), WorkflowID: "w-1",
			Workflow: "w", Status: journal.Pending, Wake: now, Created: now, Last: 1,
		},
		Entries: []journal.Entry{{Run: number, Seq: 1, Kind: journal.RunStarted, At: now}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil { // immediately, as a command does
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(20 * time.Second):
		t.Error("it does not hear of the run")
	}
}

// A node that gets no notifications polls often while it is busy, and rarely while it is not.
//
// spec: P-2
func TestANodeThatHearsNothingAsksMoreOftenWhileItIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{options: Options{Pooler: true}, life: t.Context()}
		ctx, stop := context.WithCancel(t.Context())
		var asked atomic.Int64
		var watching sync.WaitGroup
		watching.Go(func() { s.Watch(ctx, func() { asked.Add(1) }) })
		in := func(d time.Duration) int64 {
			before := asked.Load()
			time.Sleep(d)
			return asked.Load() - before
		}
		time.Sleep(10 * time.Minute)
		if n := in(time.Minute); n < 6 || n > 7 {
			t.Errorf("it asks %d times in a minute without work", n)
		}
		s.busy.Add(1)
		for in(oftenest) == 0 {
		}
		if n := in(time.Second); n < 5 {
			t.Errorf("it asks %d times in the second after there was some", n)
		}
		stop()
		watching.Wait()
	})
}
