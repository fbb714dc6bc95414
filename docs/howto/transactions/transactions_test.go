package howto

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // it registers the driver pgx

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// onEach runs a test on SQLite and on PostgreSQL, with a shop whose engine runs.
func onEach(t *testing.T, test func(*testing.T, *Shop)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "shop.db")
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		handle, err := OpenSQLite(path)
		if err != nil {
			t.Fatal(err)
		}
		test(t, begin(t, OnSQLite, handle, db))
	})
	t.Run("postgres", func(t *testing.T) {
		url := testpg.URL(t)
		db, err := postgres.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		handle, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		test(t, begin(t, OnPostgres, handle, db))
	})
}

func begin(t *testing.T, on func(*sql.DB) *Shop, db *sql.DB, s store.Store) *Shop {
	t.Cleanup(func() { s.(interface{ Close() error }).Close() })
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(Schema); err != nil {
		t.Fatal(err)
	}
	shop := on(db)
	var err error
	shop.Engine, err = perdure.New(s, perdure.Options{})
	if err == nil {
		err = shop.Engine.Register(shop.Fulfil)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- shop.Engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return shop
}

func TestAnOrderAndItsRunAreOneCommit(t *testing.T) {
	onEach(t, func(t *testing.T, shop *Shop) {
		ctx := t.Context()
		if err := shop.Order(ctx, "ord-1"); err != nil {
			t.Fatal(err)
		}
		if err := shop.Pay(ctx, "ord-1", 4200); err != nil {
			t.Fatal(err)
		}
		run, err := shop.Fulfil.Get(ctx, shop.Engine, "ord-1")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(ctx); out != 4200 || err != nil {
			t.Error(out, err)
		}
		var state string
		err = shop.DB.QueryRow(`select state from orders where id = 'ord-1'`).Scan(&state)
		if state != "sent" || err != nil {
			t.Error(state, err)
		}
	})
}

func TestTheHandleOfTheApplicationHasABusyTimeout(t *testing.T) {
	db, err := OpenSQLite(filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ms int
	if err := db.QueryRow("pragma busy_timeout").Scan(&ms); ms != 5000 || err != nil {
		t.Error(ms, err)
	}
}

func TestAnOrderThatIsRolledBackHasNoRun(t *testing.T) {
	onEach(t, func(t *testing.T, shop *Shop) {
		ctx, failed := t.Context(), errors.New("the card is not valid")
		err := shop.inTx(ctx, func(tx *sql.Tx) error {
			_, err := shop.Fulfil.Start(ctx, shop.Engine.In(tx), "ord-2", perdure.ID("ord-2"))
			return errors.Join(err, failed)
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		_, err = shop.Fulfil.Get(ctx, shop.Engine, "ord-2")
		if !errors.Is(err, &perdure.Error{Code: perdure.CodeNotFound}) {
			t.Error(err)
		}
		if err := errors.Join(shop.Order(ctx, "ord-2"), shop.Pay(ctx, "ord-2", 4200)); err != nil {
			t.Fatal(err)
		}
		run, err := shop.Fulfil.Get(ctx, shop.Engine, "ord-2")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(ctx); out != 4200 || err != nil {
			t.Error(out, err)
		}
	})
}
