package place

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
)

func TestWordsAreQuotedForAShell(t *testing.T) {
	for word, want := range map[string]string{
		"demo/perdure.db": "demo/perdure.db", "my demo": "'my demo'", "it's": `'it'\''s'`,
		"$HOME": "'$HOME'",
	} {
		if got := Quoted(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

// The text that is shown for a place is the text that was written, without its passwords.
func TestNobodyIsShownAPassword(t *testing.T) {
	const secret = "s3cr3t"
	for text, want := range map[string]string{
		"orders.db":                "orders.db",
		"sqlite:orders.db":         "orders.db",
		"sqlite:///var/orders.db":  "/var/orders.db",
		"sqlite://orders.db":       "orders.db",
		"postgres://ada@db/shop":   "postgres://ada@db/shop",
		"postgresql://db:5433":     "postgresql://db:5433",
		"postgres:///shop?host=/x": "postgres:///shop?host=/x",
		"postgres://ada:" + secret +
			"@db/shop?sslmode=disable": "postgres://ada:***@db/shop?sslmode=disable",
		"postgres://ada:" + secret +
			"%2F%40@db/shop": "postgres://ada:***@db/shop",
		"postgres://db/shop?user=ada&password=" + secret +
			"&x=1": "postgres://db/shop?user=ada&password=***&x=1",
		"postgres://db/shop?PassWord=" + secret + "&sslpassword=" + secret +
			"": "postgres://db/shop?PassWord=***&sslpassword=***",
		"postgres://db/shop?p%61ssword=" +
			secret: "postgres://db/shop?p%61ssword=***",
		"postgres://ada:@db/shop": "postgres://ada:***@db/shop",
	} {
		p, err := Parse("perdure", text)
		if err != nil || p.String() != want {
			t.Errorf("%s is shown as %s, %v; want %s", text, p, err, want)
		}
		if again, err := Parse("perdure", p.Secret()); err != nil || again.String() != want ||
			again.url != p.url {
			t.Errorf("%s: a process that is told of it has %s, %v", text, again, err)
		}
	}
}

// Otherwise a database would be made in a file that is named so.
func TestSettingsOfAFileAndANameInMemoryAreRefused(t *testing.T) {
	for _, text := range []string{
		"orders.db?lease=5s", "sqlite:orders.db?mode=ro", "sqlite:///var/orders.db?password=s3cr3t",
		"memory:x", "memory://",
	} {
		p, err := Parse("perdure", text)
		if journal.CodeOf(err) != journal.CodeInvalid || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s is %s, %v", text, p, err)
		}
	}
	for _, text := range []string{"why?.db", "memory", "a=b.db", "in memory:.db"} {
		if p, err := Parse("perdure", text); err != nil || p.File != text {
			t.Errorf("%s is %s, %v", text, p, err)
		}
	}
}

func TestSettingsOfTheProgramAreItsOwn(t *testing.T) {
	p, err := Parse("perdure",
		"postgres://ada@db/shop?lease=5s&pooler=on&unsafe=on&application_name=x")
	if err != nil || p.options.Lease != 5*time.Second || !p.options.Pooler || !p.options.Unsafe {
		t.Errorf("%+v, %v", p.options, err)
	}
	for _, name := range []string{"lease", "pooler", "unsafe"} {
		if strings.Contains(p.url, name) {
			t.Errorf("the server is sent %s", name)
		}
	}
	if !strings.Contains(p.url, "application_name=x") ||
		!strings.Contains(p.url, "connect_timeout=10") {
		t.Errorf("the server is sent %s", p.url)
	}
	if p.With(time.Minute).options.Lease != 5*time.Second {
		t.Error("what the URL says does not count")
	}
}

func TestACommandThatPeopleAreToldNamesThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"my orders.db":              "shop serve --store 'my orders.db'",
		"postgres://ada:pw@db/shop": "shop serve --store 'postgres://ada:***@db/shop'",
	} {
		p, err := Parse("shop", text)
		if got := p.Command("serve"); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		if p.FromEnv = true; p.Command("serve") != "shop serve" {
			t.Errorf("with the variable: %s", p.Command("serve"))
		}
	}
}

// pgError is an error of a server.
type pgError struct{ code, text string }

func (e *pgError) Error() string    { return "FATAL: " + e.text + " (SQLSTATE " + e.code + ")" }
func (e *pgError) SQLState() string { return e.code }

func TestWhatAServerSaysIsExplained(t *testing.T) {
	p, err := Parse("shop", "postgres://ada:s3cr3t@db/shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code, text, hint string
		forbidden        bool
	}{
		{"28P01", `password authentication failed for user "ada"`, "PGPASSWORD", true},
		{"28000", "no pg_hba.conf entry", "the right user", true},
		{"42501", "permission denied for database shop", "shop db migrate", true},
		{"42501", "permission denied for table heads", "all rights", true},
		{"53300", "sorry, too many clients already", "max_connections", false},
		{
			"25006", "cannot execute UPDATE in a read-only transaction",
			"target_session_attrs=read-write", false,
		},
		{"08P01", "unsupported startup parameter: jit", "pooler=on", false},
		{"57P03", "the database system is starting up", "log of the server", false},
	} {
		err := p.explain(errors.Join(&pgError{c.code, c.text}))
		var forbidden *ForbiddenError
		if errors.As(err, &forbidden) != c.forbidden ||
			journal.CodeOf(err) != journal.CodeUnavailable {
			t.Errorf("%s: %#v", c.code, err)
		}
		for _, words := range []string{c.text, c.hint, "postgres://ada:***@db/shop"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: no %q in %v", c.code, words, err)
			}
		}
		if strings.Contains(err.Error(), "SQLSTATE") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", c.code, err)
		}
	}
	if err := p.explain(context.DeadlineExceeded); !strings.Contains(err.Error(),
		"the server does not answer") {
		t.Error(err)
	}
}

func TestASettingThatIsNoneIsNamed(t *testing.T) {
	p, err := Parse("shop", "postgres://ada:s3cr3t@db/shop?pool_max_conns=abc")
	if err == nil {
		_, err = p.Open(t.Context(), Write)
	}
	if journal.CodeOf(err) != journal.CodeInvalid || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("it gives %v", err)
	}
}

// Only databases that were made here are dropped, whatever their names are.
//
// spec: P-2
func TestOnlyADatabaseThatWasMadeIsDropped(t *testing.T) {
	url := testpg.URL(t)
	p, err := Parse("shop", url)
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.Make(t.Context(), "perdure_test_")
	if err != nil {
		t.Fatal(err)
	}
	opens := func(p Place, m Mode) bool {
		s, err := p.Open(t.Context(), m)
		if err != nil {
			return false
		}
		return s.Close() == nil
	}
	if !opens(made, Engine) || opens(p, Read) {
		t.Error("what was made is not there, or what was named is not left alone")
	}
	if err := p.Drop(t.Context(), p.Database()); err != nil || !opens(p, Engine) {
		t.Errorf("what was not made here is dropped: %v", err)
	}
	if err := p.Drop(t.Context(), made.Database()); err != nil || opens(made, Read) {
		t.Errorf("what was made stays: %v", err)
	}
	if err := p.Drop(t.Context(), made.Database()); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// A server is named by its address alone: what may be a secret is refused, and not shown.
//
// spec: B-16
func TestAServerIsNamedByItsAddressAlone(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:8080":          "http://127.0.0.1:8080",
		"https://perdure.internal/shop/": "https://perdure.internal/shop/",

		"http://ada:s3cr3t@host": "", "http://s3cr3t@host": "", "https://host?token=s3cr3t": "",
		"http://host#s3cr3t": "", "http://host:s3cr3t": "", "http://": "", "https:///x": "",
	} {
		p, err := Parse("shop", text)
		if (want == "") != (journal.CodeOf(err) == journal.CodeInvalid) ||
			err == nil && (p.Kind != Server || p.String() != want || p.Secret() != want) ||
			strings.Contains(fmt.Sprint(p, err), "s3cr3t") {
			t.Errorf("%s is %s, %v", text, p, err)
		}
	}
	p, err := Parse("shop", "http://host")
	p.TokenFile = "my token"
	if got := p.Command("runs list"); err != nil ||
		got != "shop runs list --store http://host --token-file 'my token'" {
		t.Error(got, err)
	}
	if got := p.Command("serve"); got != "shop serve --store DATABASE" {
		t.Error(got)
	}
	if _, err := p.Open(t.Context(), Engine); journal.CodeOf(err) != journal.CodeInvalid ||
		!strings.Contains(err.Error(), "needs the database itself") {
		t.Errorf("an engine opens %v", err)
	}
}
