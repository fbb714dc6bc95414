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

// A group holds at most so much; at the bound no further run joins it. A turn
// that is larger goes alone, whole.
const (
	groupRows  = 4096
	groupBytes = 4 << 20
)

// A pipeline turns the turns of many runs into few commits. While one group is
// being made durable the next one forms behind it, so the size of a group
// follows the load and there is no timer to tune: an idle engine commits at
// once, a busy one as often as the disk allows.
//
// What forms is a set of dirty runs, not a queue of entries: a run that was
// pushed once gives, when its group is built, everything that it has sealed by
// then. So
//
//   - entries of a run become durable in their order, since a run is in one
//     group at a time and gives its oldest entries first;
//   - what one turn appended is in one commit, since a run seals when its turn
//     ends;
//   - nobody is told of an entry before its group is durable, since the run
//     hears of it in committed and tells others from there.
//
// A group that is refused because of its data is halved until the change at
// fault is alone; the run hears of that in refused. Any other failure is tried
// again by the environment and never blames a run. What has to wait for a transaction
// of the user's goes aside, and holds up nobody else; see aside.go.
//
// Committing and telling overlap: while runs hear of one group, the next one is
// being made durable. They hear in the order of the commits.
//
// The environment is the function commit, so that the pipeline can be tested
// without a store.
type pipeline struct {
	commit  func(*store.Group) error
	observe func(observe.Notice)

	mu      sync.Mutex
	dirty   []source
	aside   asideList
	stopped bool
	nudge   chan struct{}

	free    chan *batch    // two go round: one is being made durable while the other is told
	told    chan verdict   // in the order of the commits
	trials  sync.WaitGroup // of what is aside
	telling atomic.Int32   // verdicts that tell has and has not delivered
}

// A batch is one group on its way: joined[i] gave the next gave[i] of changes.
type batch struct {
	changes []store.Change
	joined  []source
	gave    []int
}

// split gives the first n of the joined with what they gave, and the others.
func (b batch) split(n int) (batch, batch) {
	at := 0
	for _, gave := range b.gave[:n] {
		at += gave
	}
	return batch{b.changes[:at], b.joined[:n], b.gave[:n]}, batch{b.changes[at:], b.joined[n:], b.gave[n:]}
}

// A verdict is what became of a batch, or of a part of it.
type verdict struct {
	batch
	err  error
	done *batch // is free when this is told; nil where another part follows
}

// A source is what has something to make durable: a run, or a submission.
type source interface {
	// take appends what is sealed to cs: the changes that must be in one group.
	// Unless first, it gives false and takes nothing where that is more than the
	// rows and bytes left. It counts down what it took.
	take(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool)
	// committed says that they are durable, with their verdicts.
	committed(cs []store.Change)
	// refused says that they can never be durable, or with a final error of the
	// store that nothing can.
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

// push says that s has sealed something. A source pushes itself once until it
// is taken.
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

// loop commits group after group, until the pipeline is stopped and everything
// is told.
func (p *pipeline) loop() {
	var teller sync.WaitGroup
	teller.Go(p.tell)
	work := p.gather(nil)
	for len(work) > 0 {
		b := <-p.free
		work = p.more(work)
		n := b.form(work)
		p.halve(*b, b)
		work = p.gather(slices.Delete(work, 0, n))
		if len(work) == 0 {
			p.trials.Wait() // who was aside may have pushed meanwhile
			work = p.gather(work)
		}
	}
	close(p.told)
	teller.Wait()
}

// few runs are told sooner than another goroutine is woken to tell them.
const few = 8

// pass has a verdict told: here, where that is quick and nothing is ahead of it.
func (p *pipeline) pass(v verdict) {
	if len(v.joined) <= few && p.telling.Load() == 0 {
		p.deliver(v)
		return
	}
	p.telling.Add(1)
	p.told <- v
}

// tell delivers what pass hands on. It has a goroutine of its own, so that the
// next group is being made durable meanwhile.
func (p *pipeline) tell() {
	for v := range p.told {
		p.deliver(v)
		p.telling.Add(-1)
	}
}

// deliver tells runs what became of their changes.
func (p *pipeline) deliver(v verdict) {
	at := 0
	for i, s := range v.joined {
		cs := v.changes[at : at+v.gave[i]]
		at += v.gave[i]
		if v.err == nil {
			s.committed(cs)
		} else {
			s.refused(cs, v.err)
		}
	}
	if v.done != nil {
		clear(v.done.changes)
		clear(v.done.joined)
		p.free <- v.done
	}
}

// gather adds what was pushed to work, waiting until there is something; it
// gives nothing when there is none and the pipeline was stopped.
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

// mostYields bounds how long a group waits for others with one processor.
const mostYields = 8

// more lets those go on who can, where there is one processor, and adds what they push.
// Else the pipeline and the run that it has just told would pass the processor to and
// fro, a row at a time, while the bodies of all others wait.
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

// form builds a group from the first of work and says how many joined.
func (b *batch) form(work []source) int {
	rows, bytes := groupRows, groupBytes
	b.changes, b.joined, b.gave = b.changes[:0], b.joined[:0], b.gave[:0]
	for i, s := range work {
		cs, joins := s.take(b.changes, &rows, &bytes, len(b.joined) == 0)
		if !joins {
			return i
		}
		if gave := len(cs) - len(b.changes); gave > 0 {
			b.joined, b.gave = append(b.joined, s), append(b.gave, gave)
		}
		b.changes = cs
	}
	return len(work)
}

// halve commits a part of a batch; where it is refused, one half of it and then
// the other. done is free after it.
func (p *pipeline) halve(part batch, done *batch) {
	err := p.put(part)
	switch n := len(part.joined); {
	case held(err):
		p.setAside(batch{slices.Clone(part.changes), slices.Clone(part.joined), slices.Clone(part.gave)})
		p.pass(verdict{done: done})
	case n < 2 || !refusal(err):
		p.pass(verdict{part, err, done})
	default:
		one, other := part.split(n / 2)
		p.halve(one, nil)
		p.halve(other, done)
	}
}

// lanes are the pipelines of a kernel: as many as the store gains by.
//
// Invariant: a run is always on the same. Between runs the only order is cause and effect:
// what follows from a group is pushed when it is durable.
type lanes struct {
	all  []*pipeline
	sent atomic.Uint64 // submissions so far
}

func (l *lanes) add(p *pipeline) { l.all = append(l.all, p) }

// run has the pipelines commit until they are stopped.
func (l *lanes) run(loops *sync.WaitGroup) {
	for _, p := range l.all {
		loops.Go(p.loop)
	}
}

// stop stops the pipelines.
func (l *lanes) stop() {
	for _, p := range l.all {
		p.stop()
	}
}

// of returns the pipeline of a run.
func (l *lanes) of(n journal.Number) *pipeline { return l.all[int64(n)%int64(len(l.all))] }

// any returns a pipeline for what is no run's, by turns.
func (l *lanes) any() *pipeline { return l.all[l.sent.Add(1)%uint64(len(l.all))] }
