package judge

import (
	"context"
	"database/sql"
	"errors"
)

// ReadMoney reads the table that steps in transactions write.
func ReadMoney(ctx context.Context, db *sql.DB) (out []Money, err error) {
	rows, err := db.QueryContext(ctx, `select label, number, amount from torture_money`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m Money
		if err := rows.Scan(&m.Label, &m.Number, &m.Amount); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, rows.Err()
}
