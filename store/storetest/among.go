package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// amongChecks are races of several engines.
func amongChecks() []check {
	return leased([]check{
		{"among/claims of several engines never give one run to two", amongClaims},
		{"among/of many starts of one workflow ID one is written", amongStarts},
		{"among/between starts and signals of one workflow ID no signal is stranded", amongSignals},
		{
			"among/between the end of a run and signals to its workflow ID no signal is lost",
			amongEnds,
		},
		{
			"among/between successions and signals to their workflow ID each signal has a number " +
				"of its own", amongSuccessions,
		},
		{"among/posts of two engines in both orders are numbered without a gap", amongPosts},
		{"among/between posts of other engines and unloads no message is stranded", amongUnloads},
		{"among/nothing of an engine appears after its take-over", amongTakeOver},
		{"among/several engines that look at once take over once", amongTakers},
	})
}

// rounds is how often a race is run. A wrong driver loses at least a few of them.
const rounds = 40

// several returns this process and n more, each with an engine.
func (w *world) several(n int) []*world {
	w.Helper()
	all := []*world{w}
	for range n {
		all = append(all, w.beside(0))
	}
	return all
}

// race calls f for each of the processes at the same time, in an order and after a delay that
// depend on a seed. A failure reports the seed.
func (w *world) race(all []*world, seed uint64, f func(i int, x *world, random *rand.Rand) error) {
	w.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(all)) {
		wg.Go(func() {
			<-start
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			if err := f(i, all[i], random); err != nil {
				w.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	close(start)
	wg.Wait()
}

// sends commits changes of an engine.
func (w *world) sends(changes ...store.Change) error { return w.try(w.group(changes...)) }

// spec: B-5
func amongClaims(w *world) {
	all, seed := w.several(3), rand.Uint64()
	var changes []store.Change
	for i := range 20 * len(all) {
		changes = append(changes, w.free("", i%7))
	}
	w.written(changes...)
	var mu sync.Mutex
	owner := map[journal.Number]journal.EngineID{}
	w.race(all, seed, func(_ int, x *world, random *rand.Rand) error {
		for {
			var c store.Claim = store.TakeDue{Engine: x.engine, Workflows: []string{"w"}, Max: 1 +
				random.IntN(4), Now: at(10)}
			one := random.IntN(2) == 0 // the engine may own the run by now
			if one {
				c = store.TakeRun{Engine: x.engine, Run: changes[random.IntN(len(changes))].Run}
			}
			got, err := x.s.Claim(x.Context(), c)
			if err != nil {
				return fmt.Errorf("Claim: %w", err)
			}
			mu.Lock()
			for _, r := range got.Runs {
				if o := owner[r.Head.Number]; o != 0 && (o != x.engine || !one) {
					x.Errorf("seed %d: run %d was given to engine %d and to engine %d", seed,
						r.Head.Number, o, x.engine)
				}
				owner[r.Head.Number] = x.engine
			}
			left := len(changes) - len(owner)
			mu.Unlock()
			if left == 0 {
				return nil
			}
		}
	})
	for n, o := range owner {
		w.same(fmt.Sprint("owner of run ", n), w.head(n).Owner, o)
	}
}

// spec: L-4
func amongStarts(w *world) {
	all, seed := w.several(3), rand.Uint64()
	for round := range uint64(rounds) {
		id := fmt.Sprint("order-", round)
		starts := make([]store.Change, len(all))
		for i, x := range all {
			starts[i] = x.start(id)
		}
		w.race(all, seed+round, func(i int, x *world, _ *rand.Rand) error {
			g := x.group(starts[i])
			err := x.try(g)
			starts[i] = g.Changes[0]
			return err
		})
		heads := w.find(store.Filter{WorkflowID: id})
		if len(heads) != 1 {
			w.Fatalf("seed %d: %s has %d runs", seed+round, id, len(heads))
		}
		for _, c := range starts {
			want := store.Exists
			if c.Run == heads[0].Number {
				want = store.Written
			}
			w.verdict(c, want)
			w.same("found", c.Found.Number, heads[0].Number)
		}
	}
}

// spec
func amongSignals(w *world) {
	all, seed := w.several(3), rand.Uint64()
	for round := range uint64(rounds) {
		id := fmt.Sprint("order-", round)
		first := w.start(id)
		w.race(all, seed+round, func(i int, x *world, random *rand.Rand) error {
			if i == 0 {
				return x.sends(first)
			}
			for j := range 1 + random.IntN(3) {
				m := signal("x", fmt.Sprint(i, "-", j))
				if err := x.sends(store.Change{
					Posts: []store.Post{waiting(id, 1<<20, m)},
				}); err != nil {
					return err
				}
			}
			return nil
		})
		for _, m := range w.inbox(0) {
			w.Errorf("seed %d: a signal to %s is stranded", seed+round, m.Detail.To)
		}
		inbox := w.inbox(first.Run)
		w.same("numbers", int64(len(inbox)), w.head(first.Run).Mail)
		w.gapless(seed+round, inbox)
	}
}

// gapless demands that an inbox has the numbers from 1 on, without gaps.
func (w *world) gapless(seed uint64, inbox []journal.Entry) {
	w.Helper()
	for i, m := range inbox {
		if m.Seq != int64(i+1) {
			w.Fatalf("seed %d: message %d comes where %d was to come", seed, m.Seq, i+1)
		}
	}
}

// spec
func amongEnds(w *world) {
	all, seed := w.several(2), rand.Uint64()
	for round := range uint64(rounds) {
		id := fmt.Sprint("order-", round)
		head := w.written(w.start(id))[0]
		posts := make([][]store.Post, len(all))
		w.race(all, seed+round, func(i int, x *world, random *rand.Rand) error {
			if i == 0 {
				return x.sends(ended(head, 2, 5))
			}
			for j := range 1 + random.IntN(3) {
				p := []store.Post{waiting(id, 1<<20, signal("x", fmt.Sprint(i, "-", j)))}
				if err := x.sends(store.Change{Posts: p}); err != nil {
					return err
				}
				posts[i] = append(posts[i], p...)
			}
			return nil
		})
		delivered, unrouted := int64(0), 0
		for _, p := range slices.Concat(posts...) {
			switch p.Verdict {
			case store.Delivered:
				delivered++
			case store.Unrouted:
				unrouted++
			default:
				w.Errorf("seed %d: a verdict of %d", seed+round, p.Verdict)
			}
		}
		w.same("delivered", w.head(head.Number).Mail, delivered)
		w.gapless(seed+round, w.inbox(head.Number))
		listed := 0
		for _, m := range w.inbox(0) {
			if m.Detail.To == id {
				listed++
			}
		}
		w.same("unrouted", listed, unrouted)
	}
}

// spec: R-17
func amongPosts(w *world) {
	const each = 25
	all, seed := w.several(1), rand.Uint64()
	one, other := w.written(w.start(""))[0].Number, all[1].written(all[1].start(""))[0].Number
	w.race(all, seed, func(i int, x *world, random *rand.Rand) error {
		for j := range each {
			posts := []store.Post{
				toRun(one, signal("x", fmt.Sprint(i, "-", j))),
				toRun(other, signal("y", fmt.Sprint(i, "-", j))),
			}
			if (random.IntN(4) == 0) == (i == 0) {
				slices.Reverse(posts)
			}
			c := []store.Change{{Posts: posts[:1]}, {Posts: posts[1:]}}
			if err := x.sends(c...); err != nil {
				return err
			}
		}
		return nil
	})
	for i, run := range []journal.Number{one, other} {
		inbox := w.inbox(run)
		w.same("messages", len(inbox), each*len(all))
		w.gapless(seed, inbox)
		given := 0
		for _, r := range all[i].mail() {
			given += len(r.Inbox)
		}
		if given < each { // its own messages before the first other one count as given
			w.Errorf("seed %d: of %d messages of another engine %d were given", seed, each, given)
		}
	}
}

func amongUnloads(w *world) {
	const each = 4
	all, seed := w.several(2), rand.Uint64()
	for round := range uint64(rounds) {
		run := w.written(w.start(""))[0]
		r := &racer{world: w, run: run, seq: 1}
		var posting sync.WaitGroup
		posting.Go(func() {
			w.race(all[1:], seed+round, func(i int, x *world, _ *rand.Rand) error {
				for j := range each {
					posts := []store.Post{toRun(run.Number, signal("x", fmt.Sprint(i, "-", j)))}
					if err := x.sends(store.Change{Posts: posts}); err != nil {
						return err
					}
				}
				return nil
			})
		})
		for range 2 * each {
			r.round()
		}
		posting.Wait()
		for range 3 {
			r.round()
		}
		if r.given != 2*each {
			w.Fatalf("seed %d: of %d messages %d were given", seed+round, 2*each, r.given)
		}
		w.same("inbox", len(w.inbox(run.Number)), 0)
	}
}

// amongTakeOver takes over an engine that is committing. Every acknowledged commit must be
// there when the take-over is done, and no commit may appear later.
//
// spec: R-13
func amongTakeOver(w *world) {
	b, seed := w.beside(0), rand.Uint64()
	for range rounds / 4 {
		x := w.beside(0)
		run := x.written(x.start(""))[0].Number
		ready, over, told := make(chan struct{}), make(chan struct{}), make(chan sent, 1)
		go func() { told <- x.sendsOn(seed, run, ready, over) }()
		<-ready
		x.lapse()
		if n := b.renew(5).Expired; n < 1 { // on a busy machine that of w may have expired too
			w.Errorf("%d engines are taken over", n)
		}
		there := int64(len(b.load(run, store.Range{})))
		close(over)
		if s := <-told; there != s.last && there != s.doubtful {
			w.Errorf("seed %d: %d entries at the take-over, and %d that were acknowledged", seed,
				there, s.last)
		}
		b.rows(run, int(there))
		w.same("runs that the dead engine owns still", len(b.find(store.Filter{Owner: x.engine})),
			0)
	}
}

// sent is the result of the commits of an engine: the last entry that was acknowledged, and
// an entry without an answer, which may be there or not, or zero.
type sent struct{ last, doubtful int64 }

// sendsOn commits entries of a run, each with a new run, until it is fenced. It closes ready
// after a few commits, and ends in any case a few commits after over is closed. Like an
// engine, it sends a group again that had no answer, because a take-over may end the session.
func (w *world) sendsOn(seed uint64, run journal.Number, ready, over chan struct{}) sent {
	begun := sync.OnceFunc(func() { close(ready) })
	defer begun()
	seq := int64(1)
	for left := 3; left > 0; seq++ {
		select {
		case <-over:
			left--
		default:
		}
		if seq == 4 {
			begun()
		}
		g, doubtful := w.group(step(run, seq+1), w.start("")), int64(0)
		err := w.try(g)
		if err != nil && !errors.Is(err, store.ErrFenced) {
			g.Again, doubtful = true, seq+1
			err = w.try(g)
		}
		if errors.Is(err, store.ErrFenced) {
			return sent{seq, doubtful}
		}
		if err != nil {
			w.Errorf("seed %d: Commit = %v, want nothing or ErrFenced", seed, err)
			return sent{seq, doubtful}
		}
	}
	return sent{last: seq}
}

func amongTakers(w *world) {
	all, seed := w.several(2), rand.Uint64()
	for round := range uint64(rounds / 4) {
		x := w.beside(0)
		run := x.written(x.start(""))[0].Number
		x.lapse()
		var mu sync.Mutex
		var expired int
		var freed int64
		w.race(all, seed+round, func(_ int, x *world, _ *rand.Rand) error {
			got, err := x.s.Claim(x.Context(), store.Renew{Engine: x.engine, Now: at(5)})
			mu.Lock()
			defer mu.Unlock()
			expired, freed = expired+got.Expired, freed+got.Freed
			return err
		})
		if expired != 1 || freed != 1 {
			w.Fatalf("seed %d: %d engines were taken over, and %d runs freed, want one", seed+round,
				expired, freed)
		}
		w.crashes(run, 1)
	}
}
