package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/internal/script"
	"github.com/perdure/perdure/store/remote"
	"github.com/perdure/perdure/store/sqlite"
)

// bearer is the token of the tests. No command prints it.
const bearer = "tok-canary-2"

// server serves the store in an SQLite file to those who have the bearer's token, for what needs no
// more than a right. It returns the URL.
func server(t *testing.T, file string, may remote.Need) string {
	t.Helper()
	db, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	allow := func(r *http.Request, c remote.Call) error {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+bearer:
			return remote.ErrUnauthenticated
		case c.Need > may:
			return errRole
		}
		return nil
	}
	srv := httptest.NewServer(remote.Handler(db, remote.HandlerOptions{Allow: allow}))
	t.Cleanup(func() {
		srv.Close()
		db.Close()
	})
	return srv.URL
}

var errRole = errors.New("the role of this token may not do that")

// needsFile matches a command that needs the database itself, and not the store of a server.
var needsFile = regexp.MustCompile(`\bshop (serve|db migrate|db backup)\b`)

func playAtServer(t *testing.T, bin, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := script.NewStage(t, bin, child+"=1", "NO_COLOR=1")
	url := server(t, filepath.Join(s.Dir, "perdure.db"), remote.NeedAdminister)
	s.Setenv(place.Env, url)
	s.Setenv(place.TokenEnv, bearer)
	ours := strings.NewReplacer("serve --store perdure.db", "serve --store DATABASE",
		" --store perdure.db", "", "./perdure.db", "./perdure.db", "perdure.db", url)
	for _, c := range script.Parse(string(text), 1) {
		if c.Only != "" && c.Only != "SQLite" {
			continue
		}
		if needsFile.MatchString(c.Text) {
			c.Text = needsFile.ReplaceAllString(c.Text, "$0 --store perdure.db")
		} else {
			for i, line := range c.Want {
				c.Want[i] = ours.Replace(line)
			}
		}
		s.Run(file, c)
	}
}

// atServer makes commands of this process use a server, with these variables.
func atServer(t *testing.T, may remote.Need) (url string) {
	t.Helper()
	t.Chdir(t.TempDir())
	url = server(t, "perdure.db", may)
	t.Setenv(place.Env, url)
	t.Setenv(place.TokenEnv, "")
	t.Setenv(place.TokenFileEnv, "")
	return url
}

// refusedAt checks that a command ends with an exit code, a line and a hint, without the token.
func refusedAt(t *testing.T, code int, message, hint string, line string) {
	t.Helper()
	r := shop(t.Context(), t, strings.Fields(line)...)
	r.refused(t, code, message)
	if !strings.Contains(r.stderr, hint) || strings.Contains(r.stderr+r.stdout, bearer) {
		t.Errorf("%s says\n%s%s\nno hint at %q, or the token", line, r.stderr, r.stdout, hint)
	}
}

// spec: B-16
func TestWhoIsNotLetInIsToldSo(t *testing.T) {
	url := atServer(t, remote.NeedRead)
	all := []string{"runs list", "start greet", "workers list", "db status", "doctor"}
	for _, line := range all {
		refusedAt(t, exitForbidden, "open "+url+": the request has no valid token",
			"the server asks for a token; PERDURE_TOKEN has the token, or --token-file or", line)
	}
	t.Setenv(place.TokenEnv, bearer+"x")
	for _, line := range all {
		refusedAt(t, exitForbidden, "open "+url, "the server does not know this one", line)
	}
	t.Setenv(place.TokenEnv, bearer)
	for _, line := range []string{
		"start greet", "runs signal x go", "workflows pause greet", "keys rotate --reason r",
	} {
		refusedAt(t, exitForbidden, errRole.Error(), "use a token of a role that may", line)
	}
}

// Who may write, and not administer, works with all but the secrets.
func TestKeysAreForAdministrators(t *testing.T) {
	atServer(t, remote.NeedWrite)
	t.Setenv(place.TokenEnv, bearer)
	if r := shop(t.Context(), t, "start", "greet", "-i", `"ada"`); r.code != exitOK {
		t.Error(r)
	}
	if r := shop(t.Context(), t, "keys", "rotate", "--store", "perdure.db"); r.code != exitOK {
		t.Fatal(r)
	}
	refusedAt(t, exitForbidden, "the server keeps them from this caller",
		"a role that may administer", "keys list")
}

// spec: B-16
func TestTheTokenIsInAFile(t *testing.T) {
	url := atServer(t, remote.NeedRead)
	for file, text := range map[string]string{
		"token": bearer + "\n", "empty": " \n", "other": "x",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lists := func(args ...string) {
		t.Helper()
		r := shop(t.Context(), t, append([]string{"runs", "list"}, args...)...)
		if r.code != exitOK {
			t.Error(r)
		}
	}
	lists("--token-file", "token")
	t.Setenv(place.TokenFileEnv, "token")
	lists()
	refusedAt(t, exitForbidden, "open "+url, "--token-file", "runs list --token-file other")
	t.Setenv(place.TokenFileEnv, "other")
	t.Setenv(place.TokenEnv, bearer)
	lists()
	refusedAt(t, exitForbidden, "open "+url, "--token-file", "runs list --token-file other")
	refusedAt(t, exitUsage, "the token cannot be read from none", "PERDURE_TOKEN",
		"runs list --token-file none")
	refusedAt(t, exitUsage, "there is no token in empty", "PERDURE_TOKEN",
		"runs list --token-file empty")
	refusedAt(t, exitUsage, "--token-file is for a server", "name the server",
		"runs list --store perdure.db --token-file token")
	refusedAt(t, exitNotFound, "find x", "shop runs list --store "+url+" --token-file token lists",
		"runs get x --store "+url+" --token-file token")
}

// spec: B-16
func TestWhereNoServerIsIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for url, c := range map[string]struct {
		code          int
		message, hint string
	}{
		"http://127.0.0.1:1": {
			exitUnreachable, "no server answers: connection refused",
			"shop serve --addr HOST:PORT starts one",
		},
		other.URL: {exitUnreachable, "there is no store: the answer is 404", "a perdure server?"},
		"https://no.such.host.invalid": {
			exitUnreachable, "there is no host no.such.host.invalid", "PERDURE_STORE",
		},
		"http://ada:" + bearer + "@host":   {exitUsage, "has no user and no password", "PERDURE_STORE"},
		"http://host?token=" + bearer:      {exitUsage, "nothing after a ? or #", "PERDURE_STORE"},
		"http://host:" + bearer:            {exitUsage, "it is no URL", "PERDURE_STORE"},
		"https:///runs":                    {exitUsage, "it is no URL", "PERDURE_STORE"},
		"http://127.0.0.1:1/" + "x?#" + "": {exitUsage, "nothing after a ? or #", "PERDURE_STORE"},
	} {
		for _, line := range []string{"runs list", "start greet", "db status"} {
			refusedAt(t, c.code, c.message, c.hint, line+" --store "+url)
		}
	}
}

// spec: B-16
func TestWhatNeedsTheDatabaseItselfRefusesAServer(t *testing.T) {
	url := atServer(t, remote.NeedAdminister)
	t.Setenv(place.TokenEnv, bearer)
	for _, line := range []string{
		"serve", "db migrate", "db backup copy.db", "bench", "demo --once --store " + url,
	} {
		refusedAt(t, exitUsage, "needs the database itself, and this is a server",
			"do it where the database is", line)
	}
}
