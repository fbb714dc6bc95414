// Package testpg provides PostgreSQL servers for tests.
//
// [URL] returns a new, empty database on a server that all tests of a binary share. [Start]
// starts a server for one test, which the test may stop, kill and restart. Both run the
// postgres and initdb of this machine, on 127.0.0.1, in a temporary directory (in memory if
// Linux has enough of it, unless TMPDIR is set), and never as root: if the tests run as root,
// the server runs as postgres or nobody. Without PostgreSQL on the machine the test is
// skipped with a message.
//
// No TestMain is needed. A watchdog, a process of its own, waits for the end of the tests,
// however they end. It stops the servers and removes their directory. If the watchdog was
// killed too, the next start removes the directory, once no process uses it any more.
//
// The shared server keeps what it acknowledges: fsync, full_page_writes and
// synchronous_commit are on.
//
// Time is real here: do not use this package inside a bubble of testing/synctest.
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

// Env names the variable with the URL of a server to use instead of starting a server, such
// as postgres://user@host/database. Its user must be allowed to create databases; this
// package changes nothing else on that server. If the value is [None], no PostgreSQL is
// found.
const Env = "PERDURE_TEST_POSTGRES"

// None is a value of the variable that [Env] names. With it, every test that needs PostgreSQL is
// skipped, as on a machine without it.
const None = "none"

// shared returns the server of all tests of this binary. It ends with the process.
var shared = sync.OnceValues(func() (*Server, error) {
	h, err := home()
	if err != nil {
		return nil, err
	}
	return h.start(nil)
})

// URL returns the connection URL of a new, empty database, which is dropped when the test has
// ended. It skips the test if there is no PostgreSQL.
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

// runElsewhere runs a statement on a server that this package did not start.
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

// Start starts a server for this test alone, which ends with the test. It skips the test if
// there is no PostgreSQL on this machine, or if the value of [Env] is [None]. A URL in [Env]
// has no effect here.
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

// An Option is a setting of a server for [Start].
type Option struct{ name, value string }

// Setting sets a parameter in the server's postgresql.conf, such as fsync to off.
func Setting(name, value string) Option { return Option{name, value} }

// errMissing means that this machine cannot run a server; tests are skipped.
type errMissing string

func (e errMissing) Error() string { return string(e) }

// need ends the test if there is an error: it skips the test if there is no PostgreSQL, and
// fails it if PostgreSQL does not work.
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

// databaseName returns a unique name. It contains the name of the test, for readers of the
// server's log. It needs no quotes in SQL.
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
