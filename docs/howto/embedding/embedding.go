// Package howto is the code of the page about embedding in a server.
package howto

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An Order is the order of a customer. Money is in cents.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// Fulfil is the workflow.
var Fulfil = perdure.Define("fulfil", func(ctx context.Context, o Order) (string, error) {
	return perdure.Step(ctx, "ship", func(context.Context) (string, error) {
		return "t-" + o.ID, nil
	})
})

// A Server is the application's own: it starts runs and shows them.
type Server struct{ engine *perdure.Engine }

// Handler has the routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.start)
	mux.HandleFunc("GET /orders/{id}", s.show)
	return mux
}

// start answers when the run is durable. A client that repeats the request gets the same run.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run, err := Fulfil.Start(r.Context(), s.engine, o, perdure.ID(o.ID))
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return
	}
	w.Header().Set("Location", "/orders/"+run.ID())
	w.WriteHeader(http.StatusAccepted)
}

// show answers with the status of the run, its result when it has one, and its waits.
func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	all, err := s.engine.Statuses(r.Context(), r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return
	}
	if !all[0].Found {
		http.NotFound(w, r)
		return
	}
	d, err := s.engine.Describe(r.Context(), r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"status": all[0].Head.Status.String(), "result": all[0].Output,
		"waits": api.DescriptionOf(d.Head, d.State).Waits, // what it waits for, and until when
	})
}

// codeOf is the HTTP status for an error of the engine.
func codeOf(err error) int {
	var e *perdure.Error
	if !errors.As(err, &e) {
		return http.StatusInternalServerError
	}
	switch e.Code {
	case perdure.CodeInvalid:
		return http.StatusBadRequest
	case perdure.CodeNotFound:
		return http.StatusNotFound
	case perdure.CodeWrongState, journal.CodeConflict:
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// Serve runs the engine and the HTTP server until ctx ends. It stops accepting requests
// first, and then lets steps in flight end.
func Serve(ctx context.Context, l net.Listener, db store.Store, log *slog.Logger) error {
	engine, err := perdure.New(db, perdure.Options{Logger: log, Drain: 20 * time.Second})
	if err != nil {
		return err
	}
	if err := engine.Register(Fulfil); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx) // it ends with ctx, or with the engine
	defer stop()
	running, end := context.WithCancel(context.WithoutCancel(ctx)) // it ends after the server
	defer end()
	ran := make(chan error, 1)
	go func() { ran <- engine.Run(running); stop() }()

	server := &http.Server{Handler: (&Server{engine}).Handler()}
	shut := make(chan error, 1)
	go func() {
		<-serving.Done()
		last, cancel := context.WithTimeout(running, 10*time.Second)
		defer cancel()
		shut <- server.Shutdown(last)
	}()
	err = server.Serve(l)
	stop()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	err = errors.Join(err, <-shut)
	end()
	return errors.Join(err, <-ran)
}
