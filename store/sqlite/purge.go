package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const (
	// selectOver gives runs that a rule names. One that stands for its workflow
	// ID still is none of them, and none of which an entry is owed, or that is the
	// first of a chain that goes on.
	selectOver = `select number from heads where ended is not null and status = ? and ended <= ?
and (keep = 0 or ended + keep < ?) and not exists (select 1 from owed where run = heads.number)
and not exists (select 1 from heads o where o.workflow_id = heads.workflow_id and o.ended is null and o.chain = heads.number)`

	selectExpired = `select number from unrouted where until <= ? order by until limit ? + 0`

	// What goes with a run: payloads that nothing else names come first.
	purgeSpilled = `delete from spilled where id in (
    select spill from entries where run = ? and spill is not null
    union all
    select spill from messages where run = ? and spill is not null)
and not exists (select 1 from entries where spill = spilled.id and run <> ?)
and not exists (select 1 from messages where spill = spilled.id and run <> ?)
and not exists (select 1 from unrouted where spill = spilled.id)`

	purgeExpired = `delete from spilled where id = (select spill from unrouted where number = ?)
and not exists (select 1 from entries where spill = spilled.id)
and not exists (select 1 from messages where spill = spilled.id)
and not exists (select 1 from unrouted where spill = spilled.id and number <> ?)`
)

// expiredAtATime bounds how many messages that found no run a purge removes.
const expiredAtATime = 10_000

// purgeRun removes a run, in this order.
var purgeRun = []string{
	purgeSpilled,
	"delete from entries where run = ?",
	"delete from messages where run = ?",
	"delete from attributes where run = ?",
	"delete from heads where number = ?",
}

// Purge removes what is kept no longer.
func (s *Store) Purge(_ context.Context, p store.Purge) (store.Purged, error) {
	if p.Limit <= 0 {
		p.Limit = store.DefaultLimit
	}
	var out store.Purged
	err := s.write(func(db *conn) error {
		out = store.Purged{}
		if p.Engine != 0 {
			if err := fence(db, p.Engine); err != nil {
				return err
			}
		}
		if err := purgeRuns(db, p, &out); err != nil {
			return err
		}
		return purgeUnrouted(db, p, &out)
	})
	if err != nil {
		return store.Purged{}, err
	}
	return out, nil
}

func purgeRuns(db *conn, p store.Purge, out *store.Purged) error {
	over, err := overdue(db, p)
	if err != nil {
		return err
	}
	if len(over) > p.Limit {
		over, out.More = over[:p.Limit], true
	}
	for _, run := range over {
		for _, sql := range purgeRun {
			if err := db.forRun(sql, run); err != nil {
				return err
			}
		}
	}
	out.Runs = len(over)
	return nil
}

// forRun executes a statement each argument of which is the run.
func (c *conn) forRun(sql string, run driver.Value) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	for i := range s.args {
		s.args[i].Value = run
	}
	_, err = s.exec()
	return err
}

// overdue gives the runs that the rules name, one more than may go at a time if
// there are so many.
func overdue(db *conn, p store.Purge) ([]driver.Value, error) {
	named := []driver.Value{""} // workflows that have rules of their own
	for _, r := range p.Rules {
		if r.Workflow != "" {
			named = append(named, r.Workflow)
		}
	}
	others := " and workflow not " + list(len(named))
	named = padded(named, func(v driver.Value) driver.Value { return v })
	seen := map[driver.Value]bool{}
	var over []driver.Value
	for _, r := range p.Rules {
		whose, args := others, named
		if r.Workflow != "" {
			whose, args = " and workflow = ?", []driver.Value{r.Workflow}
		}
		statuses := r.Statuses
		if len(statuses) == 0 {
			statuses = journal.Statuses() // of open ones there is none
		}
		for _, status := range statuses {
			all := append([]driver.Value{int64(status), nanos(r.Before), nanos(p.Now)}, args...)
			err := db.query(func(row []driver.Value) error {
				if !seen[row[0]] {
					over = append(over, row[0])
				}
				seen[row[0]] = true
				return nil
			}, selectOver+whose+" order by ended limit ? + 0", append(all, int64(p.Limit)+1)...)
			if err != nil || len(over) > p.Limit {
				return over, err
			}
		}
	}
	return over, nil
}

func purgeUnrouted(db *conn, p store.Purge, out *store.Purged) error {
	var expired []driver.Value
	err := db.query(func(row []driver.Value) error {
		expired = append(expired, row[0])
		return nil
	}, selectExpired, nanos(p.Now), int64(expiredAtATime)+1)
	if err != nil {
		return err
	}
	if len(expired) > expiredAtATime {
		expired, out.More = expired[:expiredAtATime], true
	}
	for _, number := range expired {
		if err := db.forRun(purgeExpired, number); err != nil {
			return err
		}
		if _, err := db.exec(deleteUnrouted, number); err != nil {
			return err
		}
	}
	out.Unrouted = len(expired)
	return nil
}
