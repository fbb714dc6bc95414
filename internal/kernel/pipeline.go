package kernel

import (
	"slices"
	"sync"
	"time"

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
// again by the environment and never blames a run.
//
// The environment is the function commit, so that the pipeline can be tested
// without a store.
type pipeline struct {
	commit  func(*store.Group) error
	observe func(observe.Notice)

	mu      sync.Mutex
	dirty   []source
	stopped bool
	nudge   chan struct{}

	group  store.Group
	joined []source // joined[i] gave group.Changes[i]
}

// A source is what has something to make durable: a run.
type source interface {
	// take moves what is sealed into c. Unless first, it gives false and moves
	// nothing where that is more than the rows and bytes left. It counts down what
	// it moved.
	take(c *store.Change, rows, bytes *int, first bool) bool
	// committed says that c is durable, with its verdict.
	committed(c *store.Change)
	// refused says that c can never be durable, or with a final error of the store
	// that nothing can.
	refused(c *store.Change, err error)
}

func newPipeline(commit func(*store.Group) error, observe func(observe.Notice)) *pipeline {
	return &pipeline{commit: commit, observe: observe, nudge: make(chan struct{}, 1)}
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

// loop commits group after group.
func (p *pipeline) loop() {
	for work := p.gather(nil); len(work) > 0; work = p.gather(work) {
		n := p.form(work)
		p.send()
		work = slices.Delete(work, 0, n)
	}
}

// gather adds what was pushed to work, waiting until there is something; it
// gives nothing when there is none and the pipeline was stopped.
func (p *pipeline) gather(work []source) []source {
	for {
		p.mu.Lock()
		work = append(work, p.dirty...)
		clear(p.dirty)
		p.dirty = p.dirty[:0]
		stopped := p.stopped
		p.mu.Unlock()
		if len(work) > 0 || stopped {
			return work
		}
		<-p.nudge
	}
}

// form builds a group from the first of work and says how many joined.
func (p *pipeline) form(work []source) int {
	rows, bytes := groupRows, groupBytes
	p.group.Changes, p.joined = p.group.Changes[:0], p.joined[:0]
	p.group.Again = false
	for i, s := range work {
		p.group.Changes = append(p.group.Changes, store.Change{})
		c := &p.group.Changes[len(p.group.Changes)-1]
		if !s.take(c, &rows, &bytes, len(p.joined) == 0) {
			p.group.Changes = p.group.Changes[:len(p.joined)]
			return i
		}
		if len(c.Entries) == 0 && c.Head == nil {
			p.group.Changes = p.group.Changes[:len(p.joined)]
			continue
		}
		p.joined = append(p.joined, s)
	}
	return len(work)
}

// send commits the group that form built, or its parts.
func (p *pipeline) send() {
	if len(p.joined) == 0 {
		return
	}
	began, rows := time.Now(), 0
	for i := range p.group.Changes {
		rows += len(p.group.Changes[i].Entries)
	}
	if p.halve(p.group.Changes, p.joined) {
		p.observe(observe.Notice{Kind: observe.Committed, At: time.Now(), Took: time.Since(began), Rows: rows})
	}
	clear(p.group.Changes)
	clear(p.joined)
}

// halve commits changes; where they are refused it commits one half and then
// the other. It says whether all went at once.
func (p *pipeline) halve(changes []store.Change, joined []source) bool {
	g := store.Group{Changes: changes}
	err := p.commit(&g)
	switch {
	case err == nil:
		for i, s := range joined {
			s.committed(&changes[i])
		}
		return true
	case !refusal(err) || len(changes) == 1:
		for i, s := range joined {
			s.refused(&changes[i], err)
		}
		return false
	}
	mid := len(changes) / 2
	p.halve(changes[:mid], joined[:mid])
	p.halve(changes[mid:], joined[mid:])
	return false
}
