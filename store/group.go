package store

import (
	"errors"
	"fmt"
)

// Check gives a DataError where the group is malformed by itself, whatever the
// database has: a stranger that does more than create, a new run without a head
// or with another run's, entries of another run or out of order. Drivers call
// it before they write.
func (g *Group) Check() error {
	for i := range g.Changes {
		if err := g.Changes[i].check(g.Engine == 0); err != nil {
			return &DataError{Err: err}
		}
	}
	return nil
}

func (c *Change) check(stranger bool) error {
	switch {
	case c.Run <= 0:
		return errors.New("a change of no run")
	case stranger && !c.Create:
		return fmt.Errorf("run %d: only its engine may change it", c.Run)
	case c.Create && c.Head == nil:
		return fmt.Errorf("run %d: new, but without a head", c.Run)
	case c.Head != nil && c.Head.Number != c.Run:
		return fmt.Errorf("run %d: the head is that of run %d", c.Run, c.Head.Number)
	}
	last := int64(0)
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Run != c.Run {
			return fmt.Errorf("run %d: an entry of run %d", c.Run, e.Run)
		}
		if e.Seq <= last {
			return fmt.Errorf("run %d: entry %d follows entry %d", c.Run, e.Seq, last)
		}
		last = e.Seq
	}
	return nil
}
