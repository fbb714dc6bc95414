// Package ledger is a world outside of the engine, which has a ledger of everything that it does.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
)

const schema = `create table if not exists ledger (key text primary key, takes integer not null,
	whom text not null, what text not null, calls integer not null)`

const enter = `insert into ledger values ($1, $2, $3, $4, 1)
	on conflict (key) do update set calls = calls + 1 returning calls`

// A Ledger is a database with an entry for each idempotency key.
type Ledger struct{ db *sql.DB }

// Open opens the ledger in a directory. It makes one if there is none. The program imports the
// driver "sqlite", as store/sqlite does.
func Open(dir string) (*Ledger, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "ledger.db"))+
		"?_pragma=journal_mode(wal)&_pragma=busy_timeout(30000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(schema)
	return &Ledger{db}, err
}

var errNoAnswer = errors.New("the thing is done, and there is no answer")

// Give enters that somebody gets something, once for each key. One new key of three has no answer,
// though the thing is done: the caller learns of it with the next call.
func (l *Ledger) Give(ctx context.Context, key, whom, what string) error {
	return l.enter(ctx, key, false, whom, what)
}

// Take enters that something comes back, in the same way.
func (l *Ledger) Take(ctx context.Context, key, whom, what string) error {
	return l.enter(ctx, key, true, whom, what)
}

func (l *Ledger) enter(ctx context.Context, key string, takes bool, whom, what string) error {
	calls := 0
	err := l.db.QueryRowContext(ctx, enter, key, takes, whom, what).Scan(&calls)
	if err == nil && calls == 1 && rand.IntN(3) == 0 {
		return errNoAnswer
	}
	return err
}

// Of returns what somebody was given and what was taken back, each in order, and how many calls
// have come again.
func (l *Ledger) Of(whom string) (given, taken []string, again int, err error) {
	rows, err := l.db.Query(
		`select takes, what, calls - 1 from ledger where whom = $1 order by rowid`, whom)
	if err != nil {
		return nil, nil, 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var (
			takes bool
			what  string
			n     int
		)
		err = errors.Join(err, rows.Scan(&takes, &what, &n))
		if again += n; takes {
			taken = append(taken, what)
		} else {
			given = append(given, what)
		}
	}
	return given, taken, again, errors.Join(err, rows.Err())
}
