package perduretest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// An archive is a store with one run, whose journal is an exported history. The store below it
// has the entries that are appended to the history. Claims return this run only: other runs that
// are started never begin. There is nothing to deliver from the outbox.
type archive struct {
	store.Store // the store below
	history     []journal.Entry
	head        journal.Head // when it was made

	mu       sync.Mutex
	now      journal.Head    // as it was last written
	appended []journal.Entry // to the history
}

// fill makes the run of that workflow.
func (a *archive) fill(workflow perdure.Registered) error {
	ctx, below, now := context.Background(), memory.New(), time.Now()
	a.Store = below
	info, err := below.Info(ctx)
	if err != nil {
		return err
	}
	reserved, err := below.Claim(ctx, store.ReserveID{})
	if err != nil {
		return err
	}
	n, err := journal.MakeNumber(reserved.Engine, 1)
	if err != nil {
		return err
	}
	a.history = slices.Clone(a.history)
	for i := range a.history {
		a.history[i].Run = n
	}
	id := journal.MakeRunID(info.Database, n)
	a.head = journal.Head{
		Number: n, ID: id, WorkflowID: string(id), Workflow: workflow.Name,
		Pattern: workflow.Pattern,
		Status:  journal.Running, Wake: now, Created: a.history[0].At, Chain: n,
	}
	a.now = a.head
	return below.Commit(ctx, &store.Group{
		Now:     now,
		Changes: []store.Change{{Run: n, Create: true, Head: &a.head, Entries: a.places()}},
	})
}

// places returns entries that replace the history in the store below, because that store refuses
// entries that do not follow the last one. Nobody reads them, and they have no effect there.
func (a *archive) places() []journal.Entry {
	out := []journal.Entry{a.history[0]}
	for _, e := range a.history[1:] {
		out = append(out, journal.Entry{
			Run: e.Run, Seq: e.Seq, Kind: journal.StatusChanged, Status: journal.Running, At: e.At,
		})
	}
	return out
}

// Commit is [store.Store.Commit].
func (a *archive) Commit(ctx context.Context, g *store.Group) error {
	err := a.Store.Commit(ctx, g)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range g.Changes {
		if c.Run != a.head.Number {
			continue
		}
		a.appended = append(a.appended, c.Entries...)
		if c.Head != nil {
			a.now = *c.Head
		}
	}
	return nil
}

// Claim is [store.Store.Claim].
func (a *archive) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if _, outbox := c.(store.TakeOutbox); outbox {
		return store.Claimed{}, nil
	}
	got, err := a.Store.Claim(ctx, c)
	a.mu.Lock()
	defer a.mu.Unlock()
	got.Runs = slices.DeleteFunc(got.Runs, func(r store.Run) bool {
		return r.Head.Number != a.head.Number
	})
	for i := range got.Runs {
		got.Runs[i].Entries = slices.Concat(a.history, a.appended)
		got.Runs[i].Last = int64(len(got.Runs[i].Entries))
	}
	return got, err
}

// Load is [store.Store.Load].
func (a *archive) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	if run != a.head.Number || r.Inbox {
		return a.Store.Load(ctx, run, r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Concat(a.history, a.appended)
	switch limit := r.Limit; {
	case r.Tail:
		return all[max(0, len(all)-limit):], nil
	case limit > 0:
		all = all[:min(len(all), max(int(r.From), 1)-1+limit)]
	}
	return all[min(len(all), max(int(r.From), 1)-1):], nil
}

// status returns the present status of the run.
func (a *archive) status() journal.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.Status
}

// last returns the last entry of the run.
func (a *archive) last() journal.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.appended); n > 0 {
		return a.appended[n-1]
	}
	return a.history[len(a.history)-1]
}

// failure returns the failure of code that has failed without having ended, or nil.
func (a *archive) failure() *journal.Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range slices.Backward(a.appended) {
		if e.Kind == journal.RunSuspended || e.Kind == journal.RunRetrying {
			return e.Failure()
		}
	}
	return nil
}
