package kernel_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// An engine is one process of a story.
type engine struct {
	*kernel.Engine
	name string
	id   journal.EngineID
	tape *tape
	stop context.CancelFunc
	life context.Context // of the process
	die  context.CancelFunc
	done chan error
	dead bool // guarded by the world's mu
}

// A user is an engine or a client that a command calls.
type user struct {
	caller
	*kernel.FrontEnd
	of *engine
}

// A caller has the methods that engines and clients share, beside those of their front ends.
type caller interface {
	Start(context.Context, kernel.Start) (kernel.Started, error)
	Cancel(ctx context.Context, id string, why kernel.Why) error
	Suspend(ctx context.Context, id string, why kernel.Why) error
	Resume(ctx context.Context, id string, why kernel.Why) error
	Wait(context.Context, kernel.Started) (journal.Head, kernel.Outcome, error)
}

// command carries out a command, and returns the result to print below its effects.
func (w *world) command(l line) string {
	name := l.word(1)
	switch l.verb {
	case "store":
		w.db = memory.NewShared(l.time("lease"))
	case "workflow":
		// for engines that are there, and for later engines instead of the old workflow
		w.defined = slices.DeleteFunc(w.defined, func(old line) bool { return old.word(1) == name })
		w.defined = append(w.defined, l)
		for _, e := range w.engines {
			_ = e.Register(define(w, e, l))
		}
	case "engine":
		w.begin(l)
	case "stop":
		return fmt.Sprintf("%s has stopped: %v", name, w.stop(w.engine(name)))
	case "crash":
		w.crash(w.engine(name))
	case "lapse":
		_ = w.db.Lapse(w.engine(name).id)
	case "advance":
		w.settle(duration(name))
	case "next":
		kind := map[string]string{"commit": commits, "claim": claims, "load": loads}[name]
		w.fates[kind+l.opts["by"]] = l.words[1:]
	case "release":
		return w.release(name)
	case "finish":
		return w.finish(name, l.word(2))
	case "observe":
		w.observed[observe.Kind(strings.Join(l.words, " "))] = true
	case "listener":
		w.engine("").Listen(w.listener(w.engine(""), l))
	case "journal":
		return strings.Join(w.journals(store.Filter{WorkflowID: name}), "\n")
	case "live":
		h, _ := w.engine("").Find(w.Context(), name)
		return fmt.Sprintf("%+v", w.engine("").Live(h.Number))
	default:
		w.call(l)
	}
	return ""
}

// call carries out a command on a goroutine of its own, and prints the result when it is known. Its
// option by names the engine, or client; patience is how long it waits.
func (w *world) call(l line) {
	u := w.user(l.opts["by"])
	who := strings.Join(append([]string{l.verb}, l.words...), " ")
	for i, word := range l.words {
		l.words[i] = w.runID(word)
	}
	ctx, cancel := w.Context(), func() {}
	if patience := l.time("patience"); patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, patience)
	}
	go func() {
		defer cancel()
		text, err := u.call(ctx, l)
		if err != nil {
			text = strings.TrimPrefix(err.Error(), "perdure: ")
		}
		w.note(u.of, who, ": "+text)
	}()
}

// runID returns the run ID of run:one, the run that the output calls one; any other word is
// returned as it is.
func (w *world) runID(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	info, _ := w.db.Info(w.Context())
	for n, name := range w.names {
		if word == "run:"+name {
			return string(journal.MakeRunID(info.Database, n))
		}
	}
	return word
}

func (w *world) user(name string) user {
	if name != "client" {
		e := w.engine(name)
		return user{e.Engine, &e.FrontEnd, e}
	}
	of := &engine{name: name, life: w.Context()}
	c, err := kernel.NewClient(w.Context(), &tape{w.db.Beside(), w, of}, kernel.Config{
		Build: "b1", MaxPayload: 1 << 20, SpillOver: 1000,
	})
	if err != nil {
		w.Fatal(err)
	}
	return user{c, &c.FrontEnd, of}
}

func (u user) call(ctx context.Context, l line) (string, error) {
	id, second := l.word(1), l.word(2)
	start := kernel.Start{Workflow: id, ID: second, Input: l.data(3), Dedup: l.time("dedup")}
	signal := kernel.Signal{ID: id, Name: second, Data: l.data(3), Key: l.opts["key"]}
	switch l.verb {
	case "start":
		return started(u.Start(ctx, start))
	case "start-tx", "signal-tx":
		in, err := u.In(ctx, l.verb, &transaction{tape: u.of.tape, atOnce: true})
		if err == nil && l.verb == "start-tx" {
			return started(in.Begin(ctx, start))
		} else if err == nil {
			return delivery(in.Signal(ctx, signal))
		}
		return "", err
	case "signal":
		return delivery(u.Signal(ctx, signal))
	case "signal-with-start":
		start.Input, signal.Name, signal.Data = nil, l.word(3), l.data(4)
		return delivery(u.SignalWithStart(ctx, signal, start))
	case "cancel":
		return "done", u.Cancel(ctx, id, kernel.Why{Reason: "enough"})
	case "terminate":
		return "done", u.Cancel(ctx, id, kernel.Why{
			By: "ada", Reason: "enough", Mode: journal.ActionTerminate,
		})
	case "suspend":
		return "done", u.Suspend(ctx, id, kernel.Why{
			By: l.opts["who"], Reason: cmp.Or(second, "a break"),
		})
	case "resume":
		return "done", u.Resume(ctx, id, kernel.Why{By: l.opts["who"], Reason: second})
	case "cancel-timer":
		return "done", u.CancelTimer(ctx, id, second, "not needed")
	case "decide":
		return "done", u.Decide(ctx, id, second, kernel.Decided{Choice: l.word(3)})
	case "retry", "skip", "fork":
		return started(u.GoOn(ctx, id, kernel.Request{
			Continuation: journal.Continuation{
				Action: journal.Action(l.verb), Step: second, Output: l.data(3),
				By: l.opts["who"], Reason: l.opts["why"],
			},
			NewInput: l.opts["input"] != "", Input: []byte(l.opts["input"]),
		}))
	case "deliver":
		n, _ := strconv.ParseInt(id, 10, 64)
		return delivery(u.Deliver(ctx, n, second))
	case "unread":
		messages, err := u.Unread(ctx, id, 0, 0)
		text := ""
		for _, m := range kernel.Signals(messages) {
			text += fmt.Sprintf("%d %s=%s ", m.Seq, m.Op.Name, m.Data)
		}
		return strings.TrimSpace(text), err
	case "await":
		h, err := u.Find(ctx, id)
		if err != nil {
			return "", err
		}
		h, out, err := u.Wait(ctx, kernel.Started{Head: h})
		text, failed := seen(out, err)
		return fmt.Sprintf("%s is %s, %s, %v", h.ID, h.Status, text, failed), err
	case "purge":
		runs, messages, err := u.of.Purge(ctx)
		return fmt.Sprint("runs ", runs, ", messages ", messages), err
	}
	return "", errors.New("there is no such command")
}

func started(s kernel.Started, err error) (string, error) {
	if s.New { // whose status changes meanwhile
		return "new", err
	}
	return "is there, " + s.Head.Status.String(), err
}

func delivery(d kernel.Delivery, err error) (string, error) {
	switch {
	case d.Unrouted:
		return fmt.Sprint("unrouted, as ", d.Number), err
	case d.NotDelivered:
		return "not delivered", err
	case d.Duplicate:
		return fmt.Sprint("duplicate, ", d.RunID, " has it as ", d.Number), err
	case d.New:
		return fmt.Sprint("new, ", d.RunID, " has it as ", d.Number), err
	}
	return fmt.Sprint(d.RunID, " has it as ", d.Number), err
}

// engine returns the engine of a name; the last one for an empty name.
func (w *world) engine(name string) *engine {
	for _, e := range slices.Backward(w.engines) {
		if name == "" || e.name == name {
			return e
		}
	}
	w.Fatalf("there is no engine %q", name)
	return nil
}

// begin begins an engine, which knows the workflows that are defined.
func (w *world) begin(l line) {
	e := &engine{name: l.word(1), done: make(chan error, 1)}
	e.life, e.die = context.WithCancel(context.Background())
	e.tape = &tape{w.db.Beside(), w, e}
	see := func(n observe.Notice) {
		if w.observed[n.Kind] {
			text := strings.Join([]string{"", n.WorkflowID, n.Step, n.Err + n.Reason}, " ")
			w.note(e, "notice: "+string(n.Kind), strings.TrimRight(text, " "))
		}
	}
	e.Engine = kernel.New(e.tape, kernel.Config{
		Build: fmt.Sprint("b", l.number("build", 1)), Failure: failureOf,
		KeepDeadLettered: time.Hour,
		Self:             store.Engine{Host: "here", Since: w.began},
		Observers:        observe.NewSet([]observe.Observer{{See: see}}),
		Capacity:         l.number("capacity", 100), Drain: max(l.time("drain"), time.Second),
		MaxPayload: l.number("payload", 1<<20), SpillOver: l.number("spill", 1000),
		MaxPending: l.number("pending", 1<<20), MaxCrashes: l.number("crashes", 8),
		MaxLoaded:   1 << 20,
		IdleTimeout: l.time("idle"), Sweep: max(l.time("sweep"), -1), KeepPosts: l.time("keep"),
	})
	for _, def := range w.defined {
		_ = e.Register(define(w, e, def))
	}
	if l.says("subscribes") {
		e.Subscribe(w.subscriber(e))
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	w.engines = append(w.engines, e)
	go func() { e.done <- e.Run(ctx) }()
}

// stop stops an engine in good order, and closes its store.
func (w *world) stop(e *engine) error {
	e.stop()
	for wait := time.Duration(0); ; wait = time.Second {
		w.settle(wait)
		select {
		case err := <-e.done:
			at := slices.Index(w.engines, e)
			w.engines = slices.Delete(slices.Clone(w.engines), at, at+1)
			e.tape.Close()
			return err
		default:
		}
	}
}

// crash ends an engine as the death of its process would: from then on nobody sees what it does.
func (w *world) crash(e *engine) {
	e.tape.Close()
	w.mu.Lock()
	e.dead = true
	for _, g := range w.gates {
		g.held = g.held && g.of != e
	}
	w.mu.Unlock()
	e.die()
	w.settle(0)
	_ = w.stop(e)
}

// release lets a commit or claim that is held go on, to another fate if one is named.
func (w *world) release(fate string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first *gate
	for _, g := range w.gates {
		if g.held && (first == nil || g.order < first.order) {
			first = g
		}
	}
	if first == nil {
		return "nothing is held"
	}
	first.held, first.fate = false, fate
	return ""
}

// finish ends a body that holds, with a failure if one is named.
func (w *world) finish(name, how string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[name] == nil {
		return "nothing of that name holds"
	}
	w.held[name] <- how
	delete(w.held, name)
	return ""
}

// listener returns a listener of ends. It fails as often as its line asks for.
func (w *world) listener(of *engine, l line) *kernel.Listener {
	fails := l.number("fails", 0)
	return kernel.NewListener("", nil, func(_ context.Context, e kernel.End) error {
		what := fmt.Sprintf("%s is %s = %s", e.Head.WorkflowID, e.Head.Status, e.Outcome.Data)
		text := l.word(1) + " hears that " + what
		if _, lives := w.pass(of, listeners, text); !lives {
			return context.Canceled
		}
		if fails--; fails >= 0 {
			return errors.New("the broker is down")
		}
		return nil
	})
}

// subscriber returns a subscriber of events. It returns an error for the first delivery of an event
// of the type refused.
func (w *world) subscriber(of *engine) func(context.Context, kernel.Event) error {
	known := false
	return func(_ context.Context, e kernel.Event) error {
		text := fmt.Sprintf("the subscriber hears of %s, ID %s = %s", e.Type, e.ID, e.Data)
		if _, lives := w.pass(of, listeners, text); !lives {
			return context.Canceled
		}
		if e.Type == "refused" && !known {
			known = true
			return errors.New("the broker is down")
		}
		return nil
	}
}
