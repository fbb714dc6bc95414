package store

import (
	"errors"
	"fmt"
)

// Check gives a DataError where the group is malformed by itself, whatever the
// database has: a stranger that does more than create and post, a new run without
// a head or with another run's, entries of another run or out of order, a post
// that is no message. Drivers call it before they write.
func (g *Group) Check() error {
	for i := range g.Changes {
		if err := g.Changes[i].check(g.Engine == 0); err != nil {
			return &DataError{Err: err}
		}
	}
	return nil
}

func (c *Change) check(stranger bool) error {
	if err := checkPosts(c.Posts, c.Else); err != nil {
		return err
	}
	changes := c.Create || c.Head != nil || len(c.Entries) > 0
	switch {
	case c.Run < 0 || c.Run == 0 && changes:
		return errors.New("a change of no run")
	case stranger && changes && !c.Create:
		return fmt.Errorf("run %d: only its engine may change it", c.Run)
	case stranger && len(c.Told) > 0:
		return errors.New("only an engine may acknowledge")
	case c.Create && c.Head == nil:
		return fmt.Errorf("run %d: new, but without a head", c.Run)
	case c.Head != nil && c.Head.Number != c.Run:
		return fmt.Errorf("run %d: the head is that of run %d", c.Run, c.Head.Number)
	case c.Shares != 0 && !c.Create:
		return fmt.Errorf("run %d: only a new run shares payloads", c.Run)
	case c.From != 0 && !c.Create || c.Unload && (c.Create || c.Head == nil):
		return fmt.Errorf("run %d: only a new run continues another, and only one that is there is unloaded", c.Run)
	}
	last := int64(0)
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Run != c.Run {
			return fmt.Errorf("run %d: an entry of run %d", c.Run, e.Run)
		}
		if e.Seq <= last || i > 0 && e.Seq != last+1 || c.Create && e.Seq != int64(i+1) {
			return fmt.Errorf("run %d: entry %d follows entry %d", c.Run, e.Seq, last)
		}
		last = e.Seq
	}
	return nil
}

// Follows is the sequence that the first entry of the change follows in the journal of a
// run that is there; 0 where the change has none, or the run is new.
func (c *Change) Follows() int64 {
	if c.Create || len(c.Entries) == 0 {
		return 0
	}
	return c.Entries[0].Seq - 1
}

func checkPosts(posts ...[]Post) error {
	for _, all := range posts {
		for i := range all {
			p := &all[i]
			switch {
			case p.Unrouted != 0 && p.Run == 0:
				return errors.New("an unrouted message without a receiver")
			case p.Unrouted != 0:
			case !p.Message.Kind.IsMessage():
				return fmt.Errorf("a message of kind %v", p.Message.Kind)
			case (p.Run == 0) == (p.WorkflowID == ""):
				return errors.New("a message is for a run or for a workflow ID")
			}
		}
	}
	return nil
}
