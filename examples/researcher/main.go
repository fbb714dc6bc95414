// Command researcher has an agent that events resume: it asks a model what to do, asks a library by
// an event, and goes on when the answer comes, in whatever process. The model and the library are
// made up, and both fail at times.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/store/sqlite"
)

// A Notebook is the state of one piece of research.
type Notebook struct {
	Question string   `json:"question"`
	Facts    []string `json:"facts"`
}

const mostFacts = 5 // then the agent gives up

// A Model decides what is next: a word to look up, or the answer.
type Model func(ctx context.Context, n Notebook) (word, answer string, err error)

// Researcher returns the agent. Its subject names the piece of research.
func Researcher(ask Model) *orchestrator.Durable {
	return orchestrator.Define(orchestrator.Orchestrator{
		Source: "researcher",
		Versions: []orchestrator.Version{{
			Initial: []string{"question"},
			Handle: func(ctx context.Context, t *orchestrator.Turn) error {
				var n Notebook
				if _, err := t.State(&n); err != nil {
					return err
				}
				var said string
				if err := json.Unmarshal(t.Event.Data, &said); err != nil {
					return err
				}
				if t.Event.Type == "question" {
					n.Question = said
				} else {
					n.Facts = append(n.Facts, said)
				}
				return next(ctx, t, n, ask)
			},
		}},
	})
}

// next asks the model, and then the library or the reader. If the model does not answer, the event
// is handled again later.
func next(ctx context.Context, t *orchestrator.Turn, n Notebook, ask Model) error {
	word, answer, err := ask(ctx, n)
	switch {
	case err != nil:
		return orchestrator.Again(err)
	case answer == "" && len(n.Facts) < mostFacts:
		t.Emit(event.Event{Type: "lookup.wanted", Data: fmt.Appendf(nil, "%q", word)})
		return t.Become(n)
	case answer == "":
		answer = "I do not know"
	}
	t.Answer(event.Event{Type: "answer", Data: fmt.Appendf(nil, "%q", answer)})
	t.Finish()
	return t.Become(n)
}

// Library answers what a word means. It has no state.
func Library(publish func(context.Context, []event.Event) error) *orchestrator.Stateless {
	return &orchestrator.Stateless{
		Source: "library", Publish: publish,
		Versions: []orchestrator.Version{{
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				var word string
				if err := json.Unmarshal(t.Event.Data, &word); err != nil {
					return err
				}
				fact := word + " is a thing of which much is known"
				t.Emit(event.Event{Type: "lookup.done", Data: fmt.Appendf(nil, "%q", fact)})
				return nil
			},
		}},
	}
}

func main() {
	dir := flag.String("dir", ".", "where the runs are kept")
	flag.Parse()
	if err := run(context.Background(), *dir); err != nil {
		log.Fatalln(err)
	}
}

// model looks two words up before it answers, except about the stars. Every other call fails.
func model() Model {
	var mu sync.Mutex
	calls := map[string]int{}
	return func(_ context.Context, n Notebook) (word, answer string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if calls[n.Question]++; calls[n.Question]%2 == 1 {
			return "", "", errors.New("the model is busy")
		}
		if len(n.Facts) >= 2 && n.Question != "stars" {
			return "", fmt.Sprint(n.Question, ", after ", len(n.Facts), " facts"), nil
		}
		return fmt.Sprint(n.Question, " ", len(n.Facts)+1), "", nil
	}
}

func run(ctx context.Context, dir string) error {
	agent, answers := Researcher(model()), make(chan string)
	var engine *perdure.Engine
	var router bus.Router
	library := Library(func(ctx context.Context, events []event.Event) error {
		for _, e := range events {
			if err := router.Handle(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	router = bus.Router{
		{Source: "researcher", Types: []string{"question"},
			On: func(ctx context.Context, e event.Event) error {
				_, err := agent.On(ctx, engine, e)
				return err
			}},
		{Source: "library", Types: []string{"lookup.wanted"}, On: bus.Done(library.On)},
		{Source: "/reader", On: func(_ context.Context, e event.Event) error {
			answers <- e.Subject + ": " + string(e.Data)
			return nil
		}},
	}
	store, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	// The outbox of the store is the bus: an event stays in it until it is handled.
	engine, err = perdure.New(store, perdure.Options{
		Publisher: bus.Relay(router.Handle),
		Logger:    slog.New(slog.DiscardHandler), // each busy model would be a warning
	})
	if err == nil {
		err = engine.Register(agent)
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = engine.Run(ctx) })
	questions := []string{"rivers", "stars", "bread"}
	for _, q := range questions {
		if err := router.Handle(ctx, event.Event{
			ID: q, Source: "/reader", Type: "question", Subject: q, Data: fmt.Appendf(nil, "%q", q),
		}); err != nil {
			return err
		}
	}
	var all []string
	for range questions {
		all = append(all, <-answers)
	}
	slices.Sort(all)
	fmt.Println(strings.Join(all, "\n"))
	return nil
}
