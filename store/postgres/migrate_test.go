package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store/storetest"
)

// An old database whose successors have copies of the messages of their predecessors works
// after the migration.
//
// spec: P-2, R-25
func TestCopiedInboxesAreMigrated(t *testing.T) {
	url := testpg.URL(t)
	c := oldVersion(t, url, 2,
		storetest.CopiedInboxes("perdure.", "false", func(s string) string {
			return "'" + s + "'"
		}))
	storetest.Migrated(t, at(t, url, Options{}))
	for _, table := range []string{"messages", "gone"} {
		var n int64
		if err := c.QueryRow(t.Context(), "select count(*) from perdure."+table).
			Scan(&n); err != nil || n != 0 {
			t.Errorf("%s has %d rows, %v", table, n, err)
		}
	}
}

// spec: P-1, P-2
func TestOldRunsAreListed(t *testing.T) {
	url := testpg.URL(t)
	oldVersion(t, url, 3, storetest.OldLists("perdure.", "false"))
	storetest.Listed(t, at(t, url, Options{}))
}

// oldVersion makes the schema of an old version, runs statements, and returns a connection.
func oldVersion(t *testing.T, url string, version int, statements string) *pgx.Conn {
	t.Helper()
	script := "create schema perdure;\n"
	for v := range version {
		sql, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", v+1))
		if err != nil {
			t.Fatal(err)
		}
		script += string(sql)
	}
	script += fmt.Sprintf("insert into perdure.meta (key, value) values ('database', 'abcdefgh'), "+
		"('schema', '%d');\n", version) + statements
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	if _, err := c.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	return c
}
