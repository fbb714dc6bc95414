package orchestrator

import (
	"context"
	"fmt"
)

// A Deleting is a memory that removes the states of instances that have finished. The rest of their
// records stays.
type Deleting struct{ Memory[Record] }

// Cleanup removes the state.
func (d Deleting) Cleanup(ctx context.Context, subject string, c Change[Record],
	m *Metadata) error {
	now, err := d.Read(ctx, subject, m)
	if err != nil || now == nil {
		return err
	}
	return d.Write(ctx, subject, Change[Record]{now.Value.Rest(), now, c.Lock}, m)
}

// An Archiving is a memory that moves the states of instances that have finished to another memory.
// The rest of their records stays.
type Archiving struct {
	Memory[Record]
	To Memory[Record]
}

// Cleanup stores the state in the archive, in place of what it has of the subject, and then removes
// it.
func (a Archiving) Cleanup(ctx context.Context, subject string, c Change[Record],
	m *Metadata) error {
	now, err := a.Read(ctx, subject, m)
	if err != nil || now == nil || now.Value.State == nil {
		return err // it is archived already
	}
	if err := a.archive(ctx, subject, now.Value, m); err != nil {
		return fmt.Errorf("archive %s: %w", subject, err)
	}
	return a.Write(ctx, subject, Change[Record]{now.Value.Rest(), now, c.Lock}, m)
}

// archive stores a record in the archive.
func (a Archiving) archive(ctx context.Context, subject string, r Record, m *Metadata) error {
	to := Insist(a.To)
	return locked(ctx, to, subject, func(t Token) error {
		before, err := to.Read(ctx, subject, m)
		if err != nil {
			return err
		}
		return to.Write(ctx, subject, Change[Record]{Record{State: r.State, Ended: r.Ended,
			Parent: r.Parent, Initiator: r.Initiator}, before, t}, m)
	})
}
