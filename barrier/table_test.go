package barrier_test

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/internal/testpg"
)

var before = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestTheTableIsMadeOnceByManyAtATime(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (driver, at string){
		"SQLite": func(t *testing.T) (string, string) {
			return "sqlite", dsn(filepath.Join(t.TempDir(), "app.db"), waiting)
		},
		"PostgreSQL": func(t *testing.T) (string, string) { return "pgx", testpg.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			driver, at := open(t)
			var all []*sql.DB
			for range 8 {
				db := must[*sql.DB](t)(sql.Open(driver, at))
				defer db.Close()
				if err := db.Ping(); err != nil {
					t.Fatal(err)
				}
				all = append(all, db)
			}
			for range 10 {
				var done sync.WaitGroup
				for _, db := range all {
					done.Go(func() {
						if err := barrier.Create(t.Context(), db); err != nil {
							t.Error(err)
						}
					})
				}
				done.Wait()
				if _, err := all[0].Exec("drop table perdure_barrier"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestCreateNeedsNoRightsWhereTheTableIsThere(t *testing.T) {
	at := must[*url.URL](t)(url.Parse(testpg.URL(t)))
	opened(t, "pgx", at.String())
	q := at.Query()
	q.Set("default_transaction_read_only", "on")
	at.RawQuery = q.Encode()
	reader := must[*sql.DB](t)(sql.Open("pgx", at.String()))
	defer reader.Close()
	if _, err := reader.Exec(barrier.DDL); err == nil {
		t.Error("it has the right: this proves nothing")
	}
	if err := barrier.Create(t.Context(), reader); err != nil {
		t.Error(err)
	}
}

func TestAnotherTableOfTheNameIsAnError(t *testing.T) {
	db := must[*sql.DB](t)(sql.Open("sqlite", dsn(filepath.Join(t.TempDir(), "app.db"), waiting)))
	defer db.Close()
	if _, err := db.Exec("create table perdure_barrier (run text)"); err != nil {
		t.Fatal(err)
	}
	if err := barrier.Create(t.Context(), db); err == nil ||
		!strings.Contains(err.Error(), "step") {
		t.Errorf("the error is %v", err)
	}
}

// spec: F-43
func TestOldRowsAreRemovedAndOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openSQLite(t)
		s := newStage(t)
		old, young := s.participant(db), s.participant(db)
		old.expect(try, 1, nil)
		old.expect(cancel, 2, nil)
		time.Sleep(time.Hour)
		young.expect(try, 1, nil)
		if n, err := barrier.Clean(t.Context(), db, time.Now().Add(-time.Hour)); n != 0 ||
			err != nil {
			t.Errorf("%d rows are removed, %v, and none is older than an hour", n, err)
		}
		if n, err := barrier.Clean(t.Context(), db, time.Now()); n != 2 || err != nil {
			t.Errorf("%d rows are removed, %v, want 2", n, err)
		}
		young.expect(try, 1, nil)
		old.expect(try, 3, nil) // nothing is known of it any more
		if n, err := barrier.Clean(t.Context(), db, time.Time{}); n != 0 || err != nil {
			t.Errorf("%d rows are removed, %v, want none", n, err)
		}
	})
}
