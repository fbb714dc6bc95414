package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// mayGo is true for a run that has expired and has no entry in the outbox. It is false if the chain
// goes on and the run is its first run or has not continued as new.
var (
	mayGo = fmt.Sprintf(
		`expires <= ? and not exists (select 1 from perdure_owed where run = perdure_heads.number)
and not exists (select 1 from perdure_heads o where o.workflow_id = perdure_heads.workflow_id and o.ended is null
    and (o.chain = perdure_heads.number or o.chain = perdure_heads.chain and perdure_heads.chain > 0 and perdure_heads.status <> %d))`,
		journal.ContinuedAsNew)
	selectOver = `select number from perdure_heads where ` + mayGo + ` order by expires limit ? + 0`
	deleteOver = `delete from perdure_heads where number = ? and ` + mayGo +
		` returning coalesce(inbox, number)`
)

const (
	insertGone = `insert into perdure_gone (run, inbox) values (?, ?)`
	selectGone = `select run, coalesce(inbox, run) from perdure_gone where run = (select min(run) from perdure_gone)`
	deleteGone = `delete from perdure_gone where run = ?`

	clearAttributes = `delete from perdure_attributes where run = ? and name in (select name from perdure_attributes where run = ? limit ? + 0)`

	selectExpired = `select number, 1 + (spill is not null), coalesce(length(data), 0) + ` +
		spilledBytes + ` from perdure_unrouted u where until <= ? order by until limit ? + 0`
	purgeExpired = `delete from perdure_spilled where id = (select spill from perdure_unrouted where number = ?)
and not exists (select 1 from perdure_entries where spill = perdure_spilled.id)
and not exists (select 1 from perdure_messages where spill = perdure_spilled.id)
and not exists (select 1 from perdure_unrouted where spill = perdure_spilled.id and number <> ?)`

	spilledBytes = `coalesce((select length(s.data) from perdure_spilled s where s.id = u.spill), 0)`

	// The statements for runs that have ended without a retention.
	selectUnsaid = `select ` + headColumns +
		` from perdure_heads where workflow = ? and retain = '' and ended is not null limit ? + 0`
	sayRetention = `update perdure_heads set retain = ?, expires = ? where number = ?`
)

// A part is the rows of one table that a removed run has left.
type part struct {
	measure, payloads, remove string
	// inbox means that the rows belong to the inbox of the run, not to the run.
	inbox bool
}

// parts are the entries of a run, the messages that it has taken, and the messages that nobody can
// take any more. A continued run has none of the last kind, because its successor has its inbox.
// Payloads that nothing else names are removed before the rows that name them. A message that was
// taken names no payload.
var parts = []part{
	partOf("perdure_entries", "run = ?", "seq"),
	partOf("perdure_messages", "holder = ? and taken is not null", "number"),
	partOf("perdure_messages", "holder = ? and taken is null", "number").ofInbox(),
}

func (p part) ofInbox() part {
	p.inbox = true
	return p
}

// partOf returns the part of a table that meets a condition. The column key numbers the rows.
func partOf(table, where, key string) part {
	return part{
		measure: "select " + key + ", 1 + (spill is not null), coalesce(length(data), 0) + " +
			spilledBytes +
			" from " + table + " u where " + where + " order by " + key + " limit ? + 0",
		payloads: "delete from perdure_spilled where id in (select spill from " + table +
			" where " + where + " and " + key + ` <= ? and spill is not null)
and not exists (select 1 from perdure_entries where spill = perdure_spilled.id and run <> ?)
and not exists (select 1 from perdure_messages where spill = perdure_spilled.id and holder <> ?)
and not exists (select 1 from perdure_unrouted where spill = perdure_spilled.id)`,
		remove: "delete from " + table + " where " + where + " and " + key + " <= ?",
	}
}

// Purge removes expired runs and messages, a bounded number of rows at a time. A connection for
// reading looks for them, so that commits wait only for the removal.
func (s *Store) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	g := purging{left: p.Rows(), purge: &p}
	err := s.read(ctx, func(db *conn) error {
		g.conn = db
		return g.look()
	})
	if err != nil || !g.found {
		return store.Purged{}, err
	}
	err = s.writeOrphans(func(db *conn) error {
		g.conn, g.More = db, g.more
		return g.remove()
	})
	if err != nil {
		return store.Purged{}, err
	}
	s.fold(ctx)
	return g.Purged, nil
}

// A purging is the state of one purge.
type purging struct {
	*conn
	store.Purged
	purge *store.Purge
	found bool           // there is something to do
	more  bool           // there may be more than this purge looks for
	said  bool           // runs have got a retention
	over  []driver.Value // runs that have expired
	left  int            // how many more rows may be removed
	bytes int64          // removed bytes of payloads
}

// look looks for rows to remove: rows that removed runs have left, or else runs that have expired,
// and messages that have expired.
func (g *purging) look() error {
	if g.purge.Engine != 0 {
		if err := fence(g.conn, g.purge.Engine); err != nil {
			return err
		}
	}
	gone, err := g.value(selectGone)
	if err != nil {
		return err
	}
	// If there is a removed run, nobody looks for expired runs now.
	g.more = gone != nil
	if gone == nil {
		err := g.query(func(row []driver.Value) error {
			g.over = append(g.over, row[0])
			return nil
		}, selectOver, nanos(g.purge.Now), int64(g.purge.Heads())+1)
		if err != nil {
			return err
		}
	}
	expired, err := g.value(selectExpired, nanos(g.purge.Now), int64(1))
	if err != nil {
		return err
	}
	g.found = gone != nil || len(g.over) > 0 || expired != nil
	for workflow, r := range g.purge.Unsaid {
		if g.found || r == "" {
			continue
		}
		unsaid, err := g.value(selectUnsaid, workflow, int64(1))
		if err != nil {
			return err
		}
		g.found = unsaid != nil
	}
	return nil
}

func (g *purging) remove() error {
	if g.purge.Engine != 0 {
		if err := fence(g.conn, g.purge.Engine); err != nil {
			return err
		}
	}
	if err := g.say(); err != nil || g.said {
		return err
	}
	for _, step := range []func() error{g.vanish, g.clear, g.expire} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// say sets the retention of runs that have ended without one. The next purges remove the runs that
// have expired by it.
func (g *purging) say() error {
	for workflow, r := range g.purge.Unsaid {
		if r == "" || g.left <= 0 {
			continue
		}
		var heads []journal.Head
		err := g.query(func(row []driver.Value) error {
			heads = append(heads, headOf("", row))
			return nil
		}, selectUnsaid, workflow, int64(g.left))
		if err != nil {
			return err
		}
		for _, h := range heads {
			h.Retain = r
			if _, err := g.exec(sayRetention, string(r), nanos(h.Expires()),
				int64(h.Number)); err != nil {
				return err
			}
		}
		if n := len(heads); n > 0 {
			g.said, g.More, g.left = true, true, g.left-n
		}
	}
	return nil
}

// vanish removes the heads of expired runs, if they may still be removed.
func (g *purging) vanish() error {
	if most := g.purge.Heads(); len(g.over) > most {
		g.over, g.More = g.over[:most], true
	}
	for _, run := range g.over {
		inbox, err := g.value(deleteOver, run, nanos(g.purge.Now))
		if err == nil && inbox != nil {
			_, err = g.exec(insertGone, run, inbox)
			g.Runs++
			g.spend(1, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spend counts rows as removed.
func (g *purging) spend(rows, bytes int64) {
	g.left, g.bytes, g.Rows = g.left-int(rows), g.bytes+bytes, g.Rows+int(rows)
}

// fits reports whether more rows may be removed beside the rows that this purge removes already.
// One row may always be removed, with its payload.
func (g *purging) fits(rows, going int64, bytes int64) bool {
	if going == 0 && g.Rows == 0 {
		return true
	}
	return going+rows <= int64(g.left) && g.bytes+bytes < store.PurgeBytes
}

// clear removes the rows that removed heads have left.
func (g *purging) clear() error {
	for {
		var run, inbox driver.Value
		err := g.query(func(row []driver.Value) error {
			run, inbox = row[0], row[1]
			return nil
		}, selectGone)
		if err != nil || run == nil {
			return err
		}
		done, err := g.clearRun(run, inbox)
		if err != nil {
			return err
		}
		if !done {
			g.More = true
			return nil
		}
		if _, err := g.exec(deleteGone, run); err != nil {
			return err
		}
	}
}

// clearRun removes rows of a run. It reports whether it has removed all.
func (g *purging) clearRun(run, inbox driver.Value) (bool, error) {
	for _, p := range parts {
		if done, err := g.clearPart(p, run, inbox); err != nil || !done {
			return false, err
		}
	}
	n, err := g.exec(clearAttributes, run, run, int64(max(g.left, 0)))
	g.spend(n, 0)
	return err == nil && g.left > 0, err
}

// clearPart removes rows of one part. It reports whether it has removed all.
func (g *purging) clearPart(p part, run, inbox driver.Value) (bool, error) {
	of := run
	if p.inbox {
		of = inbox
	}
	last, going, bytes, done := driver.Value(nil), int64(0), int64(0), true
	err := g.query(func(row []driver.Value) error {
		if !g.fits(integer(row[1]), going, bytes) {
			done = false
			return errStop
		}
		last, going, bytes = row[0], going+integer(row[1]), bytes+integer(row[2])
		return nil
	}, p.measure, of, int64(max(g.left, 1))+1)
	if err != nil && !errors.Is(err, errStop) || last == nil {
		return done, ignoreStop(err)
	}
	payloads, err := g.exec(p.payloads, of, last, run, inbox)
	if err != nil {
		return false, err
	}
	rows, err := g.exec(p.remove, of, last)
	g.spend(rows+payloads, bytes)
	return done, err
}

// ignoreStop returns the error of a query. It returns nil if the query was stopped by errStop.
func ignoreStop(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// expire removes unrouted messages that have expired.
func (g *purging) expire() error {
	var expired []driver.Value
	going, bytes := int64(0), int64(0)
	err := g.query(func(row []driver.Value) error {
		if !g.fits(integer(row[1]), going, bytes) {
			g.More = true
			return errStop
		}
		expired, going, bytes = append(expired, row[0]), going+integer(row[1]), bytes+
			integer(row[2])
		return nil
	}, selectExpired, nanos(g.purge.Now), int64(max(g.left, 1))+1)
	if err := ignoreStop(err); err != nil {
		return err
	}
	for _, number := range expired {
		payloads, err := g.exec(purgeExpired, number, number)
		if err != nil {
			return err
		}
		if _, err := g.exec(deleteUnrouted, number); err != nil {
			return err
		}
		g.spend(1+payloads, 0)
	}
	g.Unrouted = len(expired)
	return nil
}
