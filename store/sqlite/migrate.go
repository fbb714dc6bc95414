package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const (
	schemaVersion = 3
	applicationID = 0x70657264 // "perd"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema to this version, in one transaction: a process that
// dies in the middle leaves what was there before. Two processes that migrate at
// a time do it one after the other, and the second finds nothing to do.
func migrate(c *conn) error {
	if version, err := checkVersion(c); err != nil || version == schemaVersion {
		return err
	}
	if err := begin(c); err != nil {
		return err
	}
	err := migrateInside(c)
	if err == nil {
		err = c.script("commit")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("migrate: %w", err), c.script("rollback"))
	}
	return nil
}

func migrateInside(c *conn) error {
	version, err := checkVersion(c)
	if err != nil {
		return err
	}
	for v := version + 1; v <= schemaVersion; v++ {
		sql, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", v))
		if err != nil {
			return err
		}
		if err := c.script(string(sql)); err != nil {
			return fmt.Errorf("to version %d: %w", v, err)
		}
	}
	if version == 0 {
		if _, err := c.exec("insert into meta (key, value) values ('database', ?)", store.NewIdentity()); err != nil {
			return err
		}
	}
	if _, err := c.exec("insert or replace into meta (key, value) values ('schema', ?)", int64(schemaVersion)); err != nil {
		return err
	}
	return name(c)
}

// name fills the tables that show numbers in words.
func name(c *conn) error {
	put := func(sql string, number int, name string) error {
		_, err := c.exec(sql, int64(number), name)
		return err
	}
	for _, k := range journal.Kinds() {
		if err := put("insert or replace into kinds (kind, name) values (?, ?)", int(k), k.String()); err != nil {
			return err
		}
	}
	for _, s := range journal.Statuses() {
		if err := put("insert or replace into statuses (status, name) values (?, ?)", int(s), s.String()); err != nil {
			return err
		}
	}
	for p := journal.PatternWorkflow; p <= journal.PatternMachine; p++ {
		if err := put("insert or replace into patterns (pattern, name) values (?, ?)", int(p), p.String()); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion gives the version of the schema, zero for an empty database. It
// refuses a newer one.
func checkVersion(c *conn) (int, error) {
	tables, err := c.value("select count(*) from sqlite_schema where name = 'meta'")
	if err != nil || integer(tables) == 0 {
		return 0, err
	}
	v, err := c.value("select value from meta where key = 'schema'")
	if err != nil {
		return 0, err
	}
	version := int(integer(v))
	if version > schemaVersion {
		return 0, &store.SchemaError{Has: version, Knows: schemaVersion}
	}
	return version, nil
}

// identity reads the identity of the database.
func identity(c *conn) (string, error) {
	v, err := c.value("select value from meta where key = 'database'")
	if err == nil && strings.TrimSpace(str(v)) == "" {
		err = fmt.Errorf("%w: it has no identity", store.ErrForeign)
	}
	return str(v), err
}
