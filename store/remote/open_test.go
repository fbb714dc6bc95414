package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// the token of the tests, which nothing may print
const canary = "tok-canary-1"

// greet is a workflow that clients start.
var greet = perdure.Define("greet", func(_ context.Context, name string) (string, error) {
	return "Hello, " + name, nil
})

// byToken allows the sender of the canary up to a need, and does not know anybody else.
func byToken(may Need) func(*http.Request, Call) error {
	return func(r *http.Request, c Call) error {
		if r.Header.Get("Authorization") != "Bearer "+canary {
			return ErrUnauthenticated
		}
		return upTo(may)(r, c)
	}
}

// A client of package perdure works on the store of a server as on the store itself.
//
// spec: B-16
func TestAClientStartsAndReadsAtAServer(t *testing.T) {
	db := memory.New()
	mux := http.NewServeMux()
	mux.Handle(Path, Handler(db, HandlerOptions{Allow: byToken(NeedWrite)}))
	srv := httptest.NewServer(http.StripPrefix("/shop", mux))
	defer srv.Close()
	engine, err := perdure.New(db, perdure.Options{})
	if err == nil {
		err = engine.Register(greet)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- engine.Run(ctx) }()
	defer func() { stop(); <-over }()

	s, err := Open(t.Context(), srv.URL+"/shop/", Options{Token: canary})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := perdure.NewClient(t.Context(), s, greet)
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 200_000) // spilled
	run, err := greet.Start(t.Context(), c, big, perdure.ID("g-1"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Result(t.Context()); err != nil || out != "Hello, "+big {
		t.Errorf("%.20s, %v", out, err)
	}
	again, err := greet.Start(t.Context(), c, big, perdure.ID("g-1"), perdure.Dedup(time.Hour))
	if err != nil || again.New() {
		t.Errorf("a second start with the ID: %v, %v", again, err)
	}
}

// losing loses the answers of calls, after they were carried out.
type losing struct {
	http.RoundTripper
	name string
	left int
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, l.name) && l.left > 0 {
		l.left--
		resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, err
}

// spec: B-16
func TestALostAnswerStartsNoSecondRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		lost := &losing{direct{Handler(db, HandlerOptions{Allow: everything})}, "/commit", 3}
		s, err := Open(t.Context(), "http://wire", Options{Client: &http.Client{Transport: lost}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := perdure.NewClient(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		run, err := greet.Start(t.Context(), c, "ada")
		if err != nil || !run.New() {
			t.Fatal(run, err)
		}
		if info, err := db.Info(t.Context()); err != nil || info.Runs != 1 || lost.left != 0 {
			t.Errorf("%d runs, %v, %d answers not lost", info.Runs, err, lost.left)
		}
	})
}

// What the server refuses is not tried again, and says why, without the token.
//
// spec: B-16
func TestARefusalIsFinalAndSaysWhy(t *testing.T) {
	db := memory.New()
	h := Handler(db, HandlerOptions{Allow: byToken(NeedRead)})
	open := func(token string) (*Store, error) {
		return Open(t.Context(), "http://wire", Options{
			Token: token, Client: &http.Client{Transport: direct{h}},
		})
	}
	_, none := open("")
	_, other := open(canary + "2")
	s, err := open(canary)
	if err != nil {
		t.Fatal(err)
	}
	c, err := perdure.NewClient(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	_, mayNot := greet.Start(t.Context(), c, "ada")
	for err, want := range map[error]string{
		none: "the server asks for a token", other: "the server does not know this one",
		mayNot: "this role may not write",
	} {
		if journal.CodeOf(err) != journal.CodeUnauthorised || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, canary) {
			t.Errorf("the token is in %s", text)
		}
	}
}

// A refused commit is not sent again.
func TestARefusedCommitIsFinal(t *testing.T) {
	asked := 0
	s := opened(t, Handler(memory.New(), HandlerOptions{
		Allow: func(_ *http.Request, c Call) error {
			if c.Name != "commit" {
				return nil
			}
			asked++
			return errors.New("not today")
		},
	}))
	c, err := perdure.NewClient(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would go on for ever
	defer cancel()
	_, err = greet.Start(ctx, c, "ada")
	if journal.CodeOf(err) != journal.CodeUnauthorised || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

// A commit is carried out although its context has ended, as the contract says.
func TestACommitDoesNotEndWithItsContext(t *testing.T) {
	db := memory.New()
	s := opened(t, Handler(db, HandlerOptions{Allow: everything}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Commit(ctx, signalled("a")); err != nil {
		t.Error(err)
	}
	if info, err := db.Info(t.Context()); err != nil || info.Unrouted != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := s.Info(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a read goes on: %v", err)
	}
}

func TestAClosedStoreAsksNobody(t *testing.T) {
	asked := 0
	s := opened(t, Handler(memory.New(), HandlerOptions{Allow: func(*http.Request, Call) error {
		asked++
		return nil
	}}))
	before := asked
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	_, _, err := s.Find(t.Context(), store.Filter{})
	if !errors.Is(err, store.ErrClosed) || asked != before ||
		!errors.Is(s.Commit(t.Context(), signalled("a")), store.ErrClosed) {
		t.Errorf("asked %d times, %v", asked-before, err)
	}
}

// spec: B-16
func TestTheTokenIsPrintedNowhere(t *testing.T) {
	db := memory.New()
	o := Options{Token: canary, Client: &http.Client{Transport: direct{
		Handler(db, HandlerOptions{Allow: byToken(NeedRead)}),
	}}}
	s, err := Open(t.Context(), "http://wire/", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{s, o, &o, s.String()} {
		if text := fmt.Sprintf("%v %+v %#v %s", v, v, v, v); strings.Contains(text, canary) {
			t.Errorf("%s", text)
		}
	}
	if s.String() != "http://wire" {
		t.Error(s)
	}
	for _, token := range []string{canary + "\n", "a b" + canary, canary + "\x00", "ü" + canary} {
		_, err := Open(t.Context(), "http://wire", Options{Token: token, Client: o.Client})
		if journal.CodeOf(err) != journal.CodeInvalid || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked = true
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(other.URL, status))
		_, err := Open(t.Context(), srv.URL, Options{Token: canary})
		srv.Close()
		if asked || journal.CodeOf(err) != journal.CodeUnavailable ||
			!strings.Contains(err.Error(), "sends on to "+other.URL) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// answering returns options whose server answers each request with a status and a text.
func answering(status int, media, text string) Options {
	return Options{Token: canary, Client: &http.Client{Transport: direct{http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			io.WriteString(w, text)
		})}}}
}

func TestWhatIsNoStoreOfAServerIsToldApart(t *testing.T) {
	for _, c := range []struct {
		o    Options
		code journal.Code // empty: it is tried again
		has  string
	}{
		{answering(404, "text/html", "x"), journal.CodeUnavailable, "is it the address of a"},
		{answering(401, "application/problem+json", "{}"), journal.CodeUnauthorised, "401"},
		{answering(403, "text/html", "x"), journal.CodeUnauthorised, "403"},
		{answering(413, "text/html", "x"), journal.CodeInvalid, "413"},
		{answering(429, "text/html", "x"), "", "429"},
		{answering(502, "text/html", "x"), "", "502"},
		{answering(200, "text/html", "x"), "", "200"},
		{answering(200, mediaType, "{}x"), "", "is not valid"},
		{answering(200, mediaType, `{"Value":{"Newer":1}}`), "", "is not valid"},
		{answering(503, mediaType, `{"Err":{"Text":"disk full"}}`), "", "disk full"},
	} {
		_, err := Open(t.Context(), "http://wire", c.o)
		if err == nil || journal.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%v, want %s and %q", err, c.code, c.has)
		}
	}
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	for _, url := range []string{
		"", "wire", "ftp://wire", "http://", "http:wire", "http://wire:port", "http://a:" + canary +
			"@wire", "http://" + canary + "@wire", "http://wire?token=" + canary, "http://wire?",
		"http://wire#" + canary, "http://wire/%zz" + canary,
	} {
		_, err := Open(t.Context(), url, answering(200, mediaType, "{}"))
		if journal.CodeOf(err) != journal.CodeInvalid || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// An engine, and a transaction of the application, need the database itself.
func TestAStoreOfAServerHasNoEngineAndNoTransaction(t *testing.T) {
	s := opened(t, Handler(memory.New(), HandlerOptions{Allow: everything}))
	engine, err := perdure.New(s, perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = engine.Run(t.Context())
	if !strings.Contains(fmt.Sprint(err), "open the database itself") {
		t.Errorf("an engine ends with %v", err)
	}
	if err := s.Spill(t.Context(), 1, 1, nil); journal.CodeOf(err) != journal.CodeMisuse {
		t.Error(err)
	}
	c, err := perdure.NewClient(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = greet.Start(t.Context(), c.In("tx"), "ada")
	if journal.CodeOf(err) != journal.CodeInvalid ||
		!strings.Contains(err.Error(), "open the database itself") {
		t.Errorf("a start in a transaction: %v", err)
	}
}

func TestAnAnswerWithoutAllVerdictsIsNoAnswer(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"Value":{}}`, `{"Value":{"Changes":[{}]}}`, `{"Value":{"Changes":[{},{}]}}`,
	} {
		s := opened(t, Handler(memory.New(), HandlerOptions{Allow: everything}))
		s.client = answering(200, mediaType, text).Client
		g := signalled("a")
		var data *store.DataError
		if err := s.Commit(t.Context(), g); err == nil || errors.As(err, &data) ||
			journal.CodeOf(err) != "" || g.Changes[0].Posts[0].Verdict != store.Written {
			t.Errorf("%s: %v", text, err)
		}
	}
}
