package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An engine with several lanes has several commits in progress. A reader of its outbox
// continues above the last number that it has read. So an entry that is committed later must
// have a higher number, or it is never delivered.
//
// spec: P-2
func TestOutboxEntriesAreNumberedInTheOrderOfCommits(t *testing.T) {
	url := testpg.URL(t)
	s := mustOpen(t, url, Options{})
	engine := joined(t, s)
	one, two := started(t, s, engine, 1), started(t, s, engine, 2)
	done(t, s, one)
	done(t, s, two)
	tells := func(of *store.Group) *store.Group {
		e := journal.Entry{
			Run: of.Changes[0].Run, Seq: 2, Kind: journal.StatusChanged, At: time.Now(),
			Detail: &journal.Detail{Tell: true},
		}
		return &store.Group{
			Engine:  engine,
			Now:     time.Now(),
			Changes: []store.Change{{Run: e.Run, Entries: []journal.Entry{e}}},
		}
	}
	tx, err := session(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.In(tx)
	if err == nil {
		err = part.Commit(t.Context(), tells(one)) // the entry has a number, and is not committed
	}
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() { second <- s.Commit(t.Context(), tells(two)) }()
	watch := session(t, url)
	for waiting := 0; waiting == 0; {
		if err := watch.QueryRow(t.Context(),
			"select count(*) from pg_locks where not granted and locktype = 'advisory' and "+
				"database = (select oid from pg_database where datname = current_database())").
			Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-second:
			if err = errors.Join(tx.Rollback(t.Context()), err); err != nil {
				t.Fatal(err)
			}
			t.Fatal("an entry with a higher number is committed first")
		default:
		}
	}
	if err := errors.Join(tx.Commit(t.Context()), <-second); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), store.TakeOutbox{
		Engine:    engine,
		Workflows: []string{"w"},
		Limit:     10,
	})
	if err != nil || len(claimed.Outbox) != 2 ||
		claimed.Outbox[0].Head.Number != one.Changes[0].Run {
		t.Errorf("the outbox has %+v, %v", claimed.Outbox, err)
	}
}
