package place

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
)

// ours is the comment of a database that [Place.Make] has made.
const ours = "made by perdure"

// patience limits how long it may take to make a database or to drop one.
const patience = 30 * time.Second

// Make makes a new, empty database on the server of a place, besides the database that the place
// names, which stays unchanged. The new name begins with prefix.
func (p Place) Make(ctx context.Context, prefix string) (Place, error) {
	name := prefix + strings.ToLower(rand.Text()[:8])
	made, err := p.named(name)
	if err == nil {
		err = p.administer(ctx, "create database "+name+" template template0",
			"comment on database "+name+" is '"+ours+"'")
	}
	return made, err
}

// Database returns the name of the database in the URL of a PostgreSQL.
func (p Place) Database() string {
	u, err := url.Parse(p.url)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}

var makeable = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// Drop drops a database of that name, if it is on the server of the place and [Place.Make] has
// made it. Its connections are closed.
func (p Place) Drop(ctx context.Context, name string) error {
	if !makeable.MatchString(name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return p.explain(err)
	}
	defer func() { _ = c.Close(ctx) }() // no result depends on it
	var made bool
	err = c.QueryRow(
		ctx,
		`select exists (select from pg_database where datname = $1 and shobj_description(oid, 'pg_database') = $2)`,
		name, ours).Scan(&made)
	if err == nil && made {
		_, err = c.Exec(ctx, "drop database if exists "+name+" with (force)")
	}
	if err != nil {
		return p.explain(err)
	}
	return nil
}

// administer executes statements on the server.
func (p Place) administer(ctx context.Context, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return p.explain(err)
	}
	defer func() { _ = c.Close(ctx) }() // no result depends on it
	for _, sql := range statements {
		_, err := c.Exec(ctx, sql)
		var e stated
		if errors.As(err, &e) && e.SQLState() == "42501" {
			return p.problem(journal.CodeUnavailable, "make a database on the server",
				&ForbiddenError{errors.New(message(e))}, "it needs a database of its own: let "+
					"the user have one made, by alter role … createdb")
		}
		if err != nil {
			return p.explain(err)
		}
	}
	return nil
}

// named returns the place of another database on the same server.
func (p Place) named(name string) (Place, error) {
	u, err := url.Parse(p.text)
	if err != nil {
		return Place{}, p.invalid("it is no URL")
	}
	u.Path = "/" + name
	settings := u.Query()
	settings.Del("dbname")
	u.RawQuery = settings.Encode()
	other, err := Parse(p.Program, u.String())
	other.FromEnv = false
	other.options = p.options
	return other, err
}
