package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	modernc "modernc.org/sqlite"
)

// A conn is one connection to a database, without the pool of database/sql. Its statements are
// prepared once and their arguments are bound in place. Only one goroutine at a time may use it. No
// context reaches SQLite, because a context that can be cancelled doubles the cost of a row.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

// dial opens a connection. The mode is SQLite's: ro, rw or rwc.
func dial(path, mode string) (*conn, error) {
	connector, err := modernc.NewConnector(dsn(path, mode))
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]*stmt{}}, nil
}

// dsn returns the URI of a file. With it, double quotes enclose only names, never strings.
func dsn(path, mode string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	query := url.Values{"mode": {mode}, "_dqs": {"0"}, "_error_rc": {"1"}}
	u := url.URL{Scheme: "file", Path: p, RawQuery: query.Encode()}
	return u.String()
}

// close closes the connection. A transaction that has not ended is rolled back.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.raw.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// script executes statements without arguments. They are not kept.
func (c *conn) script(sql string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), sql, nil)
	return err
}

// A stmt is a prepared statement with room for its arguments.
type stmt struct {
	raw  driver.Stmt
	args []driver.NamedValue
}

// prepare returns the statement with that text. It prepares each text once. A limit that is an
// argument must be written as a sum, "limit ? + 0". For "limit ?" alone SQLite prepares the
// statement anew each time, to plan by the value.
func (c *conn) prepare(sql string) (*stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	raw, err := c.raw.(driver.ConnPrepareContext).PrepareContext(context.Background(), sql)
	if err != nil {
		return nil, fmt.Errorf("%w, in: %s", err, sql)
	}
	s := &stmt{raw: raw, args: make([]driver.NamedValue, strings.Count(sql, "?"))}
	for i := range s.args {
		s.args[i].Ordinal = i + 1
	}
	c.stmts[sql] = s
	return s, nil
}

// exec executes the statement with the arguments that are set. It returns the number of changed
// rows.
func (s *stmt) exec() (int64, error) {
	result, err := s.raw.(driver.StmtExecContext).ExecContext(context.Background(), s.args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// exec executes a statement and returns the number of changed rows.
func (c *conn) exec(sql string, args ...driver.Value) (int64, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	s.bind(args)
	return s.exec()
}

func (s *stmt) bind(args []driver.Value) {
	for i, v := range args {
		s.args[i].Value = v
	}
}

// query calls f with each row until f returns an error. The row is valid during the call; its bytes
// stay valid.
func (c *conn) query(f func(row []driver.Value) error, sql string,
	args ...driver.Value) (err error) {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	s.bind(args)
	rows, err := s.raw.(driver.StmtQueryContext).QueryContext(context.Background(), s.args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
}

// value returns the first column of the first row; nil if there is no row.
func (c *conn) value(sql string, args ...driver.Value) (v driver.Value, err error) {
	err = c.query(func(row []driver.Value) error {
		if v == nil {
			v = row[0]
		}
		return nil
	}, sql, args...)
	return v, err
}
