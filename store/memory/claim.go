package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// claimBytes limits the size of the journals and inboxes that come with one claim.
const claimBytes = 32 << 20

// Claim carries out a request of an engine: to join, renew its lease, take runs or entries of the
// outbox, or leave. It also reserves the ID of an engine.
func (s *Store) Claim(_ context.Context, c store.Claim) (store.Claimed, error) {
	if err := s.enter(); err != nil {
		return store.Claimed{}, err
	}
	defer s.leave()
	d := s.data
	switch c := c.(type) {
	case store.Join:
		return s.join(c)
	case store.ReserveID:
		d.joined++
		return store.Claimed{Engine: d.joined}, nil
	case store.Renew:
		return fenced(d, c.Engine, func() store.Claimed { return s.renew(c) })
	case store.Leave:
		return fenced(d, c.Engine, func() store.Claimed { return s.quit(c) })
	case store.TakeRun:
		return fenced(d, c.Engine, func() store.Claimed { return d.owning(d.one(c)) })
	case store.TakeDue:
		return fenced(d, c.Engine, func() store.Claimed { return d.owning(d.take(c)) })
	case store.TakeOutbox:
		return fenced(d, c.Engine, func() store.Claimed { return d.takeOutbox(c) })
	}
	return store.Claimed{}, store.InvalidClaim(c)
}

// fenced returns the result of claim if the engine may still write.
func fenced(d *data, engine journal.EngineID, claim func() store.Claimed) (store.Claimed, error) {
	if err := d.fence(engine); err != nil {
		return store.Claimed{}, err
	}
	return claim(), nil
}

// owning shortens the lease of an engine that has got runs to the usual length.
func (d *data) owning(out store.Claimed) store.Claimed {
	if len(out.Runs) > 0 {
		d.shorten(out.Engine, &out)
	}
	return out
}

func (d *data) one(c store.TakeRun) store.Claimed {
	out := store.Claimed{Engine: c.Engine}
	if r := d.runs[c.Run]; r != nil && r.isOpen() &&
		(r.head.Owner == 0 || r.head.Owner == c.Engine) {
		out.Runs = append(out.Runs, r.claim(c.Engine))
	}
	return out
}

func (d *data) take(c store.TakeDue) store.Claimed {
	out := store.Claimed{
		Engine: c.Engine, Mail: d.unseen(c.Engine), Settings: d.revision,
	}
	if c.Max <= 0 {
		return out
	}
	size := 0
	firsts := func() []*run { // of each part
		return []*run{
			firstOrdered(d, func(r *run) bool {
				return slices.Contains(c.Paused, r.head.Workflow)
			}),
			firstOrdered(d, func(r *run) bool {
				return r.ordered == store.TerminateOrder && !has(d, &c, r.head.Workflow)
			}),
			d.first(c.Workflows),
		}
	}
	isDue := func(r *run) bool { return r != nil && !r.head.Wake.After(c.Now) }
	for {
		all := firsts()
		i := slices.IndexFunc(all, isDue)
		if i < 0 {
			break
		}
		if len(out.Runs) == c.Max || size >= claimBytes {
			out.More = true
			break
		}
		got := all[i].claim(c.Engine)
		for _, entries := range [][]journal.Entry{got.Entries, got.Inbox} {
			for i := range entries {
				size += entries[i].Size()
			}
		}
		out.Runs = append(out.Runs, got)
	}
	for _, r := range firsts() {
		if r != nil && (out.Next.IsZero() || r.head.Wake.Before(out.Next)) {
			out.Next = r.head.Wake
		}
	}
	return out
}

// has reports whether an engine has the workflow: the one that takes runs, or another one, which
// may have any as long as it has not said which.
func has(d *data, c *store.TakeDue, workflow string) bool {
	if slices.Contains(c.Workflows, workflow) || slices.Contains(c.Paused, workflow) {
		return true
	}
	for id, e := range d.engines {
		if id != c.Engine && (e.Workflows == nil || slices.Contains(e.Workflows, workflow)) {
			return true
		}
	}
	return false
}

// firstOrdered returns the run that is due first among those with an unseen order for which may is
// true; nil if there is none.
func firstOrdered(d *data, may func(*run) bool) (first *run) {
	for r := range d.ordered {
		switch {
		case r.ordered == store.NoOrder || !r.isOpen():
			delete(d.ordered, r)
		case !r.isFree():
		case !may(r):
		case first == nil || (wait{r.head.Wake, r}).before(wait{first.head.Wake, first}):
			first = r
		}
	}
	return first
}

// unseen returns the runs that the engine owns and that have messages which it was not given, with
// these messages. It counts them as given.
func (d *data) unseen(engine journal.EngineID) []store.Run {
	var out []store.Run
	for _, r := range slices.SortedFunc(maps.Keys(d.mail), byNumber) {
		if r.hasMail() && r.head.Owner != engine {
			continue
		}
		delete(d.mail, r)
		if !r.hasMail() {
			continue
		}
		got := store.Run{Head: r.head}
		got.Inbox, got.More, got.Err = r.beginning(r.given)
		r.given = r.head.Mail
		out = append(out, got)
	}
	return out
}

// claim makes the engine the owner of the run and returns the run with its journal and inbox.
func (r *run) claim(engine journal.EngineID) store.Run {
	r.head.Owner, r.claimed, r.given = engine, true, r.head.Mail
	out := store.Run{Head: r.head, Last: r.last()}
	if !r.head.Status.Valid() {
		out.Err = &journal.CorruptError{Run: r.head.Number, Reason: "unknown status " +
			r.head.Status.String()}
		return out
	}
	out.Entries = make([]journal.Entry, 0, len(r.rows))
	for _, row := range r.rows {
		e, err := row.read()
		if err != nil {
			out.Err = err
			break
		}
		out.Entries = append(out.Entries, e)
	}
	out.CutOff()
	if out.Err == nil {
		out.Inbox, out.More, out.Err = r.beginning(0)
	}
	return out
}
