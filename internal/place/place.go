// Package place parses the names of databases on the command line, and opens the databases.
//
// A place is a PostgreSQL by its URL, an SQLite file, or a server that has a database. The password
// of a URL, and the token for a server, are never shown: not in an error, and not in a suggested
// command.
package place

import (
	"cmp"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/postgres"
)

// Env is the environment variable that names the database if no option does. Default is the
// database if neither does.
const (
	Env     = "PERDURE_STORE"
	Default = "sqlite:perdure.db"
)

// Names explains how to name a database, for hints and help.
const Names = "--store or " + Env + " names the database"

// Forms are the forms of the name of a database, for hints and help.
const Forms = "postgres://USER@HOST/DATABASE, an SQLite file, or a server: http://HOST:PORT"

// names explains how to name the database, for hints.
func (p Place) names() string {
	if p.Program == "" {
		return "name another one"
	}
	return Names
}

// A Kind is the kind of the database in a place.
type Kind int

// The kinds.
const (
	SQLite Kind = iota
	Postgres
	Memory
	Server // which has a database, and offers its store to commands
)

// A Place is the location of a database.
type Place struct {
	Kind    Kind
	File    string // of SQLite; empty if the text was only "sqlite:"
	Program string // the command that runs this program; empty for a program that embeds the engine
	FromEnv bool   // the variable names the database: a command needs no option

	TokenFile string // has the token for a server; empty for that of the environment

	text    string // as it was passed
	url     string // of a server; of PostgreSQL, with its password, without this program's settings
	shown   string
	options postgres.Options
}

var (
	scheme = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*)://`)
	// listed matches the list of settings that psql accepts, which may have a password in it.
	listed = regexp.MustCompile(`(^|\s)(host|hostaddr|port|dbname|user|password)\s*=`)
	// withSettings matches a file that is followed by settings, as in a URL.
	withSettings = regexp.MustCompile(`^(.*?)\?\w+=`)
)

// Parse parses the name of a database: postgres://USER@HOST/DATABASE, FILE, sqlite:FILE, memory:,
// or http://HOST:PORT for that of a server. The program is the command that runs this program.
func Parse(program, text string) (Place, error) {
	p := Place{Program: program, text: text, shown: text}
	switch s := scheme.FindStringSubmatch(text); {
	case text == "":
		return p, p.invalid("its name is empty")
	case text == "memory:":
		p.Kind = Memory
		return p, nil
	case s != nil && (s[1] == "postgres" || s[1] == "postgresql"):
		p.Kind = Postgres
		return p, p.parseURL(text)
	case s != nil && (s[1] == "http" || s[1] == "https"):
		p.Kind = Server
		return p, p.parseServer(s[0])
	case s != nil && s[1] != "sqlite":
		p.shown = s[0] + "…"
		return p, p.invalid("there is no store " + s[1])
	case strings.HasPrefix(text, "postgres:"), strings.HasPrefix(text, "postgresql:"):
		if strings.Contains(text, "@") { // a password may be before it
			p.shown = "postgres:…"
		}
		return p, p.invalid("there is no store " + p.shown)
	case listed.MatchString(text):
		p.shown = "the database"
		return p, p.invalid("it is a list of settings, and a PostgreSQL is named by its URL")
	case strings.HasPrefix(text, "memory:"):
		return p, p.invalid("the name is not valid: a store in memory is memory: and nothing else")
	}
	if s := withSettings.FindStringSubmatch(text); s != nil {
		p.shown = s[1]
		return p, p.invalid("the name is not valid: an SQLite file takes no settings after a ?")
	}
	p.File = text
	if file, ok := strings.CutPrefix(text, "sqlite:"); ok {
		p.File = strings.TrimPrefix(file, "//") // other programs write it like that
	}
	return p, nil
}

// The settings of a URL that are this program's own. The other settings are for PostgreSQL.
const (
	lease  = "lease"
	pooler = "pooler"
	unsafe = "unsafe"
)

// connectTimeout limits the seconds that a connection may take to open, if the URL does not set
// it.
const connectTimeout = "10"

// parseURL parses the URL of a PostgreSQL. An error does not show the URL: any part of it may be
// a password.
func (p *Place) parseURL(text string) error {
	p.shown = "postgres://…"
	u, err := url.Parse(text)
	if err != nil {
		return p.invalid("it is no URL; in a password, what is neither a letter nor a digit is " +
			"written as %2F")
	}
	settings, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return p.invalid("its settings, after the ?, cannot be read")
	}
	p.shown = redacted(u)
	if err := p.own(settings); err != nil {
		return err
	}
	if !settings.Has("connect_timeout") && os.Getenv("PGCONNECT_TIMEOUT") == "" {
		settings.Set("connect_timeout", connectTimeout)
	}
	u.RawQuery = settings.Encode()
	p.url = u.String()
	return nil
}

// own parses the settings that are this program's.
func (p *Place) own(settings url.Values) error {
	if text := settings.Get(lease); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return p.invalid("its lease is " + text + ", and should be as 10s")
		}
		p.options.Lease = d
	}
	for name, set := range map[string]*bool{pooler: &p.options.Pooler, unsafe: &p.options.Unsafe} {
		switch text := settings.Get(name); text {
		case "on":
			*set = true
		case "", "off":
		default:
			return p.invalid("its " + name + " is " + text + ", and should be on or off")
		}
	}
	for _, name := range []string{lease, pooler, unsafe} {
		settings.Del(name)
	}
	return nil
}

// hidden replaces a password.
const hidden = "***"

// redacted returns a URL without its passwords.
func redacted(u *url.URL) string {
	var b strings.Builder
	b.WriteString(u.Scheme + "://")
	if u.User != nil {
		b.WriteString(url.User(u.User.Username()).String())
		if _, has := u.User.Password(); has {
			b.WriteString(":" + hidden)
		}
		b.WriteString("@")
	}
	b.WriteString(u.Host + u.EscapedPath())
	for i, pair := range strings.Split(u.RawQuery, "&") {
		if name, _, _ := strings.Cut(pair, "="); strings.Contains(strings.ToLower(name),
			"password") || strings.Contains(name, "%") {
			pair = name + "=" + hidden
		}
		if i == 0 && pair != "" {
			b.WriteString("?")
		} else if i > 0 {
			b.WriteString("&")
		}
		b.WriteString(pair)
	}
	return b.String()
}

// String returns the place without its password, for people.
func (p Place) String() string {
	if p.Kind == SQLite && p.File != "" {
		return p.File
	}
	return p.shown
}

// Words returns the part of a command line that names the place. It is empty if the variable
// names the place. The user must fill in the password.
func (p Place) Words() string {
	if p.FromEnv {
		return ""
	}
	words := " --store " + Quoted(p.String())
	if p.TokenFile != "" {
		words += " --token-file " + Quoted(p.TokenFile)
	}
	return words
}

// Command returns the command line of a command of this program on the place. To serve needs the
// database itself, whose name is not known if the place is a server.
func (p Place) Command(words string) string {
	if p.Kind == Server && words == "serve" {
		return cmp.Or(p.Program, "perdure") + " serve --store DATABASE"
	}
	return cmp.Or(p.Program, "perdure") + " " + words + p.Words()
}

// Secret returns the text from which [Parse] makes the same place, with the password. It is for a
// process that gets it on its standard input, and must not be shown.
func (p Place) Secret() string {
	if p.Kind == SQLite {
		return "sqlite:" + p.File
	}
	return p.text
}

// With returns the place with a lease, if the URL does not set one.
func (p Place) With(lease time.Duration) Place {
	if p.options.Lease == 0 {
		p.options.Lease = lease
	}
	return p
}

// Check refuses a place in memory, or a file that cannot be a database.
func (p Place) Check() error {
	if p.Kind == Memory {
		return p.invalid("nothing in memory outlives a command")
	}
	if p.Kind != SQLite {
		return nil
	}
	if p.File == "" {
		return p.invalid("the file has no name")
	}
	info, err := os.Stat(p.File)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return p.problem(journal.CodeUnavailable, "it is not a file", nil, p.names())
	}
	return nil
}

// IsThere reports whether a database may exist. A missing file has none.
func (p Place) IsThere() bool {
	if p.Kind != SQLite {
		return true
	}
	_, err := os.Stat(p.File)
	return !errors.Is(err, fs.ErrNotExist)
}

func (p Place) invalid(message string) error {
	return p.problem(journal.CodeInvalid, message, nil, p.names()+": "+Forms)
}

func (p Place) problem(code journal.Code, message string, err error, hint string) error {
	what := p.String()
	if what == "" {
		what = "the database"
	}
	return &journal.Error{Code: code, Op: "open " + what, Message: message, Err: err, Hint: hint}
}

// Quoted returns a word quoted for a shell, if necessary.
func Quoted(word string) string {
	if !strings.ContainsFunc(word, func(c rune) bool {
		return strings.ContainsRune(" \t\n'\"\\$`&|;<>()*?[]#~!{}", c)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
