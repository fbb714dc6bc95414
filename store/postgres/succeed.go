package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// These statements transfer data to a successor from the run that it continues.
const (
	// checkEnded fails if a run cannot be continued: it is open, is not there, was continued
	// already or has another workflow ID.
	checkEnded = `select 1 / (count(*) = $4)::int
from unnest($1::bigint[], $2::bigint[], $3::text[]) as s (number, ended, workflow_id)
cross join lateral (select * from perdure.heads where number = s.ended offset 0) h
cross join lateral (select from perdure.heads where number = s.number offset 0) n
where h.workflow_id = s.workflow_id and h.ended is not null and h.inbox is distinct from -1`

	// inheritInbox writes no message, however many there are. Messages that were not taken
	// count as not given.
	inheritInbox = `update perdure.heads h set mail = e.mail, inbox = e.box, past = e.past, given = e.past
from unnest($1::bigint[], $2::bigint[]) as s (number, ended) cross join lateral (
    select b.mail, b.box, coalesce((
        select m.number - 1 from perdure.messages m where m.holder = b.box and m.number > b.past and m.taken is null order by m.number limit 1), b.mail) as past
    from (select mail, past, coalesce(inbox, number) as box from perdure.heads where number = s.ended offset 0) b) e
where h.number = any(array[s.number])`

	leaveInbox = `update perdure.heads set inbox = -1 where number = any($1::bigint[])`
)

var selectHeads = `select ` + headColumns + ` from perdure.heads where number = any($1::bigint[])`

// succeed creates runs that continue other runs, which have ended by now.
func (t *transaction) succeed() error {
	if len(t.continued) == 0 {
		return nil
	}
	var heads headRows
	var entries entryRows
	var ended []int64
	successors := map[journal.Number]*store.Change{}
	for _, c := range t.continued {
		heads.add(&c.Found, time.Time{})
		ended = append(ended, int64(c.From))
		successors[c.Run] = c
		if err := entries.add(c); err != nil {
			return err
		}
	}
	b := &t.batch
	b.add(insertHeads, heads.args()...)
	b.add(checkEnded, heads.number, ended, heads.workflowID, len(ended)).
		or(refused("a run cannot continue one that is open, not there, was continued or has " +
			"another workflow ID"))
	b.add(inheritInbox, heads.number, ended)
	b.add(leaveInbox, ended)
	b.add(inheritSlots, heads.number, ended)
	b.add(selectHeads, heads.number).each(func(rows pgx.Rows) error {
		h, err := t.store.scanHead(rows)
		if c := successors[h.Number]; err == nil && c != nil {
			c.Found = h
		}
		return err
	})
	t.deliver(successors, heads.number)
	entries.queue(b, t.group.Engine)
	return nil
}
