package sqlite

import (
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const (
	schemaVersion = 9

	// firstPrefixed is the first version in which the names of all tables begin with perdure_.
	// Before, a file belonged to this module alone and had its application ID.
	firstPrefixed = 4
	applicationID = 0x70657264 // "perd"

	// allPrefixed is the first version in which the names of all views begin with perdure_, too.
	allPrefixed = 6
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema to this version in one transaction. A process that dies during it
// leaves the schema as it was. If two processes migrate at the same time, one waits for the other,
// and then finds nothing to do. It leaves the connection waiting for locks.
func migrate(c *conn) error {
	if err := patience(c); err != nil {
		return err
	}
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
	if err := upgrade(c, version); err != nil {
		return err
	}
	if version == 0 {
		if _, err := c.exec("insert into perdure_meta (key, value) values ('database', ?)",
			store.NewIdentity()); err != nil {
			return err
		}
	}
	if _, err := c.exec("insert or replace into perdure_meta (key, value) values ('schema', ?)",
		int64(schemaVersion)); err != nil {
		return err
	}
	return name(c)
}

// dropShortViews drops the views that versions 4 and 5 made in files without other tables. It
// leaves everything of the application with the same names. SQL has no condition for that.
func dropShortViews(c *conn) error {
	var names []string
	err := c.query(func(row []driver.Value) error {
		names = append(names, str(row[0]))
		return nil
	}, `select name from sqlite_schema where type = 'view' and name in ('runs', 'journal', 'inbox')
and sql = 'CREATE VIEW ' || name || ' as select * from perdure_' || name`)
	for _, name := range names {
		if err == nil {
			err = c.script("drop view " + name)
		}
	}
	return err
}

// upgrade brings the schema from a version to this one. Version 0 means that there is no schema; it
// is then made at once.
func upgrade(c *conn, version int) error {
	var files []string
	if version == 0 {
		files = append(files, "new")
	} else {
		for v := version + 1; v <= schemaVersion; v++ {
			files = append(files, fmt.Sprintf("%04d", v))
		}
	}
	for _, file := range append(files, "views") {
		sql, err := migrations.ReadFile("migrations/" + file + ".sql")
		if err != nil {
			return err
		}
		if err := c.script(string(sql)); err != nil {
			return fmt.Errorf("from version %d by %s: %w", version, file, err)
		}
	}
	if version >= firstPrefixed && version < allPrefixed {
		return dropShortViews(c)
	}
	return nil
}

// name fills the tables that show numbers in words.
func name(c *conn) error {
	put := func(sql string, number int, name string) error {
		_, err := c.exec(sql, int64(number), name)
		return err
	}
	for _, k := range journal.Kinds() {
		if err := put("insert or replace into perdure_kinds (kind, name) values (?, ?)", int(k),
			k.String()); err != nil {
			return err
		}
	}
	for _, s := range journal.Statuses() {
		if err := put("insert or replace into perdure_statuses (status, name) values (?, ?)",
			int(s), s.String()); err != nil {
			return err
		}
	}
	for p := journal.PatternWorkflow; p <= journal.PatternOrchestrator; p++ {
		if err := put("insert or replace into perdure_patterns (pattern, name) values (?, ?)",
			int(p), p.String()); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion returns the version of the schema. It is zero if there is none: then the file is
// empty or belongs to an application. checkVersion refuses a newer version.
func checkVersion(c *conn) (int, error) {
	var prefixed, plain int64
	err := c.query(func(row []driver.Value) error {
		prefixed, plain = integer(row[0]), integer(row[1])
		return nil
	},
		`select count(*) filter (where name = 'perdure_meta'), count(*) filter (where name = 'meta' and application_id = ?)
from sqlite_schema, pragma_application_id where type = 'table'`, int64(applicationID))
	if err != nil || prefixed+plain == 0 {
		return 0, err
	}
	table := "perdure_meta"
	if prefixed == 0 {
		table = "meta"
	}
	v, err := c.value("select value from " + table + " where key = 'schema'")
	if code(err) == sqlite3.SQLITE_ERROR || err == nil && integer(v) < 1 {
		return 0, fmt.Errorf("%w: its table %s is somebody else's", store.ErrForeign, table)
	}
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
	v, err := c.value("select value from perdure_meta where key = 'database'")
	if err == nil && strings.TrimSpace(str(v)) == "" {
		err = fmt.Errorf("%w: it has no identity", store.ErrForeign)
	}
	return str(v), err
}
