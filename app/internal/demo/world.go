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
	ledgerPath = "/ledger" // tells the name of the ledger
)

// worldSetup is what the supervisor tells the world at its start.
type worldSetup struct {
	Ledger  string   `json:"ledger"`
	Stock   int      `json:"stock"`
	Refused []string `json:"refused"` // orders that the carrier will not take
	Holds   []Target `json:"holds"`   // calls whose answer is held, once each
}

// worldEvent is what the world tells the supervisor.
type worldEvent struct {
	Address string `json:"address,omitempty"` // where it listens
	Held    *Call  `json:"held,omitempty"`    // the answer to this call waits for a verdict
}

// verdict is the supervisor's reply to a held call: whether its caller was
// killed. Only then the hold has served its purpose.
type verdict struct {
	Killed bool `json:"killed"`
}

// answer is what a caller gets.
type answer struct {
	Reference string `json:"reference,omitempty"`
	Refused   string `json:"refused,omitempty"`
	Error     string `json:"error,omitempty"`
}

// A world is a shop's surroundings: its warehouse, its bank, its carrier. An
// effect happens once for each idempotency key, and a repeated key gets the
// first answer.
type world struct {
	mu      sync.Mutex
	ledger  *ledger
	stock   int
	refused map[string]bool
	known   map[string]known // by idempotency key
	holds   map[Target]bool

	holding  chan struct{} // taken by the one call that is held at a time
	out      *json.Encoder // guarded by holding, once the address is told
	verdicts <-chan verdict
	fail     context.CancelCauseFunc // ends the process
}

type known struct {
	target Target
	answer answer
}

// World is the process of the outside world. It listens on a port of its own
// on the loopback interface until ctx or its input ends.
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
		ledger: l, stock: setup.Stock, refused: map[string]bool{}, known: map[string]known{},
		holds: map[Target]bool{}, holding: make(chan struct{}, 1),
	}
	for _, id := range setup.Refused {
		w.refused[id] = true
	}
	for _, t := range setup.Holds {
		w.holds[t] = true
	}
	return w
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
	srv := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }}
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
	_ = json.NewEncoder(rw).Encode(a) // the caller may be dead: that is the point
}

// take does what the call asks for, unless its key has had that before, and
// writes the call down.
func (w *world) take(c *Call) (answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := Target{c.Order, c.Action}
	k, again := w.known[c.Key]
	if !again {
		k = known{target, w.do(c)}
		w.known[c.Key] = k
	}
	if k.target != target {
		k.answer = answer{Refused: "the key belongs to " + string(k.target.Action) + " of " + k.target.Order}
	}
	c.Stock, c.Refused = w.stock, k.answer.Refused
	return k.answer, w.ledger.write(c)
}

// do has the effect.
func (w *world) do(c *Call) answer {
	switch c.Action {
	case Reserve:
		if w.stock < c.Quantity {
			return answer{Refused: "out of stock"}
		}
		w.stock -= c.Quantity
	case Release:
		w.stock += c.Quantity
	case Ship:
		if w.refused[c.Order] {
			return answer{Refused: "the carrier does not go there"}
		}
	case Charge, Refund:
	default:
		return answer{Refused: "no such action"}
	}
	return answer{Reference: string(c.Action) + "-" + c.Order}
}

// hold keeps the caller waiting, where the plan says so, until the supervisor
// has dealt with it. A hold whose caller was not killed stays for the next call.
func (w *world) hold(ctx context.Context, c Call) {
	target := Target{c.Order, c.Action}
	if !w.planned(target) {
		return
	}
	select {
	case w.holding <- struct{}{}:
		defer func() { <-w.holding }()
	case <-ctx.Done():
		return
	}
	if ctx.Err() != nil || !w.planned(target) {
		return
	}
	if err := w.out.Encode(worldEvent{Held: &c}); err != nil {
		return
	}
	if v := <-w.verdicts; v.Killed {
		w.mu.Lock()
		delete(w.holds, target)
		w.mu.Unlock()
	}
}

func (w *world) planned(t Target) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds[t]
}
