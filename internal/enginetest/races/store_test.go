package races

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// A slow store takes a random while of virtual time before and after each call, so that other calls
// happen in between. It may be down: then calls fail, some of them after they were done.
//
// A claim is made while the engine holds a mutex, which in a bubble stops the clock for everyone
// who waits for it. So a claim takes no time; gap makes the calls of others happen in between.
type slow struct {
	store.Store
	most time.Duration // of one pause
	gap  func()        // calls of others before and after a claim; nil for none

	mu     sync.Mutex
	random *rand.Rand
	down   bool

	stalls  time.Duration // how long a commit is held up now and then, at most
	watched *watchers
	watcher store.Watcher // instead, where there is one
}

// A registrar notes which engine had which run at what time: what the store did, whether or not the
// engine learned of it.
type registrar struct {
	store.Store
	history *history
}

func (w *registrar) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := w.Store.Claim(ctx, c)
	for _, r := range got.Runs {
		w.history.note(r.Head.Number, fmt.Sprintf("engine %d claims it at entry %d, mail %d",
			got.Engine, r.Last, r.Head.Mail))
	}
	return got, err
}

func (w *registrar) Commit(ctx context.Context, g *store.Group) error {
	err := w.Store.Commit(ctx, g)
	for i := range g.Changes {
		c := &g.Changes[i]
		if c.Head != nil && (c.Unload || c.Create || c.Head.Owner != g.Engine) {
			w.history.note(c.Run, fmt.Sprintf("engine %d writes it as of owner %d, %v, mail %d, "+
				"rest %v, again %v: verdict %d, %v",
				g.Engine, c.Head.Owner, c.Head.Status, c.Head.Mail, c.Unload, g.Again, c.Verdict,
				err))
		}
	}
	return err
}

// note keeps an observation of a registrar.
func (h *history) note(run journal.Number, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[run] = append(h.owners[run], clock(time.Now())+" "+what)
}

// watchers are the functions to call when another process has written.
type watchers struct {
	mu    sync.Mutex
	calls map[int]func()
	last  int
}

func (w *watchers) add(f func()) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	n := w.last
	if w.calls == nil {
		w.calls = map[int]func(){}
	}
	w.calls[n] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.calls, n)
	}
}

func (w *watchers) written() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.calls {
		f()
	}
}

// Lanes implements [store.Parallel].
func (s *slow) Lanes() int {
	if p, ok := s.Store.(store.Parallel); ok {
		return p.Lanes()
	}
	return 1
}

// Watch implements [store.Watcher]. Without watchers it is never notified, and the engine's sweep
// has to do.
func (s *slow) Watch(ctx context.Context, f func()) {
	if s.watcher != nil {
		s.watcher.Watch(ctx, f)
		return
	}
	if s.watched != nil {
		defer s.watched.add(f)()
		f()
	}
	<-ctx.Done()
}

// An otherProcess is the store as another process has it: engines that watch are notified of its
// writes.
type otherProcess struct {
	store.Store
	watched *watchers
}

func (s *otherProcess) Commit(ctx context.Context, g *store.Group) error {
	err := s.Store.Commit(ctx, g)
	if err == nil && s.watched != nil {
		s.watched.written()
	}
	return err
}

func (s *slow) draw(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Int64N(n)
}

func (s *slow) pause() {
	if s.draw(3) > 0 {
		<-time.After(time.Duration(s.draw(int64(s.most)))) // of virtual time
	}
}

func (s *slow) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *slow) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *slow) call(do func() error) error {
	s.pause()
	defer s.pause()
	if !s.isDown() {
		return do()
	}
	if s.draw(2) == 0 {
		_ = do()
	}
	return storetest.ErrInjected
}

func (s *slow) Commit(ctx context.Context, g *store.Group) error {
	if s.stalls > 0 && s.draw(10) == 0 {
		<-time.After(time.Duration(s.draw(int64(s.stalls))))
	}
	return s.call(func() error { return s.Store.Commit(ctx, g) })
}

func (s *slow) Load(ctx context.Context, run journal.Number,
	r store.Range) (entries []journal.Entry, err error) {
	err = s.call(func() (err error) {
		entries, err = s.Store.Load(ctx, run, r)
		return err
	})
	return entries, err
}

func (s *slow) Find(ctx context.Context, f store.Filter) (heads []journal.Head, next journal.Cursor,
	err error) {
	find := func() (err error) {
		heads, next, err = s.Store.Find(ctx, f)
		return err
	}
	if f.Owner != 0 { // it belongs to a claim
		err = find()
		return heads, next, err
	}
	err = s.call(find)
	return heads, next, err
}

func (s *slow) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	s.between()
	defer s.between()
	if !s.isDown() {
		return s.Store.Claim(ctx, c)
	}
	if s.draw(2) == 0 {
		_, _ = s.Store.Claim(ctx, c)
	}
	return store.Claimed{}, storetest.ErrInjected
}

// between lets others go on without time going by.
func (s *slow) between() {
	if s.gap == nil || s.draw(4) > 0 {
		return
	}
	s.gap()
	for range 20 {
		runtime.Gosched()
	}
}
