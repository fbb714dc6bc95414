package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/store/storetest"
)

// An old database whose successors have copies of the messages of their predecessors works
// after the migration.
//
// spec: P-2, R-25
func TestCopiedInboxesAreMigrated(t *testing.T) {
	url := newFarm(t).url(t)
	script := "create schema perdure;\n"
	for _, file := range []string{"0001", "0002"} {
		sql, err := migrations.ReadFile("migrations/" + file + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		script += string(sql)
	}
	script += "insert into perdure.meta (key, value) values ('database', 'abcdefgh'), " +
		"('schema', '2');\n" +
		storetest.CopiedInboxes("perdure.", "false", func(s string) string { return "'" + s + "'" })
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	storetest.Migrated(t, at(t, url, Options{}))
	for _, table := range []string{"messages", "gone"} {
		var n int64
		if err := c.QueryRow(t.Context(), "select count(*) from perdure."+table).
			Scan(&n); err != nil || n != 0 {
			t.Errorf("%s has %d rows, %v", table, n, err)
		}
	}
}
