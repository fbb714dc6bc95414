//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/internal/torture/play"

	_ "github.com/jackc/pgx/v5/stdlib" // database/sql on PostgreSQL
)

// openMoney opens the store's database for steps in transactions, and makes their
// tables.
func openMoney(ctx context.Context, driver, at string) (*sql.DB, error) {
	if driver == "sqlite" {
		at += "?_pragma=busy_timeout(20000)" // writers beside the nodes wait for them
	}
	db, err := sql.Open(driver, at)
	if err != nil {
		return nil, err
	}
	if driver == "sqlite" {
		db.SetMaxOpenConns(8)
	}
	_, err = db.ExecContext(ctx, play.DDL)
	if err == nil {
		err = barrier.Create(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
