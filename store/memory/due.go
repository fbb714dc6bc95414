package memory

import (
	"container/heap"
	"time"
)

// A queue has the runs of one workflow that may be claimed, by wake time. Its items may be out of
// date: a run was claimed or has another wake time. Such an item is dropped when it comes to the
// front.
type queue struct{ items waits }

type wait struct {
	at  time.Time
	run *run
}

// isCurrent reports whether the run may still be claimed and has the wake time of the item.
func (w wait) isCurrent() bool { return w.run.isFree() && w.run.head.Wake.Equal(w.at) }

// offer puts the run into the queue of its workflow if it may be claimed.
func (d *data) offer(r *run) {
	if !r.isFree() {
		return
	}
	q := d.due[r.head.Workflow]
	if q == nil {
		q = &queue{}
		d.due[r.head.Workflow] = q
	}
	heap.Push(&q.items, wait{at: r.head.Wake, run: r})
}

// first returns the run that is due first among the runs of the workflows; nil if there is none. It
// does not remove the run. At the same wake time the lower number comes first.
func (d *data) first(workflows []string) *run {
	var best *wait
	for _, name := range workflows {
		q := d.due[name]
		if q == nil {
			continue
		}
		if w := q.front(); w != nil && (best == nil || w.before(*best)) {
			best = w
		}
	}
	if best == nil {
		return nil
	}
	return best.run
}

func (q *queue) front() *wait {
	for len(q.items) > 0 {
		if q.items[0].isCurrent() {
			return &q.items[0]
		}
		heap.Pop(&q.items)
	}
	return nil
}

func (w wait) before(v wait) bool {
	if !w.at.Equal(v.at) {
		return w.at.Before(v.at)
	}
	return w.run.head.Number < v.run.head.Number
}

// waits is a heap of items, by wake time and number.
type waits []wait

func (w waits) Len() int           { return len(w) }
func (w waits) Less(i, j int) bool { return w[i].before(w[j]) }
func (w waits) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waits) Push(x any)        { *w = append(*w, x.(wait)) }

func (w *waits) Pop() any {
	old := *w
	last := len(old) - 1
	x := old[last]
	old[last] = wait{}
	*w = old[:last]
	return x
}
