package kernel

import (
	"sync"
	"sync/atomic"
)

// A gate bounds what is in memory and not yet durable. Entries are counted when
// they are appended and when they are durable. While the bound is passed, what
// would make more of them waits: step bodies do not begin, and Start waits.
type gate struct {
	limit int64
	bytes atomic.Int64

	mu      sync.Mutex
	waiting []func()
}

// count adds n bytes, or takes them away. It lets in what waits once half of
// the limit is free.
func (g *gate) count(n int64) {
	if g.bytes.Add(n) > g.limit/2 || n > 0 {
		return
	}
	g.mu.Lock()
	let := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	for _, f := range let {
		f()
	}
}

// open says whether there is room.
func (g *gate) open() bool { return g.bytes.Load() <= g.limit }

// pass calls f now, or later when there is room again. f must return soon.
func (g *gate) pass(f func()) {
	if g.open() {
		f()
		return
	}
	g.mu.Lock()
	if g.bytes.Load() > g.limit/2 {
		g.waiting = append(g.waiting, f)
		g.mu.Unlock()
		return
	}
	g.mu.Unlock()
	f()
}
