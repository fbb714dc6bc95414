package place

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// A Mode is the purpose for which a database is opened.
type Mode int

// The modes.
const (
	Read   Mode = iota // nothing in it is changed
	Write              // runs are started and messages sent, beside engines or while nothing runs
	Engine             // the database is made if there is none, and migrated
)

// A ForbiddenError is the error of a database that refuses access, or an operation, to a user.
type ForbiddenError struct{ Err error }

// Error returns the message of the database.
func (e *ForbiddenError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// Open opens the database. Its errors explain the problem and how to solve it.
func (p Place) Open(ctx context.Context, m Mode) (store.Store, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	switch p.Kind {
	case Server:
		return p.openServer(ctx, m)
	case Postgres:
		o := p.options
		o.ReadOnly, o.Existing = m == Read, m == Write
		s, err := postgres.OpenWith(ctx, p.url, o)
		if err != nil {
			return nil, p.explain(err)
		}
		return s, nil
	}
	s, err := sqlite.OpenWith(p.File, sqlite.Options{ReadOnly: m == Read, Existing: m == Write})
	if err != nil {
		return nil, p.explain(errors.Unwrap(err)) // the explanation names the file itself
	}
	return s, nil
}

// saying is an error with another message.
type saying struct {
	words string
	err   error
}

func (e *saying) Error() string { return e.words }
func (e *saying) Unwrap() error { return e.err }

// explain adds to the error of opening a database a hint that shows how to solve it.
func (p Place) explain(err error) error {
	unavailable := func(message string, err error, hint string) error {
		return p.problem(journal.CodeUnavailable, message, err, hint)
	}
	migrate := p.Command("db migrate")
	var schema *store.SchemaError
	var risk *store.UnsafeError
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.Kind == SQLite:
		return unavailable("there is no such file", nil, p.names()+"; "+migrate+
			" makes it, and so does serve")
	case errors.As(err, &schema) && schema.Has > schema.Knows:
		return unavailable("", schema, "use the version of the program that wrote it, or a "+
			"newer one")
	case schema != nil && schema.Has == 0 && p.Kind == Postgres:
		return unavailable("", &saying{"there is no schema perdure in it", schema}, migrate+
			" makes it, and so does serve")
	case schema != nil:
		return unavailable("", schema, migrate+" brings it to this version")
	case errors.Is(err, store.ErrDamaged):
		return p.problem(journal.CodeCorrupt, "", err, "keep it for an examination, and restore "+
			"a backup: "+p.Command("db backup")+" makes one")
	case errors.Is(err, store.ErrForeign):
		return unavailable("", err, "name another database: what is there is left as it is")
	case errors.As(err, &risk):
		return unavailable("", risk, "unsafe=on among the settings of the URL, after the ?, says "+
			"that it does not matter")
	case p.Kind == Postgres:
		return p.explainServer(err)
	}
	return unavailable("", err, p.names())
}

// A stated error is an error with a code of PostgreSQL.
type stated interface {
	error
	SQLState() string
}

// explainServer explains the error of a server, or of a server that does not answer.
func (p Place) explainServer(err error) error {
	var e stated
	var address *pgconn.ParseConfigError
	if errors.As(err, &address) {
		return p.problem(journal.CodeInvalid, "", address, p.names())
	}
	if !errors.As(err, &e) {
		message, hint := p.unreached(err)
		return p.problem(journal.CodeUnavailable, message, nil, hint)
	}
	said := errors.New(message(e))
	forbidden := func(hint string) error {
		return p.problem(journal.CodeUnavailable, "", &ForbiddenError{said}, hint)
	}
	switch e.SQLState() {
	case "28P01", "28000":
		return forbidden("is it the right user, and the password? In " + Env +
			" or PGPASSWORD it is seen in no list of processes")
	case "42501":
		if strings.Contains(said.Error(), "for database") {
			return forbidden("grant create on the database to the user, or have one who may " +
				"create schemas run " + p.Command("db migrate"))
		}
		return forbidden("the user needs all rights to the schema perdure and its tables; who " +
			"runs db migrate owns them")
	case "3D000":
		return p.problem(journal.CodeUnavailable, "", said, "createdb makes a database; "+p.names())
	case "25006":
		return p.problem(journal.CodeUnavailable, "", said,
			"it is a standby, or default_transaction_read_only is on: name the primary, or both, "+
				"as HOST,HOST, with target_session_attrs=read-write among the settings of the URL")
	case "08P01":
		if p.options.Pooler {
			break
		}
		return p.problem(journal.CodeUnavailable, "", said,
			"is a pooler in between? Then pooler=on belongs among the settings of the URL")
	case "53300":
		return p.problem(journal.CodeUnavailable, "", said, "raise max_connections of the "+
			"server, or lower pool_max_conns among the settings of the URL")
	}
	return p.problem(journal.CodeUnavailable, "", said, "the log of the server says more")
}

// Explain explains an error of a PostgreSQL while the database is in use, or the reason why it was
// not reached. It returns any other error unchanged.
func (p Place) Explain(err error) error {
	var e stated
	var unreached *pgconn.ConnectError
	if p.Kind == Postgres && (errors.As(err, &e) || errors.As(err, &unreached)) {
		return p.explainServer(err)
	}
	return err
}

// message returns the message of PostgreSQL, without its code.
func message(e stated) string {
	text := strings.TrimSuffix(e.Error(), " (SQLSTATE "+e.SQLState()+")")
	_, said, found := strings.Cut(text, ": ") // FATAL: …
	if !found {
		return text
	}
	return said
}

// unreached returns the reason why a server was not reached, and a hint.
func (p Place) unreached(err error) (message, hint string) {
	hint = "does PostgreSQL run there? " + p.names()
	var name *net.DNSError
	var dial *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return "it was interrupted", hint
	case errors.As(err, &name):
		return "there is no host " + name.Name, p.names()
	case errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer", hint
	case errors.As(err, &dial) && dial.Addr != nil:
		return fmt.Sprintf("no server at %s: %v", dial.Addr, innermost(dial)), hint
	}
	text := innermost(err).Error()
	if strings.Contains(text, "TLS") || strings.Contains(text, "tls") {
		hint = "sslmode=disable among the settings of the URL, after the ?, does without TLS"
	}
	return text, hint
}

// innermost returns the root cause. If there are several, it returns the first.
func innermost(err error) error {
	for {
		if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
			err = several.Unwrap()[0]
			continue
		}
		below := errors.Unwrap(err)
		if below == nil {
			return err
		}
		err = below
	}
}
