package kernel

import (
	"sync"
	"sync/atomic"
)

// A gate limits how many bytes of entries are in memory and not yet durable. Entries are counted
// when they are appended and when they are durable. While the limit is passed, nothing begins that
// would append more entries: step bodies and Start wait.
type gate struct {
	limit int64
	bytes atomic.Int64

	mu      sync.Mutex
	waiting []func()
}

// count adds n bytes; n is below 0 when entries are durable. Once half of the limit is free, it
// lets in everything that waits.
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

// open reports whether there is room.
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
