// Package testpg gives tests a PostgreSQL.
//
// [URL] is a fresh, empty database on a server that all tests of a binary
// share; [Start] is a server of the test's own, to be stopped, killed and
// restarted. Both run the postgres and initdb of this machine, on 127.0.0.1, in
// a temporary directory (in memory where Linux has plenty, unless TMPDIR is set),
// and never as root: where the tests run as root the server runs as postgres or
// nobody. Without PostgreSQL on the machine
// the test is skipped and says so.
//
// No TestMain is needed. A watchdog, a process of its own, waits for the end of
// the tests, however they end: it stops the servers and removes their
// directory. Where the watchdog was killed too, the next start removes the
// directory, once nothing runs in it any more.
//
// The shared server keeps what it acknowledges: fsync, full_page_writes and
// synchronous_commit are on.
//
// Time is real here: not for use inside a bubble of testing/synctest.
package testpg

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// Env names the variable with the URL of a server to use instead of starting
// one, as postgres://user@host/database. Its user must be allowed to create
// databases; nothing else on that server is touched. With [None] in it no
// PostgreSQL is found.
const Env = "PERDURE_TEST_POSTGRES"

// None in the variable that [Env] names has every test that needs PostgreSQL
// skipped, as on a machine that has none.
const None = "none"

// shared is the server of all tests of this binary; it ends with the process.
var shared = sync.OnceValues(func() (*Server, error) {
	h, err := home()
	if err != nil {
		return nil, err
	}
	return h.start(nil)
})

// URL returns the connection URL of a new, empty database, which is dropped
// when the test has ended. It skips the test where there is no PostgreSQL.
func URL(t testing.TB) string {
	t.Helper()
	at, run := os.Getenv(Env), runElsewhere
	if at == "" || at == None {
		s, err := shared()
		need(t, err)
		at, run = s.url("postgres"), s.run
	}
	name := databaseName(t)
	fresh, err := withDatabase(at, name)
	need(t, err)
	need(t, run(at, createDatabase(name)))
	t.Cleanup(func() {
		if err := run(at, "drop database if exists "+name+" with (force)"); err != nil {
			t.Errorf("testpg: %v", err)
		}
	})
	return fresh
}

// runElsewhere runs a statement on a server that is not ours.
func runElsewhere(at, statement string) error {
	program, err := psqlAlone()
	if err != nil {
		return err
	}
	return psql(program, os.Environ(), at, statement)
}

// Execute runs statements on a database, one after the other.
func Execute(t testing.TB, at string, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		need(t, runElsewhere(at, sql))
	}
}

// Start starts a server for this test alone, which ends with the test. It skips
// the test where there is no PostgreSQL on this machine, and where [Env] says
// [None]; a URL in [Env] changes nothing here.
func Start(t testing.TB, settings ...Option) *Server {
	t.Helper()
	h, err := home()
	need(t, err)
	s, err := h.start(settings)
	need(t, err)
	s.t = t
	t.Cleanup(s.remove)
	return s
}

// An Option of [Start].
type Option struct{ name, value string }

// Setting sets a parameter in the server's postgresql.conf, such as fsync to off.
func Setting(name, value string) Option { return Option{name, value} }

// errMissing says that this machine cannot run a server; tests are skipped.
type errMissing string

func (e errMissing) Error() string { return string(e) }

// need ends the test where there is an error: skipped where there is no
// PostgreSQL, failed where there is one that does not work.
func need(t testing.TB, err error) {
	t.Helper()
	var missing errMissing
	switch {
	case errors.As(err, &missing):
		t.Skip(missing.Error())
	case err != nil:
		t.Fatalf("testpg: %v", err)
	}
}

// databaseName returns a name that no other database has, with the test's in
// it for who reads the server's log. It needs no quotes in SQL.
func databaseName(t testing.TB) string {
	said := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(t.Name()))
	return "test_" + strings.ToLower(rand.Text()[:12]) + "_" + said[:min(len(said), 40)]
}

func createDatabase(name string) string {
	return "create database " + name + " template template0"
}

// withDatabase returns the URL of another database on the same server.
func withDatabase(at, name string) (string, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", fmt.Errorf("%s must be a URL such as postgres://user@host/database", Env)
	}
	u.Path = "/" + name
	q := u.Query()
	q.Del("dbname")
	u.RawQuery = q.Encode()
	return u.String(), nil
}
