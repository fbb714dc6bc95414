package kernel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// The size of a group. When a group has come to it, no further run is added to it. A turn that is
// larger goes alone, whole.
const (
	groupRows  = 4096
	groupBytes = 4 << 20
)

// A pipeline commits the turns of many runs in few groups. While one group is being made durable
// the next one forms behind it, so the size of a group follows the load and there is no timer to
// tune: an idle engine commits at once, a busy one as often as the disk allows.
//
// The forming group is a set of dirty runs, not a queue of entries. A run is pushed once. When its
// group is built, it adds everything that it has sealed by then. So
//
//   - entries of a run become durable in their order, since a run is in one
//     group at a time and adds its oldest entries first;
//   - the entries of one turn are in one commit, since a run seals when its turn
//     ends;
//   - nobody is notified of an entry before its group is durable, since the run gets the verdict in
//     committed and notifies others from there.
//
// A group that is refused because of its data is halved until the change at fault is alone; the run
// gets that verdict in refused. After any other failure the environment tries again; no run is
// blamed for it. A run that has to wait for a transaction of the user's is set aside, and holds up
// no other run; see aside.go.
//
// Committing and telling overlap: while runs get the verdict on one group, the next one is being
// made durable. They get the verdicts in the order of the commits.
//
// The environment is the function commit, so that the pipeline can be tested without a store.
type pipeline struct {
	commit  func(*store.Group) error
	observe func(observe.Notice)

	mu      sync.Mutex
	dirty   []source
	aside   asideList
	stopped bool
	nudge   chan struct{}

	// two batches go round: one is being made durable while the other is told
	free    chan *batch
	told    chan verdict   // in the order of the commits
	trials  sync.WaitGroup // of runs that are aside
	telling atomic.Int32   // the number of verdicts that tell has and has not delivered
}

// A batch is one group on its way: sources[i] added the next gave[i] of changes.
type batch struct {
	changes []store.Change
	sources []source
	gave    []int
}

// split returns the first n sources with their changes as one batch, and the others as another.
func (b batch) split(n int) (batch, batch) {
	at := 0
	for _, gave := range b.gave[:n] {
		at += gave
	}
	return batch{
		b.changes[:at], b.sources[:n], b.gave[:n],
	}, batch{b.changes[at:], b.sources[n:], b.gave[n:]}
}

// A verdict is the result of committing a batch, or a part of it.
type verdict struct {
	batch
	err    error
	resent bool   // the group was sent more than once
	done   *batch // the batch that is free when this verdict is told; nil if another part follows
}

// A source has something to make durable: a run, or a submission.
type source interface {
	// take appends the changes that are sealed to cs: those that must be in one group. Unless first
	// is set, it takes nothing and returns false if they exceed the rows and bytes left. It
	// subtracts what it took from rows and bytes.
	take(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool)
	// committed is called with changes that are durable, with their verdicts. If their group was
	// sent more than once, a message that counts as delivered may be that of another sender, with
	// the same ID and other content.
	committed(cs []store.Change, resent bool)
	// refused is called with changes that can never be durable, or, with a final error of the
	// store, when no change can.
	refused(cs []store.Change, err error)
}

func newPipeline(commit func(*store.Group) error, observe func(observe.Notice)) *pipeline {
	p := &pipeline{
		commit: commit, observe: observe, nudge: make(chan struct{}, 1),
		free: make(chan *batch, 2), told: make(chan verdict, 2),
	}
	p.free <- &batch{}
	p.free <- &batch{}
	return p
}

// push adds a source that has sealed something. A source pushes itself once until it is taken.
func (p *pipeline) push(s source) {
	p.mu.Lock()
	p.dirty = append(p.dirty, s)
	wake := len(p.dirty) == 1
	p.mu.Unlock()
	if wake {
		select {
		case p.nudge <- struct{}{}:
		default:
		}
	}
}

// stop ends the loop when everything pushed before is dealt with.
func (p *pipeline) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	select {
	case p.nudge <- struct{}{}:
	default:
	}
}

// loop commits group after group, until the pipeline is stopped and every verdict is told.
func (p *pipeline) loop() {
	var telling sync.WaitGroup
	telling.Go(p.tell)
	work := p.gather(nil)
	for len(work) > 0 {
		b := <-p.free
		work = p.more(work)
		n := b.form(work)
		p.halve(*b, b)
		work = p.gather(slices.Delete(work, 0, n))
		if len(work) == 0 {
			p.trials.Wait() // a run that was aside may have pushed meanwhile
			work = p.gather(work)
		}
	}
	close(p.told)
	telling.Wait()
}

// few is the number of runs that are told sooner than another goroutine is woken to tell them.
const few = 8

// pass delivers a verdict: on this goroutine if that is quick and no other verdict is ahead, else
// on that of tell.
func (p *pipeline) pass(v verdict) {
	if len(v.sources) <= few && p.telling.Load() == 0 {
		p.deliver(v)
		return
	}
	p.telling.Add(1)
	p.told <- v
}

// tell delivers the verdicts that pass hands on. It has a goroutine of its own, so that the next
// group is being made durable meanwhile.
func (p *pipeline) tell() {
	for v := range p.told {
		p.deliver(v)
		p.telling.Add(-1)
	}
}

// deliver reports the verdict to runs.
func (p *pipeline) deliver(v verdict) {
	at := 0
	for i, s := range v.sources {
		cs := v.changes[at : at+v.gave[i]]
		at += v.gave[i]
		if v.err == nil {
			s.committed(cs, v.resent)
		} else {
			s.refused(cs, v.err)
		}
	}
	if v.done != nil {
		clear(v.done.changes)
		clear(v.done.sources)
		p.free <- v.done
	}
}

// gather waits until something is pushed, and adds it to work. It returns nothing when there is
// nothing and the pipeline was stopped.
func (p *pipeline) gather(work []source) []source {
	for {
		p.mu.Lock()
		work = p.pushed(work)
		stopped := p.stopped
		p.mu.Unlock()
		if len(work) > 0 || stopped {
			return work
		}
		<-p.nudge
	}
}

// mostYields limits how long a group waits for others with one processor.
const mostYields = 8

// more yields to goroutines that are ready, if there is one processor, and adds what they push.
// Otherwise the pipeline and the run that it has just told would pass the processor to and fro, a
// row at a time, while the bodies of all others wait.
func (p *pipeline) more(work []source) []source {
	if runtime.GOMAXPROCS(0) > 1 {
		return work
	}
	for range mostYields {
		n := len(work)
		runtime.Gosched()
		p.mu.Lock()
		work = p.pushed(work)
		p.mu.Unlock()
		if len(work) == n {
			break
		}
	}
	return work
}

// form builds a group from the first sources of work and returns how many it has.
func (b *batch) form(work []source) int {
	rows, bytes := groupRows, groupBytes
	b.changes, b.sources, b.gave = b.changes[:0], b.sources[:0], b.gave[:0]
	for i, s := range work {
		cs, fits := s.take(b.changes, &rows, &bytes, len(b.sources) == 0)
		if !fits {
			return i
		}
		if gave := len(cs) - len(b.changes); gave > 0 {
			b.sources, b.gave = append(b.sources, s), append(b.gave, gave)
		}
		b.changes = cs
	}
	return len(work)
}

// halve commits a part of a batch. If that is refused, it commits one half of the part and then the
// other. done is free after it.
func (p *pipeline) halve(part batch, done *batch) {
	resent, err := p.put(part)
	switch n := len(part.sources); {
	case held(err):
		p.setAside(batch{
			slices.Clone(part.changes), slices.Clone(part.sources), slices.Clone(part.gave),
		})
		p.pass(verdict{done: done})
	case n < 2 || !refusal(err):
		p.pass(verdict{part, err, resent, done})
	default:
		one, other := part.split(n / 2)
		p.halve(one, nil)
		p.halve(other, done)
	}
}

// A lanes has the pipelines of a kernel: as many as make the store faster.
//
// Invariant: a run is always on the same pipeline. Between runs the only order is cause and effect:
// a consequence of a group is pushed when the group is durable.
type lanes struct {
	all  []*pipeline
	sent atomic.Uint64 // submissions so far
}

func (l *lanes) add(p *pipeline) { l.all = append(l.all, p) }

// run makes the pipelines commit until they are stopped.
func (l *lanes) run(loops *sync.WaitGroup) {
	for _, p := range l.all {
		loops.Go(p.loop)
	}
}

// waiting returns how many sources wait for the next groups.
func (l *lanes) waiting() (n int) {
	for _, p := range l.all {
		p.mu.Lock()
		n += len(p.dirty)
		p.mu.Unlock()
	}
	return n
}

// stop stops the pipelines.
func (l *lanes) stop() {
	for _, p := range l.all {
		p.stop()
	}
}

// of returns the pipeline of a run.
func (l *lanes) of(n journal.Number) *pipeline { return l.all[int64(n)%int64(len(l.all))] }

// any returns a pipeline for a submission, which belongs to no run, by turns.
func (l *lanes) any() *pipeline { return l.all[l.sent.Add(1)%uint64(len(l.all))] }
