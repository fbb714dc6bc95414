package kernel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An audience is a store with events and ends in its outbox, and has the listeners and the
// subscriber. Each call of one of them goes on until letGo ends it.
type audience struct {
	store.Store
	random *rand.Rand
	wrong  []string

	mu     sync.Mutex
	outbox []store.OutboxEntry
	number int64
	ended  map[int64]bool // by run
	times  map[string]int // by listener and number: how often it has heard of it
	calls  []chan struct{}
}

func (u *audience) Claim(_ context.Context, c store.Claim) (out store.Claimed, err error) {
	take, _ := c.(store.TakeOutbox)
	u.letSomeGo()
	u.mu.Lock()
	for _, o := range u.outbox {
		if o.Number > take.After {
			if out.More = len(out.Outbox) == take.Limit; out.More {
				break
			}
			out.Outbox = append(out.Outbox, o)
		}
	}
	u.mu.Unlock()
	u.letSomeGo()
	return out, nil
}

func (u *audience) Commit(_ context.Context, g *store.Group) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range g.Changes {
		u.outbox = slices.DeleteFunc(u.outbox, func(o store.OutboxEntry) bool {
			return slices.Contains(c.Told, o.Number)
		})
	}
	return nil
}

// emit adds an entry to the outbox, of one of ten runs that are open.
func (u *audience) emit() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.number++
	run := max(u.number/8, 1) + u.random.Int64N(10)
	for u.ended[run] {
		run++
	}
	kind := journal.EventEmitted
	if u.random.IntN(4) == 0 {
		kind, u.ended[run] = journal.RunCompleted, true
	}
	o := outboxEntry(run, u.number, kind)
	o.Entry.Detail.Message = fmt.Sprint(u.number)
	u.outbox = append(u.outbox, o)
}

// hears is one call. It records an event of the run that comes before and is still in the outbox.
// number is the number of an event; 0 means an end.
func (u *audience) hears(who string, run journal.Number, number int64) error {
	u.mu.Lock()
	for _, o := range u.outbox {
		if o.Head.Number == run && (number == 0 || o.Number < number) &&
			o.Entry.Kind == journal.EventEmitted {
			u.wrong = append(
				u.wrong,
				fmt.Sprintf("%s hears of run %d before number %d is told", who, run, o.Number),
			)
		}
	}
	u.times[fmt.Sprint(who, " ", run, " ", number)]++
	let := make(chan struct{})
	u.calls = append(u.calls, let)
	u.mu.Unlock()
	<-let
	return nil
}

// letGo lets one of the calls return, and reports whether there was one.
func (u *audience) letGo() bool {
	synctest.Wait()
	u.mu.Lock()
	n := len(u.calls)
	if n > 0 {
		i := u.random.IntN(n)
		close(u.calls[i])
		u.calls = slices.Delete(u.calls, i, i+1)
	}
	u.mu.Unlock()
	synctest.Wait()
	return n > 0
}

func (u *audience) letSomeGo() {
	for u.random.IntN(3) == 0 && u.letGo() {
	}
}

// Buffers are small, readings short, and each call takes any time. Each entry is delivered once to
// each of its listeners, the entries of one run in order, and the outbox is empty in the end.
//
// spec: L-18, R-29
func TestRandomOutboxEntriesAreToldOnceInOrder(t *testing.T) {
	first := rand.Uint64()
	t.Log("seeds from", first)
	for seed := first; seed < first+150 && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) { tellAtRandom(t, seed) })
	}
}

func tellAtRandom(t *testing.T, seed uint64) {
	u := &audience{
		random: rand.New(rand.NewPCG(seed, 0)), ended: map[int64]bool{}, times: map[string]int{},
	}
	k := newKernel(u, Config{}, newShared())
	var all []*Listener
	for _, who := range []string{"one", "two", "three"} {
		all = append(
			all,
			NewListener("w", nil, func(_ context.Context, e End) error {
				return u.hears(who, e.Head.Number, 0)
			}),
		)
	}
	k.add(&Workflow{Name: "w", Listeners: all})
	k.Subscribe(func(_ context.Context, e Event) error {
		var number int64
		_, err := fmt.Sscan(e.ID, &number)
		if err != nil {
			return err
		}
		return u.hears("subscriber", e.Head.Number, number)
	})
	a := newDispatcher(k, t.Context(), t.Context())
	a.most, a.page = 4, 3
	if u.random.IntN(2) == 0 {
		a.skips = 3
	}
	go k.lanes.all[0].loop()
	defer k.lanes.all[0].stop()
	emits := u.random.IntN(10)
	looks := func() bool {
		select {
		case <-k.fresh:
			return a.look()
		default:
			return false
		}
	}
	for range 300 {
		switch n := u.random.IntN(20); {
		case n <= emits:
			u.emit()
			k.readOn()
		case n == 19:
			a.again()
			k.readOn()
		case n < 15:
			looks()
		default:
			u.letGo()
		}
	}
	for steps := 0; looks() || u.letGo(); steps++ {
		if steps > 20_000 {
			t.Fatalf("seed %d: it reads for ever", seed)
		}
	}
	if want := int(u.number) + (len(all)-1)*len(u.ended); len(u.times) != want {
		t.Errorf("seed %d: told are %d, want %d", seed, len(u.times), want)
	}
	for what, n := range u.times {
		if n != 1 {
			t.Errorf("seed %d: %s was told %d times", seed, what, n)
		}
	}
	for _, wrong := range u.wrong {
		t.Errorf("seed %d: %s", seed, wrong)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if left := len(u.outbox) + len(a.mine) + len(a.lines) + len(a.parts) + len(a.behind); left > 0 {
		t.Errorf(
			"seed %d: %d entries are in the outbox, %d held, %d in line, %d in part, %d wait", seed,
			len(u.outbox), len(a.mine), len(a.lines), len(a.parts), len(a.behind),
		)
	}
	for _, r := range a.buffers {
		if r.held != 0 || r.behind != 0 {
			t.Errorf(
				"seed %d: a buffer holds %d, and is read again from %d on", seed, r.held, r.behind,
			)
		}
	}
}
