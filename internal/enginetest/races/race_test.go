package races

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// raceSeed reruns the histories from that seed on: those that fail are named with
// their own.
const raceSeed = "PERDURE_RACE_SEED"

// Random runs wait, sleep, branch, park, continue as new and have children, while callers on the
// engine and in another process send, start, cancel, suspend, resume and decide, the store is slow
// and loses answers, and the engine dies. The answers to callers are then compared with what the
// runs consumed and what is left in inboxes: see history.judge.
//
// spec, L-6
func TestRaceOfMessagesLosesNothingAndRepeatsNothing(t *testing.T) { raceOf(t, 1) }

// spec: B-5, R-12, R-13, R-17, L-19
//
// As before, with several engines on the database: they die and leave, and lose
// their leases where the store is down for them for too long.
func TestRaceOfEnginesLosesNothingAndRepeatsNothing(t *testing.T) { raceOf(t, 3) }

func raceOf(t *testing.T, engines int) {
	base, most, limit := uint64(time.Now().UnixNano()), 100_000, 6*time.Second
	if testing.Short() {
		limit = time.Second
	}
	if s := os.Getenv(raceSeed); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		base, most = n, 1
	}
	t.Logf("seeds from %d", base)
	began, sum := time.Now(), tally{}
	for i := range most {
		// a slow machine plays few in that time
		if i > 0 && time.Since(began) > limit && (sum.proves(engines) || i > 100) {
			break
		}
		seed := base + uint64(i)
		bad, counts := playRace(t, seed, engines, nil)
		sum.add(counts)
		for _, b := range bad {
			t.Errorf("%s=%d: %s", raceSeed, seed, b)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%+v", sum)
	if most > 1 && !sum.proves(engines) {
		t.Error("the histories prove little")
	}
}

// A tally counts what happened, so that histories in which nothing does are seen.
type tally struct {
	Histories, Calls, Unknown, Runs, Consumed, Unread, Unrouted, Unloads, Deaths, Expired, Lost int
}

func (a *tally) add(b tally) {
	a.Histories += b.Histories
	a.Calls += b.Calls
	a.Unknown += b.Unknown
	a.Runs += b.Runs
	a.Consumed += b.Consumed
	a.Unread += b.Unread
	a.Unrouted += b.Unrouted
	a.Unloads += b.Unloads
	a.Deaths += b.Deaths
	a.Expired += b.Expired
	a.Lost += b.Lost
}

// proves reports whether enough things went wrong.
func (a *tally) proves(engines int) bool {
	return a.Consumed > 0 && a.Unread > 0 && a.Unloads > 0 && a.Deaths > 0 &&
		(engines == 1 || a.Expired > 0 && a.Lost > 0)
}

// playRace plays the history of a seed and returns the errors; a broken store is put below
// everything.
func playRace(t *testing.T, seed uint64, engines int,
	broken func(*history) func(store.Store) store.Store) (bad []string, sum tally) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, seed, engines, broken)
		bad = h.play()
		sum = h.sum
		if broken == nil && h.evidence != "" {
			t.Log(h.evidence)
		}
	})
	return bad, sum
}

// A history is one database with an engine that comes and goes, and callers.
type history struct {
	seed   uint64
	random *rand.Rand // of the goroutine that plays
	*racingNode
	peers  []*racingNode   // further engines
	other  *memory.Store   // the handle of another process
	far    *perdure.Client // in another process, on a slow store
	near   *perdure.Client // in another process, on one that takes no time
	farOff *slow
	broken func(store.Store) store.Store

	watched *watchers
	calm    atomic.Bool // nothing goes wrong any more
	lossy   bool        // answers of the store get lost
	chaos   int         // how often something goes wrong
	waiting sync.WaitGroup
	open    context.Context // of those who wait for runs
	enough  context.CancelFunc

	ledgerOfCalls
	sum      tally
	evidence string // the history as it was when something was found wrong
}

// A racingNode is one place for an engine.
type racingNode struct {
	world  *world.World
	engine atomic.Pointer[perdure.Engine]
	slow   atomic.Pointer[slow]
}

// ledgerOfCalls has the calls and the answers to them.
type ledgerOfCalls struct {
	mu       sync.Mutex
	last     int // number of a call or a message
	sends    []*sent
	starts   []*launch
	orders   []*order
	runs     []journal.RunID // that callers know
	gaps     int             // what else may happen while a claim is made
	returned []string        // what those who waited for runs found wrong
	owners   map[journal.Number][]string
}

// raceLease is the lease of an engine that is not the only one.
const raceLease = 3 * time.Second

func newHistory(t *testing.T, seed uint64, engines int,
	broken func(*history) func(store.Store) store.Store) *history {
	first := memory.New()
	if engines > 1 {
		first = memory.NewShared(raceLease)
	}
	h := &history{seed: seed, random: rand.New(rand.NewPCG(seed, 0)), other: first.Beside()}
	h.owners = map[journal.Number][]string{}
	h.open, h.enough = context.WithCancel(context.Background())
	rng := h.random
	if rng.IntN(2) == 0 {
		h.watched = &watchers{}
	}
	h.lossy, h.gaps = rng.IntN(2) == 0, 15
	if rng.IntN(3) > 0 {
		h.chaos = 1 + rng.IntN(4)
	}
	h.broken = func(s store.Store) store.Store { return s }
	if broken != nil {
		h.broken = broken(h)
	}
	opts := perdure.Options{
		Build: "test", CleanUp: -1,
		IdleTimeout: []time.Duration{
			-1, -1, 0, 5 * time.Millisecond, 300 * time.Millisecond,
		}[rng.IntN(5)],
		MaxLoaded: []int{0, 0, 1}[rng.IntN(3)],
		Capacity:  []int{0, 0, 3}[rng.IntN(3)],
		Sweep:     []time.Duration{time.Second, 0}[rng.IntN(2)],
		SweepOnly: rng.IntN(8) == 0,
	}
	if h.watched != nil && !opts.SweepOnly { // nothing may depend on a sweep
		opts.Sweep = -1
	}
	for i := range engines {
		w := &world.World{T: t, DB: first.Beside(),
			Workflows: []perdure.Definition{raceWorkflow, raceRival}, Options: opts}
		n := &racingNode{world: w}
		w.Wrap = func(s store.Store) store.Store { return h.wrap(n, s) }
		if i > 0 {
			h.peers = append(h.peers, n)
		} else {
			h.racingNode = n
		}
	}
	var err error
	if h.near, err = perdure.NewClient(t.Context(), &otherProcess{h.other, h.watched}); err != nil {
		t.Fatal(err)
	}
	far := &otherProcess{h.broken(h.other), h.watched}
	h.farOff = h.slowed(storetest.NewFaulty(far, h.plans(20)...), rng.Uint64())
	h.farOff.gap = nil
	if h.far, err = perdure.NewClient(t.Context(), h.farOff); err != nil {
		t.Fatal(err)
	}
	h.begin(h.racingNode)
	for _, n := range h.peers {
		h.begin(n)
	}
	return h
}

func (h *history) slowed(s store.Store, seed uint64) *slow {
	return &slow{
		Store: s, most: 5 * time.Millisecond, gap: h.gap, watched: h.watched,
		random: rand.New(rand.NewPCG(seed, 5)),
	}
}

// plans returns faults among the first calls of an engine or client.
func (h *history) plans(first int) []storetest.Plan {
	if !h.lossy || h.calm.Load() {
		return nil
	}
	var out []storetest.Plan
	for range 1 + h.random.IntN(5) {
		m := []storetest.Method{
			storetest.Commit, storetest.Commit, storetest.Claim, storetest.Load, storetest.Find,
		}[h.random.IntN(5)]
		out = append(out, storetest.Plan{
			Method: m, Call: 3 + h.random.IntN(first), Fault: storetest.FailBefore +
				storetest.Fault(h.random.IntN(2)),
		})
	}
	return out
}

func (h *history) wrap(n *racingNode, s store.Store) store.Store {
	plans := h.plans(60)
	if h.chaos > 0 && !h.calm.Load() && h.random.IntN(3) == 0 {
		plans = append(plans, storetest.Plan{
			Method: storetest.Any, Call: 10 + h.random.IntN(150), Fault: storetest.CrashBefore +
				storetest.Fault(h.random.IntN(2)),
		})
	}
	slow := h.slowed(storetest.NewFaulty(h.broken(&registrar{s, h}), plans...), h.random.Uint64())
	if w, ok := s.(store.Watcher); ok && len(h.peers) > 0 && h.watched != nil {
		slow.watcher = w
	}
	if len(h.peers) > 0 && h.chaos > 0 && !h.calm.Load() {
		slow.stalls = 2 * raceLease
	}
	n.slow.Store(slow)
	return slow
}

func (h *history) begin(n *racingNode) {
	n.world.Begin()
	n.engine.Store(n.world.Engine)
}

// revive starts a new engine in the place of the current one, dead or not.
func (h *history) revive(n *racingNode, orderly bool) {
	if orderly {
		n.world.Stop()
		n.world.Done <- <-n.world.Done
	}
	n.world.Kill()
	h.sum.Deaths++
	if !h.calm.Load() && len(h.peers) > 0 && h.random.IntN(2) == 0 {
		// others take over, or only it itself
		time.Sleep(time.Duration(h.random.Int64N(int64(2 * raceLease))))
	}
	h.begin(n)
}

// nodes returns all places for engines.
func (h *history) nodes() []*racingNode { return append([]*racingNode{h.racingNode}, h.peers...) }

// one returns the engine of one of them.
func (c *caller) one() *perdure.Engine {
	if len(c.peers) == 0 {
		return c.engine.Load()
	}
	all := c.nodes()
	return all[c.random.IntN(len(all))].engine.Load()
}

// play plays the history to its end and returns the errors.
func (h *history) play() []string {
	var callers sync.WaitGroup
	for range 3 {
		seed, n := h.random.Uint64(), 6+h.random.IntN(20)
		callers.Go(func() {
			c := &caller{history: h, random: rand.New(rand.NewPCG(seed, 6))}
			for range n {
				time.Sleep(time.Duration(c.random.Int64N(int64(400 * time.Millisecond))))
				c.act()
			}
		})
	}
	for range h.chaos {
		time.Sleep(time.Duration(h.random.Int64N(int64(4 * time.Second))))
		h.disturb()
	}
	callers.Wait()
	h.heal()
	h.settle()
	bad := h.stuck()
	h.keepEvidence(bad)
	h.feed()
	time.Sleep(time.Minute) // who waits for ends asks the store each second
	h.enough()
	h.waiting.Wait()
	bad = append(bad, h.judge()...)
	h.keepEvidence(bad)
	for _, n := range h.nodes() {
		n.world.Kill()
		h.sum.Expired += len(n.world.Seen(observe.EngineExpired))
		h.sum.Lost += len(n.world.Seen(observe.LeaseLost))
	}
	time.Sleep(time.Minute) // what is in flight ends
	if os.Getenv(raceSeed) != "" {
		h.world.T.Log(h.dump())
	}
	_ = h.other.Close()
	return bad
}

// keepEvidence dumps the history when the first error is found: the order of goroutines does not
// follow from the seed alone, so the error may not come again.
func (h *history) keepEvidence(bad []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(bad) > 0 && h.evidence == "" {
		h.evidence = h.dump()
	}
}

// disturb makes the engine die or leave, or the store be down for a while.
func (h *history) disturb() {
	n := h.racingNode
	if len(h.peers) > 0 {
		all := h.nodes()
		n = all[h.random.IntN(len(all))]
	}
	switch slow := n.slow.Load(); {
	case n.world.Stopped(), h.random.IntN(2) == 0:
		h.revive(n, false)
	case h.random.IntN(2) == 0:
		h.revive(n, true)
	default:
		slow.setDown(true)
		time.Sleep(time.Duration(h.random.Int64N(int64(3*time.Second) * int64(1+len(h.peers)))))
		slow.setDown(false)
	}
}

// heal ends all disturbances.
func (h *history) heal() {
	h.calm.Store(true)
	h.farOff.setDown(false)
	h.mu.Lock()
	h.gaps = 0
	h.mu.Unlock()
	for _, n := range h.nodes() {
		if h.chaos > 0 || h.lossy {
			h.revive(n, h.random.IntN(2) == 0)
		}
	}
}

// settle waits until nothing goes on by itself any more.
func (h *history) settle() {
	before := ""
	for range 60 {
		time.Sleep(40 * time.Second)
		now := ""
		for _, c := range h.chapters() {
			now += fmt.Sprintln(c.head.Number, len(c.entries), len(c.unread), c.head.Status)
		}
		if now == before {
			return
		}
		before = now
	}
}

// gap makes calls of another process while a claim is being made.
func (h *history) gap() {
	h.mu.Lock()
	h.gaps--
	left := h.gaps >= 0
	h.last++
	c := &caller{history: h, random: rand.New(rand.NewPCG(h.seed, uint64(h.last)))}
	h.mu.Unlock()
	switch {
	case !left || h.engine.Load() == nil:
	case c.random.IntN(3) == 0: // by the engine, on a goroutine of its own
		go c.send(h.engine.Load())
		for range 100 {
			runtime.Gosched()
		}
	case c.random.IntN(3) == 0:
		c.sendWithStart(h.near)
	default:
		c.send(h.near)
	}
}

// A caller is somebody who calls, on the engine or in another process.
type caller struct {
	*history
	random *rand.Rand
}

// patience is how long a caller waits for an answer.
const patience = 20 * time.Second

func (c *caller) act() {
	by := perdure.Caller(c.one())
	if c.random.IntN(2) == 0 {
		by = c.far
	}
	switch k := c.random.IntN(20); {
	case k < 9:
		c.send(by)
	case k < 12:
		c.sendWithStart(by)
	case k < 15:
		c.start(by)
	case k == 15:
		c.route(by)
	default:
		c.order(by)
	}
}

// id returns the target of a call: a workflow ID, or a run that is known.
func (c *caller) id() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) > 0 && c.random.IntN(3) == 0 {
		return string(c.runs[c.random.IntN(len(c.runs))])
	}
	return raceIDs[c.random.IntN(len(raceIDs))]
}

func (c *caller) learn(run journal.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run != "" {
		c.runs = append(c.runs, run)
	}
}

// number returns a number that no other call or message has.
func (h *history) number() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	return h.last
}

func (h *history) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// raw returns the client of a caller.
func raw(by perdure.Caller) *perdure.Client {
	if e, ok := by.(*perdure.Engine); ok {
		return e.Client
	}
	return by.(*perdure.Client)
}

func (c *caller) post(s *sent, call func(context.Context) (perdure.Delivery, error)) {
	s.id, s.began = c.number(), time.Now()
	if c.random.IntN(3) == 0 && !s.decision {
		s.key = fmt.Sprint("key", c.random.IntN(4))
	}
	c.mu.Lock()
	c.sends = append(c.sends, s)
	c.mu.Unlock()
	ctx, cancel := c.context()
	defer cancel()
	got, err := call(ctx)
	c.mu.Lock()
	s.got, s.err, s.ended = got, err, time.Now()
	c.mu.Unlock()
	c.learn(journal.RunID(got.RunID))
}

func (c *caller) send(by perdure.Caller) { c.sendTo(by, c.id(), c.random.IntN(len(raceSignals))) }

func (c *caller) sendTo(by perdure.Caller, id string, signal int) {
	s := &sent{to: id, name: raceSignals[signal].Name()}
	c.post(s, func(ctx context.Context) (perdure.Delivery, error) {
		var opts []perdure.SendOption
		if s.key != "" {
			opts = append(opts, perdure.SendKey(s.key))
		}
		return raceSignals[signal].Send(ctx, by, id, s.id, opts...)
	})
}

func (c *caller) input() racing { return racing{Seed: c.random.Uint64(), Call: c.number()} }

func (c *caller) sendWithStart(by perdure.Caller) {
	in, signal := c.input(), c.random.IntN(len(raceSignals))
	s := &sent{
		to: raceIDs[c.random.IntN(len(raceIDs))], name: raceSignals[signal].Name(), call: in.Call,
	}
	c.post(s, func(ctx context.Context) (perdure.Delivery, error) {
		opts := []perdure.StartOption{perdure.ID(s.to)}
		if s.key != "" {
			opts = append(opts, perdure.SendKey(s.key))
		}
		w := raceWorkflow
		if c.random.IntN(6) == 0 {
			w = raceRival
		}
		return perdure.SendWithStart(ctx, by, raceSignals[signal], s.id, w, in, opts...)
	})
}

func (c *caller) start(by perdure.Caller) {
	ctx, cancel := c.context()
	defer cancel()
	in := c.input()
	b := &launch{call: in.Call, id: raceIDs[c.random.IntN(len(raceIDs))], began: time.Now()}
	c.mu.Lock()
	c.starts = append(c.starts, b)
	c.mu.Unlock()
	dedup := perdure.Dedup(c.random.Int64N(2) * int64(time.Second))
	run, err := raceWorkflow.Start(ctx, by, in, perdure.ID(b.id), dedup)
	c.mu.Lock()
	if b.err = err; err == nil {
		b.run, b.isNew = journal.RunID(run.RunID()), run.New()
	}
	c.mu.Unlock()
	if err == nil {
		c.learn(b.run)
		c.waiting.Go(func() { c.await(by, run) })
	}
}

// await waits for the end of a run. A caller that asks the store learns of it in any case; one that
// asks an engine, as long as that is there.
func (c *caller) await(by perdure.Caller, run *perdure.Run[[]report]) {
	_, err := run.Result(c.open)
	if by == perdure.Caller(c.far) && c.open.Err() != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.returned = append(c.returned,
			fmt.Sprintf("who waited for run %s never heard of its end: %v", run.RunID(), err))
	}
}

// route moves an unrouted message to a run, as an operator does.
func (c *caller) route(by perdure.Caller) {
	ctx, cancel := c.context()
	defer cancel()
	messages, err := raw(by).Unrouted(ctx, 0, 1)
	if err == nil && len(messages) > 0 {
		_, _ = raw(by).Deliver(ctx, messages[0].Number, c.id())
	}
}

// order makes a call as an operator does.
func (c *caller) order(by perdure.Caller) {
	ctx, cancel := c.context()
	defer cancel()
	id := c.id()
	o := &order{to: id, began: time.Now(), atOnce: by != perdure.Caller(c.far) && len(c.peers) == 0}
	switch k := c.random.IntN(10); {
	case k < 2:
		o.what, o.err = "cancel", raw(by).Cancel(ctx, id, "by race")
	case k < 5:
		o.what, o.err = "suspend", raw(by).Suspend(ctx, id, suspendedByRace)
	case k < 8:
		o.what, o.err = "resume", raw(by).Resume(ctx, id)
	case k == 8:
		o.what, o.err = "cancel timer",
			raw(by).CancelTimer(ctx, id, fmt.Sprint("alarm[", c.random.IntN(4), "]"), "by race")
	default:
		c.decide(by, id, fmt.Sprint("ask-", c.random.IntN(4)))
		return
	}
	o.ended = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders = append(c.orders, o)
}

const suspendedByRace = "suspended by race"

func (c *caller) decide(by perdure.Caller, id, at string) {
	s := &sent{to: id, name: path.Base(at), decision: true}
	c.post(s, func(ctx context.Context) (perdure.Delivery, error) {
		return perdure.Delivery{}, raw(by).Decide(ctx, id, at, perdure.Decision{
			Choice: "go on", Data: []byte(strconv.Itoa(s.id)),
		})
	})
}

// feed sends the remaining runs what they wait for, until all have ended.
func (h *history) feed() {
	c := &caller{history: h, random: h.random}
	for range 60 {
		open := 0
		for _, r := range h.chapters() {
			if r.head.Status.IsTerminal() {
				continue
			}
			open++
			c.feed(r)
		}
		if open == 0 {
			return
		}
		wait := time.Duration(1+open) * 2 * time.Second
		if h.world.Options.Sweep == 0 {
			wait = 35 * time.Second // longer than a sweep
		}
		time.Sleep(wait)
	}
}

func (c *caller) feed(r *chapter) {
	ctx, cancel := c.context()
	defer cancel()
	id := string(r.head.ID)
	if r.head.Cause != "" {
		_ = c.engine.Load().Resume(ctx, id)
		return
	}
	for _, w := range r.state.Waits {
		switch w.Kind {
		case journal.WaitDecision:
			c.decide(c.near, id, w.Path)
		case journal.WaitSignal:
			c.sendTo(c.near, id, int(w.Op.Name[0]-'a'))
		}
	}
}

// fate returns the answer to a caller.
func fate(err error) string {
	var e *perdure.Error
	switch {
	case err == nil:
		return acked
	case errors.As(err, &e):
		switch e.Code {
		case journal.CodeWrongState, journal.CodeNotFound, journal.CodeConflict:
			return refused
		}
	}
	return unknown
}

// fate returns the answer to the sender of a message: one that is not delivered is refused.
func (s *sent) fate() string {
	if s.got.NotDelivered {
		return refused
	}
	return fate(s.err)
}

const (
	acked   = "acknowledged"
	refused = "refused"
	unknown = "of unknown outcome"
)
