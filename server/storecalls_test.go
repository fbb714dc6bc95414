package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/remote"
)

// A client of the store may do what its role allows, and what it has written is audited.
//
// spec: B-18, P-10
func TestAClientOfTheStoreHasItsRole(t *testing.T) {
	var mu sync.Mutex
	var acts []string
	w := begin(t, server.Options{Authenticator: people(t), Audit: func(a server.Act) {
		mu.Lock()
		defer mu.Unlock()
		acts = append(acts, a.By+" "+a.Action)
	}})
	client := func(token string) *perdure.Client {
		t.Helper()
		db, err := remote.Open(t.Context(), w.http.URL, remote.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		c, err := perdure.NewClient(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	viewer, operator, boss := client(viewerToken), client(operatorToken), client(adminToken)
	if _, err := viewer.Start(t.Context(), "greet", []byte(`"ada"`)); journal.CodeOf(
		err) != journal.CodeUnauthorised {
		t.Errorf("a viewer starts a run: %v", err)
	}
	run, err := greet.Start(t.Context(), operator, "ada", perdure.ID("g-1"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Result(t.Context()); out != "Hello, ada" || err != nil {
		t.Error(out, err)
	}
	if d, err := viewer.Describe(t.Context(), "g-1"); err != nil ||
		d.Head.Status != journal.Completed {
		t.Error(d.Head, err)
	}
	if err := admin.New(operator).RotateKey(t.Context(), admin.Note{}); journal.CodeOf(
		err) != journal.CodeUnauthorised {
		t.Errorf("an operator rotates a key: %v", err)
	}
	if err := admin.New(boss).RotateKey(t.Context(), admin.Note{}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(acts, ", "); !strings.Contains(all, "store-start") ||
		!strings.Contains(all, "store-set") || strings.Contains(all, "viewer ") {
		t.Errorf("the audit has %s", all)
	}
}

// What is hidden from a caller of the API is hidden from a client of the store, who also cannot
// write back what it has read.
//
// spec: B-18
func TestAClientOfTheStoreDoesNotSeeHiddenFields(t *testing.T) {
	w := begin(t, server.Options{Authenticator: people(t), Redact: []string{"password"}})
	const canary = "hunter2"
	secret := map[string]string{"password": canary}
	run, err := greet.Start(t.Context(), w.engine, "ada", perdure.ID("g-1"),
		perdure.Attributes(secret), perdure.Headers(secret))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	spec := schedule.Spec{
		Workflow: "waiting", Every: time.Hour, Input: []byte(`{"password":"` + canary + `"}`),
	}
	if err := schedule.Set(t.Context(), w.engine, "hourly", spec, schedule.Note{}); err != nil {
		t.Fatal(err)
	}
	for token, sees := range map[string]bool{operatorToken: false, adminToken: true} {
		db, err := remote.Open(t.Context(), w.http.URL, remote.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		c, err := perdure.NewClient(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.History(t.Context(), "g-1", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%v %+v", all[0].Detail.Headers, all[0].Detail.Attributes)
		if strings.Contains(text, canary) != sees {
			t.Errorf("it sees the field: %v, want %v: %s", !sees, sees, text)
		}
		have, err := schedule.Get(t.Context(), c, "hourly")
		if err != nil || strings.Contains(string(have.Spec.Input), canary) != sees {
			t.Errorf("%s, %v", have.Spec.Input, err)
		}
		have.Spec.Every = 2 * time.Hour
		if err := schedule.Set(t.Context(), c, "hourly", have.Spec, schedule.Note{}); (err ==
			nil) != sees {
			t.Errorf("it writes back what it has read: %v, want %v", err, sees)
		}
	}
}

// An engine that does not run is not ready, even if another one has the database.
//
// spec: P-11
func TestAnEngineThatDoesNotRunIsNotReady(t *testing.T) {
	db := memory.NewShared(time.Minute)
	defer db.Close()
	other, err := perdure.New(db, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Register(greet); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- other.Run(ctx) }()
	if run, err := greet.Start(ctx, other, "ada"); err != nil {
		t.Fatal(err)
	} else if _, err := run.Result(ctx); err != nil {
		t.Fatal(err)
	}
	own, err := perdure.New(db, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for engine, want := range map[*perdure.Engine]int{other: 200, own: 503} {
		s, err := server.New(engine, db, server.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "http://localhost/readyz", nil)
		r.RemoteAddr = "127.0.0.1:1"
		seen := httptest.NewRecorder()
		if s.ServeHTTP(seen, r); seen.Code != want {
			t.Errorf("%d %s, want %d", seen.Code, seen.Body, want)
		}
	}
	stop()
	<-done
}

// A signal that only Perdure itself sends is refused: it says who acts.
//
// spec: B-18
func TestASignalOfPerdureItselfIsRefused(t *testing.T) {
	w := begin(t, server.Options{})
	w.start("waiting", `{"id":"w-1"}`)
	w.want(400, "POST", api+"/executions/w-1/signal/perdure.schedule", `{"by":"boss"}`)
	w.want(400, "POST", api+"/signals/perdure.schedule", `{"items":[{"id":"w-1"}]}`)
	w.want(400, "POST", api+"/workflows/greet/start", `{"id":"a","input":"x"}`,
		"Idempotency-Key", "b")
	w.want(200, "POST", api+"/executions/w-1/signal/go", `"literal �"`)
}

// A silent is a store that does not answer.
type silent struct{ store.Store }

func (silent) Info(context.Context) (store.Info, error) { return store.Info{}, io.ErrClosedPipe }

// spec: P-11
func TestAServerWhoseDatabaseDoesNotAnswerLivesAndIsNotReady(t *testing.T) {
	db := memory.New()
	defer db.Close()
	c, err := perdure.NewClient(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(c, silent{db}, server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		seen := httptest.NewRecorder()
		if s.ServeHTTP(seen, r); seen.Code != want || strings.Contains(seen.Body.String(), "pipe") {
			t.Errorf("%s: %d %s, want %d", path, seen.Code, seen.Body, want)
		}
	}
}

// A breaking store is one whose database does not answer any more at some time, which it says with
// its address.
type breaking struct {
	store.Store
	down bool
}

var errDown = errors.New("dial error: no route to canary-host as canary-user")

func (f *breaking) Info(ctx context.Context) (store.Info, error) {
	if f.down {
		return store.Info{}, errDown
	}
	return f.Store.Info(ctx)
}

func (f *breaking) Find(ctx context.Context, q store.Filter) ([]journal.Head, journal.Cursor,
	error) {
	if f.down {
		return nil, journal.Cursor{}, errDown
	}
	return f.Store.Find(ctx, q)
}

// What a database says that does not answer is for the log, and for admins.
//
// spec: P-10, B-18
func TestTheAddressOfTheDatabaseIsNotTold(t *testing.T) {
	db := &breaking{Store: memory.New()}
	defer db.Close()
	c, err := perdure.NewClient(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	s, err := server.New(c, db, server.Options{
		Authenticator: people(t), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Address: "postgres://canary-user@canary-host/runs",
	})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{operatorToken: false, adminToken: true} {
		r := httptest.NewRequest("GET", "http://localhost"+api+"/database", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		seen := httptest.NewRecorder()
		s.ServeHTTP(seen, r)
		if seen.Code != 200 || strings.Contains(seen.Body.String(), "canary") != want {
			t.Errorf("with %s: %s", token, seen.Body)
		}
	}
	db.down = true
	listener := httptest.NewServer(s)
	defer listener.Close()
	for token, sees := range map[string]bool{
		viewerToken: false, operatorToken: false, adminToken: true,
	} {
		for _, path := range []string{"/database", "/workers", "/executions", "/dlq", "/approvals",
			"/executions/x/events", "/executions/x/result", "/workflows", "/doctor"} {
			r := httptest.NewRequest("GET", "http://localhost"+api+path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			seen := httptest.NewRecorder()
			s.ServeHTTP(seen, r)
			text := seen.Body.String()
			if path != "/doctor" && seen.Code != 503 || strings.Contains(text, "canary") != sees {
				t.Errorf("%s with %s: %d %s", path, token, seen.Code, text)
			}
		}
		far, err := remote.Open(t.Context(), listener.URL, remote.Options{Token: token})
		if err == nil {
			_, err = far.Info(t.Context())
			far.Close()
		}
		if err == nil || strings.Contains(err.Error(), "canary") != sees {
			t.Errorf("with %s: %v", token, err)
		}
	}
	r := httptest.NewRequest("POST", "http://localhost"+api+"/callbacks/show",
		strings.NewReader(`{"token":"x"}`))
	r.Header.Set("Content-Type", "application/json")
	seen := httptest.NewRecorder()
	if s.ServeHTTP(seen, r); strings.Contains(seen.Body.String(), "canary") {
		t.Error(seen.Body)
	}
	if !strings.Contains(log.String(), "canary-host") {
		t.Errorf("the log has not the reason: %s", log.String())
	}
}
