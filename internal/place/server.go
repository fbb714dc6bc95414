package place

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	neturl "net/url"
	"os"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/remote"
)

// TokenEnv is the environment variable that has the token for a server, and TokenFileEnv that which
// names a file with it. A token is no argument, which lists of processes would show.
const (
	TokenEnv     = "PERDURE_TOKEN"
	TokenFileEnv = "PERDURE_TOKEN_FILE"
)

// parseServer checks the URL of a server, which begins with scheme. An error shows no more than the
// scheme: any other part may be a secret.
func (p *Place) parseServer(scheme string) error {
	p.shown = scheme + "…"
	u, err := neturl.Parse(p.text)
	switch {
	case err != nil, u.Host == "":
		return p.invalid("it is no URL")
	case u.User != nil:
		return p.invalid("the URL of a server has no user and no password: " + TokenEnv +
			" has the token")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return p.invalid("the URL of a server has nothing after a ? or #: " + TokenEnv +
			" has the token")
	}
	p.url, p.shown = p.text, p.text
	return nil
}

// openServer opens the store of a server.
func (p Place) openServer(ctx context.Context, m Mode) (store.Store, error) {
	if err := p.Itself("an engine"); m == Engine {
		return nil, err
	}
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	s, err := remote.Open(ctx, p.url, remote.Options{Token: token})
	if err != nil {
		return nil, p.explainRemote(err)
	}
	return s, nil
}

// Itself refuses a server: what needs the database itself. It returns nil for a database.
func (p Place) Itself(what string) error {
	if p.Kind != Server {
		return nil
	}
	return p.problem(journal.CodeInvalid, what+" needs the database itself, and this is a server",
		nil, "do it where the database is, with --store postgres://USER@HOST/DATABASE or the file")
}

// token returns the token for a server; empty if there is none.
func (p Place) token() (string, error) {
	file := p.TokenFile
	if token := strings.TrimSpace(os.Getenv(TokenEnv)); file == "" && token != "" {
		return token, nil
	}
	if file == "" {
		file = os.Getenv(TokenFileEnv)
	}
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	token := strings.TrimSpace(string(text))
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return "", p.problem(journal.CodeInvalid, "the token cannot be read from "+file, path.Err,
			p.tokens())
	case token == "":
		return "", p.problem(journal.CodeInvalid, "there is no token in "+file, err, p.tokens())
	}
	return token, nil
}

// tokens explains how a token is passed, for hints.
func (p Place) tokens() string {
	if p.Program == "" {
		return TokenEnv + " has the token, or " + TokenFileEnv + " names a file with it"
	}
	return TokenEnv + " has the token, or --token-file or " + TokenFileEnv + " names a file with it"
}

// explainRemote explains why the store of a server was not opened.
func (p Place) explainRemote(err error) error {
	var said *journal.Error
	if errors.As(err, &said) {
		hint := said.Hint
		if said.Code == journal.CodeUnauthorised || said.Code == journal.CodeInvalid {
			hint = strings.TrimPrefix(hint+"; "+p.tokens(), "; ")
		}
		return p.problem(said.Code, said.Message, nil, hint)
	}
	var name *net.DNSError
	hint := cmp.Or(p.Program, "perdure") + " serve --addr HOST:PORT starts one; " + p.names()
	switch {
	case errors.As(err, &name):
		return p.problem(journal.CodeUnavailable, "there is no host "+name.Name, nil, p.names())
	case errors.Is(err, context.Canceled):
		return p.problem(journal.CodeUnavailable, "it was interrupted", nil, hint)
	}
	message := "no server answers: " + innermost(err).Error()
	return p.problem(journal.CodeUnavailable, message, nil, hint)
}
