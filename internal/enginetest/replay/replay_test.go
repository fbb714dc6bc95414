package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A program is a random workflow: it depends on its seed and on the results of durable operations,
// and on nothing else.
type program struct {
	trace []string       // all that its code has seen, in order
	items []string       // shared by its branches
	sums  map[string]int // what came of each step, whatever the order
}

// A place is where in a program its code is: its decisions are the same whatever the order in which
// operations end.
type place struct {
	rng   *rand.Rand
	depth int
	loose []*perdure.Future[int] // begun here
}

// An outcome is the output of a program.
type outcome struct {
	Trace  []string       // depends on the order in which things ended
	Sums   map[string]int // does not
	Booked []string
}

func runProgram(ctx context.Context, seed uint64) (outcome, error) {
	p := &program{sums: map[string]int{}}
	p.block(ctx, rand.New(rand.NewPCG(seed, 1)), 1, "")
	for _, item := range p.items { // what a crash must not book twice
		if _, err := perdure.Step(ctx, "book", world.Work(item, 0, nil)); err != nil {
			return outcome{}, err
		}
	}
	return outcome{Trace: p.trace, Sums: p.sums, Booked: p.items}, nil
}

func (p *program) see(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

// block does some operations, one after the other.
func (p *program) block(ctx context.Context, rng *rand.Rand, depth int, at string) {
	in := &place{rng: rng, depth: depth}
	for i := range 2 + rng.IntN(4) {
		name := fmt.Sprintf("%s%c%d", at, 'a'+rune(rng.IntN(3)), i%2)
		p.operation(ctx, in, name)
	}
}

func (p *program) operation(ctx context.Context, in *place, name string) {
	rng := in.rng
	d := time.Duration(rng.IntN(50)) * time.Millisecond
	switch k := rng.IntN(13); {
	case k < 3:
		p.step(ctx, rng, name, d)
	case k < 5:
		in.loose = append(in.loose, perdure.Async(ctx, name, world.Work(name, d, nil)))
	case k < 8 && in.depth < 4:
		p.branches(ctx, in, name)
	case k == 8:
		p.wait(ctx, in, name, d)
	case k == 9:
		p.choose(ctx, rng, name)
	case k == 10 && len(in.loose) > 0:
		f := in.loose[rng.IntN(len(in.loose))]
		won, err := f.Cancel(ctx, "not wanted")
		status, v, ferr := f.State()
		p.see("%s cancel %v %v: %v %d %v", name, won, err, status, v, ferr)
	case k == 11:
		p.forsake(ctx, name, d)
	default:
		within, err := perdure.Scope(ctx, name)
		if err == nil {
			v, err := perdure.Step(within, "inner", world.Work(name, d, nil))
			p.see("%s inner %d %v", name, v, err)
		}
	}
}

func (p *program) step(ctx context.Context, rng *rand.Rand, name string, d time.Duration) {
	var err error
	opts := []perdure.StepOption{
		perdure.Retry{Attempts: 1 + rng.IntN(3), First: time.Millisecond * 5},
	}
	if rng.IntN(4) == 0 {
		err = world.ErrOdd
	}
	if rng.IntN(3) == 0 {
		opts = append(opts, pattern.Announced)
	}
	if rng.IntN(4) == 0 {
		opts = append(opts, perdure.Key("k"))
	}
	v, err := perdure.Step(ctx, name, world.Work(name, d, err), opts...)
	p.see("%s step %d %v %v", name, v, err, errors.Is(err, world.ErrOdd))
	p.sums[name] += v
}

// branches collects what parallel branches found in a slice that they share.
func (p *program) branches(ctx context.Context, in *place, name string) {
	rng := in.rng
	var fs []*perdure.Future[int]
	for i := range 2 + rng.IntN(3) {
		sub := rand.New(rand.NewPCG(rng.Uint64(), 2))
		fs = append(fs, perdure.Go(ctx, name, func(ctx context.Context) (int, error) {
			item := fmt.Sprintf("%s.%d", name, i)
			v, err := perdure.Step(ctx, "ask",
				world.Work(item, time.Duration(sub.IntN(50))*time.Millisecond, nil))
			if err != nil {
				return 0, err
			}
			p.items = append(p.items, item)
			p.see("%s asked", item)
			if sub.IntN(3) == 0 && in.depth < 3 {
				p.block(ctx, sub, in.depth+1, "n")
			}
			return v, nil
		}))
	}
	for _, f := range fs {
		v, err := f.Await(ctx)
		p.sums[name] += v
		p.see("%s branch %d %v", name, v, err)
	}
}

// wait waits for a loose future, perhaps with a context that ends first.
func (p *program) wait(ctx context.Context, in *place, name string, d time.Duration) {
	if len(in.loose) == 0 {
		return
	}
	f := in.loose[in.rng.IntN(len(in.loose))]
	if in.rng.IntN(2) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d/2)
		defer cancel()
	}
	v, err := f.Await(ctx)
	p.see("%s await %d %v %v", name, v, err, errors.Is(err, context.DeadlineExceeded))
}

// forsake cancels a branch and then waits outside for a step that it began.
func (p *program) forsake(ctx context.Context, name string, d time.Duration) {
	var f *perdure.Future[int]
	b := perdure.Go(ctx, name, func(ctx context.Context) (int, error) {
		f = perdure.Async(ctx, "within", world.Work(name, d, nil))
		return f.Await(ctx)
	})
	_, err := perdure.Step(ctx, name+"meanwhile", world.Work(name, d/2, nil))
	won, cerr := b.Cancel(ctx, "not wanted")
	p.see("%s cancel %v %v %v", name, won, err, cerr)
	if f == nil { // cancelled before it began
		return
	}
	v, err := f.Await(ctx)
	p.see("%s forsaken %d %v", name, v, err)
}

func (p *program) choose(ctx context.Context, rng *rand.Rand, name string) {
	var fs []*perdure.Future[int]
	for i := range 3 {
		d := time.Duration(rng.IntN(50)) * time.Millisecond
		fs = append(fs,
			perdure.Async(ctx, name, world.Work(fmt.Sprint(name, i), d, nil),
				perdure.Key(fmt.Sprint(i))))
	}
	even := func(v int) bool { return v%2 == 0 }
	switch rng.IntN(4) {
	case 0:
		i, err := perdure.Any(ctx, nil, fs...)
		p.see("%s any %d %v", name, i, err)
	case 1:
		ok, err := perdure.All(ctx, even, fs...)
		p.see("%s all %v %v", name, ok, err)
	case 2:
		ok, err := perdure.None(ctx, even, fs...)
		p.see("%s none %v %v", name, ok, err)
	default:
		for f, err := range perdure.AsCompleted(ctx, fs...) {
			p.see("%s completed %d %v", name, slices.Index(fs, f), err)
		}
	}
}

// plant makes a database in which a run was executed up to the last of entries
// when its engine died.
func plant(t *testing.T, workflow string, entries []journal.Entry) *memory.Store {
	t.Helper()
	db := memory.New()
	ctx := context.Background()
	claimed, err := db.Claim(ctx, store.Join{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	info, err := db.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n, err := journal.MakeNumber(claimed.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.Clone(entries)
	status := journal.Running
	for i := range entries {
		entries[i].Run = n
		if s := entries[i].Status; s != 0 {
			status = s
		}
	}
	head := &journal.Head{
		Number: n, ID: journal.MakeRunID(info.Database, n), WorkflowID: "planted",
		Workflow: workflow,
		Status:   status, Owner: claimed.Engine, Wake: time.Now(), Created: time.Now(),
	}
	g := &store.Group{
		Engine:  claimed.Engine,
		Now:     time.Now(),
		Changes: []store.Change{{Run: n, Create: true, Head: head, Entries: entries}},
	}
	if err := db.Commit(ctx, g); err != nil {
		t.Fatal(err)
	}
	return db.Reopen()
}

// replayed returns the output and journal of the planted run.
func replayed(t *testing.T, workflow perdure.Definition, name string,
	entries []journal.Entry) (json.RawMessage, []journal.Entry) {
	t.Helper()
	w := &world.World{T: t, DB: plant(t, name, entries), Workflows: []perdure.Definition{workflow}}
	w.Options.Build = "test"
	w.Begin()
	defer w.End()
	synctest.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	run, err := perdure.Define(name, func(context.Context, int) (json.RawMessage, error) {
		return nil, nil
	}).Get(ctx, w.Engine, "planted")
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Result(ctx)
	if err != nil {
		d, _ := w.Engine.Describe(context.Background(), "planted")
		t.Fatalf("%v: %s\n%v", err, d.Why, world.Tail(entries, 5))
	}
	return out, w.History("planted")
}

// A random workflow with branches, a shared slice, futures and contexts of its own is cut off at
// every prefix of its journal and replayed. Nothing is parked; what does not depend on the order of
// results is the same; everything is booked once; and a journal that is complete except for its end
// has the very same output.
//
// spec: L-15, B-1, L-13
func TestEveryPrefixReplays(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 5
	}
	base := uint64(time.Now().UnixNano())
	t.Logf("seeds from %d", base)
	workflow := perdure.Define("random", runProgram)
	for i := range seeds {
		seed := base + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			w := world.New(t, workflow)
			run, err := workflow.Start(context.Background(), w.Engine, seed)
			if err != nil {
				t.Fatal(err)
			}
			live, err := run.Result(context.Background())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			entries := w.History(run.ID())
			w.End()
			for n := 1; n < len(entries); n++ {
				out, again := replayed(t, workflow, "random", entries[:n])
				checkReplay(t, seed, n, live, out)
				whole, _ := replayed(t, workflow, "random", again[:len(again)-1])
				if string(whole) != string(out) {
					t.Fatalf("seed %d, prefix %d: live\n%s\nreplayed\n%s", seed, n, out, whole)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func checkReplay(t *testing.T, seed uint64, n int, live outcome, data json.RawMessage) {
	t.Helper()
	var out outcome
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out.Booked)
	want := slices.Sorted(slices.Values(live.Booked))
	if !slices.Equal(out.Booked, want) {
		t.Fatalf("seed %d, prefix %d: booked %v, want %v", seed, n, out.Booked, want)
	}
	for name, v := range live.Sums {
		if out.Sums[name] != v {
			t.Fatalf("seed %d, prefix %d: %s came to %d, want %d", seed, n, name, out.Sums[name], v)
		}
	}
}
