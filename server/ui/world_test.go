package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/server/ui"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// A world is a server with a page and an engine.
type world struct {
	t       testing.TB
	engine  *perdure.Engine
	db      store.Store
	gateway *bus.Gateway // of the server, without routes
	handler http.Handler
	address string // of the listener
	url     string // of the page, with a slash at its end
	http    *http.Server
}

// An Expense is the input of a workflow with a contract. Money is in cents.
type Expense struct {
	By    string `json:"by"`
	Cents int    `json:"cents"`
}

var expense = perdure.Define("expense", func(ctx context.Context, e Expense) (string, error) {
	out, err := approval.Wait(ctx, approval.Ask{
		Key: "manager", Role: "manager", Title: e.By + " wants money back", Within: time.Hour,
	})
	if err != nil || !out.IsApproved() {
		return "refused", err
	}
	return perdure.Step(ctx, "pay", func(context.Context) (string, error) { return "paid", nil })
}, perdure.About{
	Description: "Pays an expense when a manager has approved it.",
	Input: json.RawMessage(`{"type": "object", "required": ["by", "cents"], "properties": {
		"by": {"type": "string", "title": "Who wants it"},
		"cents": {"type": "integer", "minimum": 1, "title": "Cents"},
		"urgent": {"type": "boolean"}}}`),
})

var ready = perdure.NewSignal[string]("ready")

// waiting waits for a signal, and fails if that says so.
var waiting = perdure.Define("waiting", func(ctx context.Context, _ string) (string, error) {
	word, err := ready.Wait(ctx)
	if err != nil {
		return "", err
	}
	return perdure.Step(ctx, "judge", func(context.Context) (string, error) {
		if word == "bad" {
			return "", perdure.Permanent(errors.New("the word is bad"))
		}
		return word, nil
	})
}, deadletter.Automatic(true))

// long has a history of many entries.
var long = perdure.Define("long", func(ctx context.Context, n int) (int, error) {
	for range n {
		if _, err := perdure.Step(ctx, "count", func(context.Context) (int, error) {
			return n, nil
		}); err != nil {
			return 0, err
		}
	}
	return n, nil
})

// order is a saga that undoes what it has done, for the country XX.
func order() perdure.Definition {
	s := saga.New[string]("order", perdure.About{Description: "Reserves, charges and ships."})
	undo := func(context.Context, string, string) error { return nil }
	step := func(name string) func(context.Context, string) (string, error) {
		return func(_ context.Context, country string) (string, error) {
			if name == "ship" && country == "XX" {
				return "", perdure.Permanent(errors.New("the carrier does not go there"))
			}
			return name + " done", nil
		}
	}
	reserve := saga.Add(s, "reserve", step("reserve")).Undo(undo)
	charge := saga.Add(s, "charge", step("charge")).Undo(undo).After(reserve)
	saga.Add(s, "ship", step("ship")).After(charge)
	return s
}

// begin begins a server under a prefix, on SQLite. With tokens, callers need one.
func begin(t testing.TB, prefix string, tokens ...auth.Credential) *world {
	t.Helper()
	chromium(t)
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "page.db"))
	if err != nil {
		t.Fatal(err)
	}
	return beginOn(t, db, prefix, tokens...)
}

// definitions are the workflows of each engine.
func definitions() []perdure.Definition {
	all := append(patterns(), parcels, expense, waiting, long, held, order(), batch.Workflow(),
		schedule.Workflow(), alert.Workflow(alert.Options{}))
	return append(all, forRuns()...)
}

// beginOn begins a server on a database, which it closes at the end of the test.
func beginOn(t testing.TB, db store.Store, prefix string, tokens ...auth.Credential) *world {
	t.Helper()
	feed, summary := &server.Feed{}, observe.NewSummary()
	engine, err := perdure.New(db, perdure.Options{
		Observers: []observe.Observer{feed.Observer(), summary.Observer()},
		Logger:    slog.New(slog.DiscardHandler),
		Drain:     -1, // nobody wants what a step of a test that is over does
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Register(definitions()...); err != nil {
		t.Fatal(err)
	}
	page, err := ui.New(prefix)
	if err != nil {
		t.Fatal(err)
	}
	gateway := bus.NewGateway()
	o := server.Options{
		Gateways: []*bus.Gateway{gateway},
		Feed:     feed, Summary: summary, Prefix: prefix, Page: page,
		Logger: slog.New(slog.DiscardHandler), Audit: func(server.Act) {},
		Configuration: configuration,
	}
	if len(tokens) > 0 {
		all := &auth.Tokens{}
		if err := all.Set(tokens); err != nil {
			t.Fatal(err)
		}
		o.Authenticator = all
	}
	s, err := server.New(engine, db, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	w := &world{
		t: t, engine: engine, gateway: gateway, db: db,
		handler: http.StripPrefix(prefix, s), address: "127.0.0.1:0",
	}
	w.listen()
	w.url = "http://" + w.address + prefix + "/"
	t.Cleanup(func() {
		_ = w.http.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// listen answers requests at the address, which is the same each time.
func (w *world) listen() {
	w.t.Helper()
	l, err := net.Listen("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.address = l.Addr().String()
	w.http = server.HTTPServer(w.handler)
	go func() { _ = w.http.Serve(l) }() // it ends when the server is closed
}

// start starts a run and returns its ID.
func (w *world) start(workflow, id string, input any) string {
	w.t.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		w.t.Fatal(err)
	}
	run, err := w.engine.Start(w.t.Context(), workflow, text, perdure.ID(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return run.RunID()
}

// finish starts a run and waits for its end.
func (w *world) finish(workflow, id string, input any) string {
	w.t.Helper()
	run := w.start(workflow, id, input)
	one, err := w.engine.Get(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = one.Result(w.t.Context()) // it may have failed
	return run
}

// send sends a run the signal that it waits for.
func (w *world) send(id, word string) {
	w.t.Helper()
	if _, err := ready.Send(w.t.Context(), w.engine, id, word); err != nil {
		w.t.Fatal(err)
	}
}

// post sends a request that changes something.
func (w *world) post(path, body string) {
	w.t.Helper()
	answer, err := http.Post(w.url+"api/orchestration/"+path, "application/json",
		strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode >= 400 {
		w.t.Fatal(path, answer.StatusCode, err)
	}
}
