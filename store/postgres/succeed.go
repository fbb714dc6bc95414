package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// What a successor takes over from the run that it continues.
const (
	// checkEnded fails where a run cannot be continued: it is open, not there or has
	// another workflow ID.
	checkEnded = `select 1 / (count(*) = $4)::int
from unnest($1::bigint[], $2::bigint[], $3::text[]) as s (number, ended, workflow_id)
cross join lateral (select * from perdure.heads where number = s.ended offset 0) h
cross join lateral (select from perdure.heads where number = s.number offset 0) n
where h.workflow_id = s.workflow_id and h.ended is not null`

	inheritMessages = `update perdure.messages m set run = s.number
from unnest($1::bigint[], $2::bigint[]) as s (number, ended) where m.run = s.ended and m.taken is null`

	// inheritMail counts what has moved as not given.
	inheritMail = `update perdure.heads h set mail = e.mail,
    given = case when (select true from perdure.messages m where m.run = h.number limit 1) then 0 else e.mail end
from unnest($1::bigint[], $2::bigint[]) as s (number, ended) join perdure.heads e on e.number = s.ended
where h.number = s.number`
)

var selectHeads = `select ` + headColumns + ` from perdure.heads where number = any($1::bigint[])`

// succeed creates runs that continue others, which have ended by now.
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
		or(refused("a run cannot continue one that is open, not there or has another workflow ID"))
	b.add(inheritMessages, heads.number, ended)
	b.add(inheritMail, heads.number, ended)
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
