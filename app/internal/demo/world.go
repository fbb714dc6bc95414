package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

const (
	callPath   = "/calls"  // takes calls
	ledgerPath = "/ledger" // returns the name of the ledger
)

// A worldSetup is the message that the world gets at its start.
type worldSetup struct {
	Ledger   string    `json:"ledger"`
	Stock    int64     `json:"stock"`
	Accounts []Account `json:"accounts"`
	Holds    []Target  `json:"holds"` // calls whose answer is held, once for each
}

// A worldEvent is a message of the world to the supervisor.
type worldEvent struct {
	Address string `json:"address,omitempty"` // address that it listens on
	Held    *Call  `json:"held,omitempty"`    // the answer to this call waits for a verdict
}

// A verdict is the supervisor's reply to a held call. Killed reports whether the caller was
// killed or paused. If not, the hold stays planned.
type verdict struct {
	Killed bool `json:"killed"`
}

// An answer is the answer to a call.
type answer struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Refused string          `json:"refused,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// A service executes calls.
type service interface {
	do(Call) (value any, refused string)
	left(Call) int64 // stock, balance or tokens
}

// A world is the surroundings of the workflows: a shop, a bank, services, an archive and a
// model. An effect happens once for each idempotency key. A repeated key gets the first
// answer.
type world struct {
	mu       sync.Mutex
	ledger   *ledger
	services map[Action]service
	known    map[string]known // by idempotency key
	holds    map[Target]bool

	holding  chan struct{} // taken by the one call that is held at a time
	out      *json.Encoder // guarded by holding, after the address was sent
	verdicts <-chan verdict
	fail     context.CancelCauseFunc // ends the process
}

type known struct {
	target Target
	answer answer
}

// World is the process of the outside world. It listens on a free port of the loopback
// interface until ctx or its input ends.
func World(ctx context.Context, in io.Reader, out io.Writer) error {
	orders := json.NewDecoder(in)
	var setup worldSetup
	if err := orders.Decode(&setup); err != nil {
		return notByHand(WorldCommand, err)
	}
	l, err := newLedger(setup.Ledger)
	if err != nil {
		return err
	}
	defer l.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	verdicts := make(chan verdict)
	go func() {
		defer cancel(nil)
		for {
			var v verdict
			if orders.Decode(&v) != nil {
				return
			}
			select {
			case verdicts <- v:
			case <-ctx.Done():
				return
			}
		}
	}()
	w := newWorld(setup, l)
	w.out, w.verdicts, w.fail = json.NewEncoder(out), verdicts, cancel
	return w.serve(ctx)
}

func newWorld(setup worldSetup, l *ledger) *world {
	w := &world{
		ledger: l, services: services(setup), known: map[string]known{},
		holds: map[Target]bool{}, holding: make(chan struct{}, 1),
	}
	for _, t := range setup.Holds {
		w.holds[t] = true
	}
	return w
}

// services returns the service of each action.
func services(setup worldSetup) map[Action]service {
	who := map[Action]service{}
	for s, actions := range map[service][]Action{
		&shop{setup.Stock}:      {Reserve, Charge, Ship, Refund, Release},
		newBank(setup.Accounts): {Hold, Announce, Take, Give, GiveBack, Recall},
		willing{}:               {Ask, Pay, Tell, Write},
		archive{}:               {Sales, Returns, Stock},
		&model{}:                {Think, Search, Track, Weather},
	} {
		for _, a := range actions {
			who[a] = s
		}
	}
	return who
}

func (w *world) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := w.out.Encode(worldEvent{Address: l.Addr().String()}); err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+callPath, w.handle)
	mux.HandleFunc("GET "+ledgerPath, func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, w.ledger.path)
	})
	srv := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context {
		return ctx
	}}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func (w *world) handle(rw http.ResponseWriter, r *http.Request) {
	var c Call
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		reply(rw, http.StatusBadRequest, answer{Error: err.Error()})
		return
	}
	a, err := w.take(&c)
	if err != nil {
		w.fail(fmt.Errorf("the ledger cannot be written: %w", err))
		reply(rw, http.StatusInternalServerError, answer{Error: err.Error()})
		return
	}
	w.hold(r.Context(), c)
	reply(rw, http.StatusOK, a)
}

func reply(rw http.ResponseWriter, status int, a answer) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(a) // the caller may be dead, which is the purpose of the demo
}

// take executes the call, unless its key was used before, and writes the call to the
// ledger.
func (w *world) take(c *Call) (answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.services[c.Action()]
	if s == nil {
		s = nobody{}
	}
	k, again := w.known[c.Key]
	if !again {
		value, refused := s.do(*c)
		data, err := json.Marshal(value)
		if err != nil {
			return answer{}, err
		}
		k = known{c.Target, answer{Value: data, Refused: refused}}
		w.known[c.Key] = k
	}
	if k.target != c.Target {
		k.answer = answer{Refused: "the key belongs to " + k.target.String()}
	}
	c.Left, c.Refused = s.left(*c), k.answer.Refused
	return k.answer, w.ledger.write(c)
}

// hold holds the answer to a planned call until the supervisor has replied. If the caller
// was not killed or paused, the hold stays for the next call.
func (w *world) hold(ctx context.Context, c Call) {
	if !w.planned(c.Target) {
		return
	}
	select {
	case w.holding <- struct{}{}:
		defer func() { <-w.holding }()
	case <-ctx.Done():
		return
	}
	if ctx.Err() != nil || !w.planned(c.Target) {
		return
	}
	if err := w.out.Encode(worldEvent{Held: &c}); err != nil {
		return
	}
	if v := <-w.verdicts; v.Killed {
		w.mu.Lock()
		delete(w.holds, c.Target)
		w.mu.Unlock()
	}
}

func (w *world) planned(t Target) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds[t]
}
