package world

import (
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

// Lease is the lease of the engines of a cluster.
const Lease = 10 * time.Second

// A Cluster is one database and several engines. Each has a handle of its own, as in a
// process of its own.
type Cluster struct {
	testing.TB
	DB    *memory.Store
	Nodes []*World
}

// NewCluster starts n engines.
func NewCluster(t testing.TB, n int, workflows ...perdure.Definition) *Cluster {
	t.Helper()
	c := &Cluster{TB: t, DB: memory.NewShared(Lease)}
	for range n {
		c.Node(workflows...).Begin()
	}
	return c
}

// Node adds an engine that has not begun.
func (c *Cluster) Node(workflows ...perdure.Definition) *World {
	w := &World{T: c.TB, DB: c.DB.Beside(), Workflows: workflows}
	w.Options = perdure.Options{Build: "test", IdleTimeout: -1}
	c.Nodes = append(c.Nodes, w)
	return w
}

// End stops the engines that run in good order.
func (c *Cluster) End() {
	c.Helper()
	for _, w := range c.Nodes {
		if w.Engine != nil {
			c.Stop(w)
		}
	}
}

// Stop stops a node in good order.
func (c *Cluster) Stop(w *World) {
	c.Helper()
	w.End()
	w.Engine = nil
}

// Kill ends a node as the death of its process would: nothing more of it reaches
// the database, and its lease is left to pass.
func (c *Cluster) Kill(w *World) {
	c.Helper()
	w.Kill()
	w.Engine = nil
}
