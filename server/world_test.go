package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A world is a server with an engine, as a caller sees it.
type world struct {
	t      *testing.T
	engine *perdure.Engine
	server *server.Server
	http   *httptest.Server // nil for none
	pipes  *pipes           // instead of http
	doc    *document
	store  store.Store
	cookie *http.Cookie // of the next requests; nil for none

	handling atomic.Int64 // requests that are answered now
	token    string       // of the next requests
}

var greet = perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
	return perdure.Step(ctx, "write", func(context.Context) (string, error) {
		return "Hello, " + name, nil
	})
})

var goAhead = perdure.NewSignal[string]("go")

var waiting = perdure.Define("waiting", func(ctx context.Context, _ json.RawMessage) (string,
	error) {
	return goAhead.Wait(ctx)
})

var failing = perdure.Define("failing", func(ctx context.Context, _ json.RawMessage) (string,
	error) {
	return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
		return "", perdure.Permanent(io.ErrUnexpectedEOF)
	})
}, deadletter.Automatic(true))

var sleeping = perdure.Define("sleeping", func(ctx context.Context, _ json.RawMessage) (string,
	error) {
	_, err := perdure.Timer(ctx, "nap", time.Hour).Await(ctx)
	return "awake", err
})

var asking = perdure.Define("asking", func(ctx context.Context, _ json.RawMessage) (bool, error) {
	out, err := approval.Wait(ctx, approval.Ask{Key: "pay", Role: "manager"})
	return out.Status == approval.Approved, err
})

// echo shows its input in each way that a run has.
var echo = perdure.Define("echo", func(ctx context.Context, in json.RawMessage) (json.RawMessage,
	error) {
	if err := perdure.Publish(ctx, "card", string(in)); err != nil {
		return nil, err
	}
	if err := perdure.Publish(ctx, "seen", in); err != nil {
		return nil, err
	}
	return perdure.Step(ctx, "repeat", func(context.Context) (json.RawMessage, error) {
		return in, nil
	})
})

var counting = perdure.Define("counting", func(ctx context.Context, n int) (int, error) {
	if _, err := goAhead.Wait(ctx); err != nil {
		return 0, err
	}
	for i := range n {
		if err := perdure.Do(ctx, "count", func(context.Context) error { return nil }); err != nil {
			return i, err
		}
	}
	return n, nil
})

var parking = perdure.Define("parking", func(ctx context.Context, _ json.RawMessage) (string,
	error) {
	d, err := perdure.Park(ctx, "which", "the address is not clear", "yes", "no")
	return d.Choice, err
})

// paying waits for a callback, and gives its token to tokens.
func paying(tokens chan<- string) perdure.Definition {
	return perdure.Define("paying", func(ctx context.Context, _ json.RawMessage) (json.RawMessage,
		error) {
		w, err := callback.New[json.RawMessage](ctx, "card", perdure.Within(time.Hour))
		if err != nil {
			return nil, err
		}
		if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
			token, err := w.Token(ctx)
			tokens <- token
			return err
		}); err != nil {
			return nil, err
		}
		return w.Await(ctx)
	})
}

var trip = saga.New[string]("trip")

func init() {
	saga.Add(trip, "book", func(context.Context, string) (string, error) {
		return "ok", nil
	}).Undo(func(context.Context, string, string) error { return nil })
}

// A setting is the set of options of a world. The zero value is the usual one.
type setting struct {
	server.Options
	db     store.Store        // nil for one in memory
	tokens chan string        // gets the tokens of paying
	more   perdure.Definition // a workflow more; nil for none
	piped  bool               // over pipes instead of TCP, for bubbles
}

// begin begins a server on an engine in memory.
func begin(t *testing.T, o server.Options) *world { return open(t, setting{Options: o}) }

// open begins a server on an engine.
func open(t *testing.T, s setting) *world {
	t.Helper()
	if s.db == nil {
		s.db = memory.New()
	}
	if s.tokens == nil {
		s.tokens = make(chan string, 10)
	}
	if s.Feed == nil {
		s.Feed = &server.Feed{}
	}
	s.Summary = observe.NewSummary()
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	engine, err := perdure.New(s.db, perdure.Options{
		Observers: []observe.Observer{s.Feed.Observer(), s.Summary.Observer()},
		Logger:    s.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Register(greet, waiting, failing, sleeping, asking, parking, counting, echo,
		paying(s.tokens), trip, schedule.Workflow(), batch.Workflow(),
		alert.Workflow(alert.Options{})); err != nil {
		t.Fatal(err)
	}
	if s.more != nil {
		if err := engine.Register(s.more); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	w := &world{t: t, engine: engine, store: s.db}
	if w.server, err = server.New(engine, s.db, s.Options); err != nil {
		t.Fatal(err)
	}
	if s.piped {
		w.pipes = newPipes(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
			w.handling.Add(1)
			defer w.handling.Add(-1)
			w.server.ServeHTTP(answer, r)
		}))
	} else {
		w.http = httptest.NewUnstartedServer(w.server)
		w.http.Config = server.HTTPServer(w.server)
		w.http.Start()
	}
	t.Cleanup(func() {
		if w.http != nil {
			w.http.CloseClientConnections()
			w.http.Close()
		}
		if w.pipes != nil {
			w.pipes.close()
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = s.db.Close()
	})
	w.doc = documentOf(t, w.server)
	return w
}

const api = "/api/orchestration"

// url returns the address of the server.
func (w *world) url() string {
	if w.pipes != nil {
		return "http://localhost"
	}
	return w.http.URL
}

// client returns a client of the server.
func (w *world) client() *http.Client {
	if w.pipes != nil {
		return w.pipes.client
	}
	return w.http.Client()
}

// ask sends a request, and returns the status and the body of the answer. The answer must be as
// the document of the API says.
func (w *world) ask(method, path, body string, headers ...string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.cookie != nil {
		r.AddCookie(w.cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := w.client().Transport.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.doc.check(w.t, w.server.Pattern(r), answer, text)
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := answer.Header.Get(name); got != want && strings.HasPrefix(path, "/api/") &&
			answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge { // it did not get here
			w.t.Errorf("%s %s: %s is %q, want %q", method, path, name, got, want)
		}
	}
	return answer.StatusCode, string(text)
}

// want sends a request, compares the status, and returns the answer as a map.
func (w *world) want(status int, method, path, body string, headers ...string) map[string]any {
	w.t.Helper()
	got, text := w.ask(method, path, body, headers...)
	if got != status {
		w.t.Errorf("%s %s %s: status %d, want %d: %s", method, path, body, got, status, text)
	}
	var out map[string]any
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := d.Decode(&out); err != nil && text != "" {
		w.t.Errorf("%s %s: %v in %q", method, path, err, text)
	}
	return out
}

// ready waits until the engine runs, which begins beside the server.
func (w *world) ready() {
	w.t.Helper()
	for status := 0; status != 200 && w.t.Context().Err() == nil; {
		status, _ = w.ask("GET", "/readyz", "")
	}
}

// start starts a run, and returns its run ID.
func (w *world) start(workflow, body string) string {
	w.t.Helper()
	out := w.want(201, "POST", api+"/workflows/"+workflow+"/start", body)
	id, _ := out["run_id"].(string)
	return id
}

// ended waits for the end of a run, and returns the answer.
func (w *world) ended(id string) map[string]any {
	w.t.Helper()
	return w.want(200, "GET", api+"/executions/"+id+"/result?wait=1m", "")
}
