package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The statements of a take-over, in order. An engine that joins holds the lock of the side
// database, so all engines that have a row have expired.
const (
	countCrashes = `update perdure_heads set (crashes, seen) = (
    select iif(coalesce(max(seq), 0) > perdure_heads.seen, 1, perdure_heads.crashes + 1), coalesce(max(seq), 0)
    from perdure_entries where run = perdure_heads.number and kind not in (?, ?))
where owner > 0 and ended is null and (status = ? or claimed = 1)`

	releaseAll = `update perdure_heads set owner = 0, wake = ?, claimed = 0 where owner > 0 and ended is null`

	// A payload that existed when an engine joined is named by a row, or was swept then. Its number
	// is below the numbers of that engine.
	selectSwept = `select value from perdure_meta where key = 'swept'`
	updateSwept = `insert or replace into perdure_meta (key, value) values ('swept', ?)`

	sweepSpilled = `delete from perdure_spilled where id >= ?1 and id not in (select spill from perdure_entries where spill >= ?1
union all select spill from perdure_messages where spill >= ?1
union all select spill from perdure_unrouted where spill >= ?1)`

	// If the clock was put back, runs that were due by the clock before are due now.
	makeDue = `update perdure_heads set wake = ? where owner = 0 and ended is null and wake > ? and wake <= ?`

	selectClock = `select value from perdure_meta where key = 'clock'`
	updateClock = `insert or replace into perdure_meta (key, value) values ('clock', ?)`

	insertEngine = `insert into perdure_engines (host, pid, build, slots, since, workflows, seen) values (?, ?, ?, ?, ?, ?, ?) returning id`
)

// updateEngine records what an engine says of itself.
const updateEngine = `update perdure_engines set drains = ?, held_runs = ?, held_steps = ?,
    workflows = coalesce(?, workflows), seen = ?, loops = ? where id = ?`

// The statements for an engine that leaves.
const (
	releaseOwn   = `update perdure_heads set owner = 0, wake = ?, claimed = 0 where owner = ? and ended is null`
	deleteEngine = `delete from perdure_engines where id = ?`
)

func (s *Store) join(c store.Join) (store.Claimed, error) {
	var out store.Claimed
	var lock *conn
	err := s.write(func(db *conn) (err error) {
		if lock, err = s.acquire(db); err != nil {
			return err
		}
		if err := s.putBack(db, c.Now); err != nil {
			return err
		}
		out.Engine, err = takeOver(db, c)
		return err
	})
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.close())
		}
		return store.Claimed{}, err
	}
	return out, s.hold(lock)
}

// clockEvery is the time between two writes of the clock.
const clockEvery = 10 * time.Second

// tick writes the time if the last write of it is long enough ago.
func (s *Store) tick(db *conn, now time.Time) error {
	if now.Before(s.clock.Add(clockEvery)) {
		return nil
	}
	s.clock = now
	_, err := db.exec(updateClock, nanos(now))
	return err
}

// putBack is for a clock that has been put back. It makes the runs due now that were due by the
// clock before. The last reading of that clock may be later than the written one.
func (s *Store) putBack(db *conn, now time.Time) error {
	v, err := db.value(selectClock)
	if err != nil || v == nil || !now.Before(moment(v)) {
		return err
	}
	if _, err := db.exec(makeDue, nanos(now), nanos(now),
		nanos(moment(v).Add(clockEvery))); err != nil {
		return err
	}
	s.clock = time.Time{}
	return s.tick(db, now)
}

func takeOver(db *conn, c store.Join) (journal.EngineID, error) {
	if _, err := db.exec(countCrashes, int64(journal.StepOutput), int64(journal.StepLogged),
		int64(journal.Running)); err != nil {
		return 0, err
	}
	if _, err := db.exec(releaseAll, nanos(c.Now)); err != nil {
		return 0, err
	}
	swept, err := db.value(selectSwept)
	if err != nil {
		return 0, err
	}
	if _, err := db.exec(sweepSpilled, integer(swept)); err != nil {
		return 0, err
	}
	if _, err := db.exec("delete from perdure_engines"); err != nil {
		return 0, err
	}
	id, err := db.value(insertEngine, c.Self.Host, int64(c.Self.PID), c.Self.Build,
		int64(c.Self.Slots), nanos(c.Self.Since), listText(c.Self.Workflows), nanos(c.Now))
	if err != nil {
		return 0, err
	}
	first, err := journal.MakeNumber(journal.EngineID(integer(id)), 1)
	if err == nil {
		_, err = db.exec(updateSwept, int64(first))
	}
	return journal.EngineID(integer(id)), err
}

// reserveID returns an engine ID that no other engine or client ever gets. The row is deleted
// before anybody sees it, but the table never reuses its number.
func (s *Store) reserveID() (store.Claimed, error) {
	var out store.Claimed
	err := s.write(func(db *conn) (err error) {
		out.Engine, err = newEngineID(db)
		return err
	})
	return out, err
}

func newEngineID(db *conn) (journal.EngineID, error) {
	id, err := db.value(insertEngine, "", int64(0), "", int64(0), nil, nil)
	if err != nil {
		return 0, err
	}
	_, err = db.exec(deleteEngine, integer(id))
	return journal.EngineID(integer(id)), err
}

func (s *Store) quit(c store.Leave) error {
	err := s.write(func(db *conn) error {
		if err := fence(db, c.Engine); err != nil {
			return err
		}
		if _, err := db.exec(releaseOwn, nanos(c.Now), int64(c.Engine)); err != nil {
			return err
		}
		if err := s.tick(db, c.Now); err != nil {
			return err
		}
		_, err := db.exec(deleteEngine, int64(c.Engine))
		return err
	})
	if err != nil {
		return err
	}
	return s.hold(nil)
}

// acquire takes the lock of the side database. It returns ErrLocked if another engine holds it.
func (s *Store) acquire(db *conn) (*conn, error) {
	if s.lock.Load() != nil {
		return nil, locked(db)
	}
	lock, err := dial(s.path+"-engine", "rwc")
	if err != nil {
		return nil, explain(s.path+"-engine", err)
	}
	// another process may be checking whether the lock is held
	if err = lock.script("pragma busy_timeout = 10"); err == nil {
		err = lock.script("begin exclusive")
	}
	if err != nil {
		if code(err) == sqlite3.SQLITE_BUSY {
			err = locked(db)
		}
		return nil, errors.Join(err, lock.close())
	}
	return lock, nil
}

// isExpired reports whether nobody holds the lock of the side database. To find out, it takes a
// shared lock for a moment. It does not wait for the writer, like all reads, because the caller may
// be in a transaction that the writer waits for.
func (s *Store) isExpired() (bool, error) {
	if s.lock.Load() != nil {
		return false, nil
	}
	side, err := dial(s.path+"-engine", "ro")
	switch {
	case code(err) == sqlite3.SQLITE_CANTOPEN: // somebody has removed it
		return true, nil
	case err != nil:
		return false, explain(s.path+"-engine", err)
	}
	_, err = side.value("select count(*) from sqlite_master")
	if code(err) == sqlite3.SQLITE_BUSY {
		return false, side.close()
	}
	return true, errors.Join(err, side.close())
}

// hold keeps the lock of the side database; nil releases it. If the store was closed meanwhile, it
// has already released its lock, and hold keeps none.
func (s *Store) hold(lock *conn) error {
	if err := s.enter(); err != nil {
		if lock == nil {
			return nil
		}
		return errors.Join(err, lock.close())
	}
	defer s.leave()
	if old := s.lock.Swap(lock); old != nil {
		return old.close()
	}
	return nil
}

// locked returns the error for a database that another engine holds. It names the process of the
// engine.
func locked(db *conn) error {
	who := "it is about to join or leave"
	err := db.query(func(row []driver.Value) error {
		who = fmt.Sprintf("process %d on %s, since %s", integer(row[1]), str(row[0]),
			moment(row[2]).Format(time.RFC3339))
		return nil
	}, "select host, pid, since from perdure_engines order by id")
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", store.ErrLocked, who)
}

// listText returns a list as the table of engines has it: in JSON, or null for nil.
func listText[T string | store.Loop](list []T) driver.Value {
	if list == nil {
		return nil
	}
	text, _ := json.Marshal(list) // strings and numbers always have a form in JSON
	return string(text)
}

// readList reads a list that listText has written.
func readList[T string | store.Loop](v driver.Value, list *[]T) error {
	if v == nil {
		return nil
	}
	return json.Unmarshal([]byte(str(v)), list)
}
