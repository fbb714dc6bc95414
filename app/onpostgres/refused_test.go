package onpostgres

import (
	neturl "net/url"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/script"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store"
)

// refusedPlace is [script.RefusedStore] for the shop.
func refusedPlace(t *testing.T, url string, code int, message, hint string, lines ...string) {
	t.Helper()
	run := func(args ...string) script.Result { return shop.run(t, args...) }
	script.RefusedStore(t, run, url, code, message, hint, lines...)
}

// The errors of a server are explained to a user who does not know it, before and after the
// schema exists.
//
// spec: B-16, P-2
func TestAServerThatRefusesIsExplained(t *testing.T) {
	url := testpg.URL(t)
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	owner, database := u.User.Username(), strings.TrimPrefix(u.Path, "/")
	limited := database[:min(len(database), 17)] + "_limited" // of this test alone
	execute := func(statements ...string) {
		t.Helper()
		testpg.Execute(t, url, statements...)
	}
	execute("create role " + limited + " login")
	t.Cleanup(func() { execute("drop role " + limited) })
	as := func(user string) string {
		_, server, _ := strings.Cut(strings.TrimPrefix(url, "postgres://"), "@")
		return "postgres://" + user + ":" + script.Secret + "@" + server
	}
	read, made := []string{"runs list", "start greet", "workers list", "db status"},
		[]string{"db migrate", "serve --log off"}
	every := append(read, made...)

	refusedPlace(t, as("nobody_at_all"), exitForbidden, `role "nobody_at_all" does not exist`,
		"PGPASSWORD", every...)
	refusedPlace(t, strings.Replace(as(owner), "/"+database, "/no_such", 1), exitUnreachable,
		`database "no_such" does not exist`, "createdb", every...)
	refusedPlace(t, as(owner), exitUnreachable, "there is no schema perdure in it",
		"hint: shop db migrate --store 'postgres://"+owner+":***@", read...)
	refusedPlace(t, as(limited), exitForbidden, "permission denied for database",
		"grant create on the database", made...)
	execute("alter database " + database + " set synchronous_commit = off")
	refusedPlace(t, url, exitUnreachable, "synchronous_commit is off", "unsafe=on", every...)
	if r := shop.run(t, "db", "migrate", "--store", url+"&unsafe=on"); r.Code != exitOK ||
		!strings.HasSuffix(r.Stdout, " was made: schema 6\n") {
		t.Errorf("%+v", r)
	}
	execute("alter database " + database + " reset synchronous_commit")
	refusedPlace(t, as(limited), exitForbidden, "permission denied for schema perdure",
		"all rights to the schema", every...)
	execute("grant usage on schema perdure to "+limited, "grant select on perdure.meta to "+limited)
	refusedPlace(t, as(limited), exitForbidden, "permission denied for table",
		"all rights to the schema", read...)
	execute("update perdure.meta set value = '1000' where key = 'schema'")
	refusedPlace(t, url, exitUnreachable, store.ErrNewer.Error(),
		"use the version of the program that wrote it", every...)
	execute("drop schema perdure cascade", "create schema perdure",
		"create table perdure.mine (n int)")
	refusedPlace(t, url, exitUnreachable, store.ErrForeign.Error(), "name another database",
		every...)
}
