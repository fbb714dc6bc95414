package memorytest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// RunOrder checks that an orchestrator over a memory neither loses nor doubles an event, wherever
// its process dies: before and after each of its calls. open returns a memory of one new place,
// each time as another process would have it. The check lasts some seconds, since locks have to
// pass.
func RunOrder(t *testing.T, open func() orchestrator.Memory[orchestrator.Record]) {
	var all sync.WaitGroup
	for n := 1; n <= mostCalls; n++ {
		for _, after := range []bool{false, true} {
			for _, events := range [][]string{
				{"begin", "add", "end"}, {"begin", "add", "begin", "end", "end", "late"},
			} {
				all.Go(func() {
					s := story{
						open: open, events: events, dies: n, after: after,
						subject: fmt.Sprint(n, " ", after, " ", len(events)),
					}
					if err := s.check(t.Context()); err != nil {
						t.Errorf("%q, death at call %d, after it: %v: %v", events, n, after, err)
					}
				})
			}
		}
	}
	all.Wait()
}

// mostCalls is more than an orchestrator makes for the events of a story.
const mostCalls = 28

var errDeath = errors.New("the process has died")

// A story is the life of one instance, whose first process dies at a call.
type story struct {
	open    func() orchestrator.Memory[orchestrator.Record]
	events  []string // types, which are the IDs, too
	subject string
	dies    int
	after   bool // when the call has had its effect
	outside []event.Event
}

// check delivers the events of the story, each until it is acknowledged.
func (s *story) check(ctx context.Context) error {
	p := &dying{Memory: s.open(), story: s, left: s.dies}
	for _, id := range s.events {
		for tries := 0; ; tries++ {
			_, err := p.orchestrator().On(ctx, event.Event{
				ID: id, Source: "/test", Type: id, Subject: s.subject,
			})
			if err == nil {
				break
			}
			if failed := (*orchestrator.TransactionError)(nil); !errors.As(err, &failed) ||
				tries == 100 {
				return fmt.Errorf("event %s: %w", id, err)
			}
			if p.dead {
				p = &dying{Memory: s.open(), story: s, left: -1}
			}
			// until the lock of the dead process has passed
		}
	}
	seen, heard := map[string]bool{}, []string(nil)
	for _, e := range s.outside {
		if !seen[e.ID] {
			seen[e.ID] = true
			heard = append(heard, string(e.Data))
		}
	}
	want := []string{`"begin"`, `"begin add"`, `"begin add end"`}
	if !slices.Equal(heard, want) {
		return fmt.Errorf("a consumer hears %q, and should hear %q", heard, want)
	}
	return nil
}

// A dying is a process with a memory. It dies at a call; below zero, it lives.
type dying struct {
	orchestrator.Memory[orchestrator.Record]
	story *story
	left  int
	dead  bool
}

// orchestrator returns the orchestrator of the process, which tells the types of its events.
func (p *dying) orchestrator() *orchestrator.Orchestrator {
	return &orchestrator.Orchestrator{
		Source: "/order", Memory: p, TTL: time.Second, Log: slog.New(slog.DiscardHandler),
		Versions: []orchestrator.Version{{Initial: []string{"begin"},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				var all []string
				if _, err := t.State(&all); err != nil {
					return err
				}
				all = append(all, t.Event.Type)
				t.Emit(event.Event{
					Type: "told", Data: fmt.Appendf(nil, "%q", strings.Join(all, " ")),
				})
				if t.Event.Type == "end" {
					t.Finish()
				}
				return t.Become(all)
			}}},
		Publish: func(_ context.Context, events []event.Event) error {
			return p.reach(func() error {
				p.story.outside = append(p.story.outside, events...)
				return nil
			})
		},
	}
}

// reach makes a call, unless the process has died or dies before it.
func (p *dying) reach(call func() error) error {
	p.left--
	if p.dead || p.left == 0 && !p.story.after {
		p.dead = true
		return errDeath
	}
	err := call()
	if p.left == 0 {
		p.dead = true
		return errDeath
	}
	return err
}

// Read reads, or dies.
func (p *dying) Read(ctx context.Context, subject string, m *orchestrator.Metadata) (
	s *orchestrator.State[orchestrator.Record], err error) {
	err = p.reach(func() (err error) { s, err = p.Memory.Read(ctx, subject, m); return err })
	return s, err
}

// Write writes, or dies.
func (p *dying) Write(ctx context.Context, subject string,
	c orchestrator.Change[orchestrator.Record], m *orchestrator.Metadata) error {
	return p.reach(func() error { return p.Memory.Write(ctx, subject, c, m) })
}

// Lock takes a lock, or dies.
func (p *dying) Lock(ctx context.Context, subject string, ttl time.Duration,
	m *orchestrator.Metadata) (t orchestrator.Token, err error) {
	err = p.reach(func() (err error) { t, err = p.Memory.Lock(ctx, subject, ttl, m); return err })
	return t, err
}

// Unlock frees a lock, or dies.
func (p *dying) Unlock(ctx context.Context, subject string, t orchestrator.Token,
	m *orchestrator.Metadata) (ok bool, err error) {
	err = p.reach(func() (err error) { ok, err = p.Memory.Unlock(ctx, subject, t, m); return err })
	return ok, err
}
