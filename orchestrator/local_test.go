package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/memorytest"
)

type (
	value = memorytest.Value
	state = orchestrator.State[value]
	token = orchestrator.Token
)

// in checks a clause in virtual time.
func in(t *testing.T, c memorytest.Case, open func() orchestrator.Memory[value]) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		err = c.Check(t.Context(), memorytest.World{Open: open})
	})
	return err
}

// spec
func TestALocalMemoryKeepsTheContract(t *testing.T) {
	for _, c := range memorytest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			m := &orchestrator.Local[value]{}
			if err := in(t, c, func() orchestrator.Memory[value] { return m }); err != nil {
				t.Error(err)
			}
			again := &orchestrator.Local[value]{}
			insists := func() orchestrator.Memory[value] { return orchestrator.Insist(again) }
			err := in(t, c, insists) // an Unlock that insists returns no error
			if err != nil && c.Name != "a call whose context has ended fails" {
				t.Errorf("the one that insists: %v", err)
			}
		})
	}
}

// A broken is a memory with a mistake.
type broken struct {
	orchestrator.Memory[value]
	read   func(*state) *state
	write  func(*orchestrator.Change[value])
	lock   func(token, time.Duration) (token, time.Duration)
	unlock func(token) token
	name   func(string) string
	calls  func(context.Context) context.Context
}

func (b broken) Read(ctx context.Context, subject string, m *orchestrator.Metadata) (
	*state, error) {
	s, err := b.Memory.Read(b.calls(ctx), b.name(subject), m)
	return b.read(s), err
}

func (b broken) Write(ctx context.Context, subject string, c orchestrator.Change[value],
	m *orchestrator.Metadata) error {
	b.write(&c)
	return b.Memory.Write(b.calls(ctx), b.name(subject), c, m)
}

func (b broken) Lock(ctx context.Context, subject string, ttl time.Duration,
	m *orchestrator.Metadata) (token, error) {
	_, ttl = b.lock(0, ttl)
	t, err := b.Memory.Lock(b.calls(ctx), b.name(subject), ttl, m)
	t, _ = b.lock(t, 0)
	return t, err
}

func (b broken) Unlock(ctx context.Context, subject string, t token,
	m *orchestrator.Metadata) (bool, error) {
	return b.Memory.Unlock(b.calls(ctx), b.name(subject), b.unlock(t), m)
}

// spec: A-15
func TestTheSuiteFindsBrokenMemories(t *testing.T) {
	last := token(0)
	for name, breaks := range map[string]func(b *broken){
		"reads nothing": func(b *broken) {
			b.read = func(*state) *state { return nil }
		},
		"reads the version before": func(b *broken) {
			b.read = func(s *state) *state {
				if s != nil {
					s.Version--
				}
				return s
			}
		},
		"forgets the tags": func(b *broken) {
			b.write = func(c *orchestrator.Change[value]) { c.Next.Tags = nil }
		},
		"cuts what is large": func(b *broken) {
			b.write = func(c *orchestrator.Change[value]) {
				c.Next.Text = c.Next.Text[:min(len(c.Next.Text), 65535)]
			}
		},
		"uses any token for the last one": func(b *broken) {
			b.write = func(c *orchestrator.Change[value]) { c.Lock = max(c.Lock, last) }
			b.lock = func(t token, d time.Duration) (token, time.Duration) {
				last = max(last, t)
				return t, d
			}
		},
		"gives a token while it is held": func(b *broken) {
			b.lock = func(t token, d time.Duration) (token, time.Duration) {
				return max(t, 1), d
			}
		},
		"never lets a lock pass": func(b *broken) {
			b.lock = func(t token, d time.Duration) (token, time.Duration) {
				return t, 1000 * d
			}
		},
		"lets a lock pass too early": func(b *broken) {
			b.lock = func(t token, d time.Duration) (token, time.Duration) {
				return t, d / 1000
			}
		},
		"frees the lock of others": func(b *broken) {
			b.lock = func(t token, d time.Duration) (token, time.Duration) {
				last = max(last, t)
				return t, d
			}
			b.unlock = func(token) token { return last }
		},
		"frees nothing": func(b *broken) {
			b.unlock = func(token) token { return 0 }
		},
		"has one subject": func(b *broken) { b.name = func(string) string { return "x" } },
		"folds case": func(b *broken) {
			b.name = func(s string) string { return fmt.Sprintf("%.1s", s+"a") }
		},
		"goes on after the end of a context": func(b *broken) { b.calls = context.WithoutCancel },
	} {
		t.Run(name, func(t *testing.T) {
			var found error
			for _, c := range memorytest.Cases() {
				last = 0
				b := broken{
					&orchestrator.Local[value]{},
					func(s *state) *state { return s },
					func(*orchestrator.Change[value]) {},
					func(t token, d time.Duration) (token, time.Duration) {
						return t, d
					},
					func(t token) token { return t },
					func(s string) string { return s },
					func(ctx context.Context) context.Context { return ctx },
				}
				breaks(&b)
				if c.Name == many {
					continue // its calls are parallel, and these mistakes are not for that
				}
				found = errors.Join(found, in(t, c, func() orchestrator.Memory[value] { return b }))
			}
			if found == nil {
				t.Error("the suite finds nothing")
			}
		})
	}
}

// spec: A-9
func TestNoEventIsLostOrDoubledWhereverAProcessDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &orchestrator.Local[orchestrator.Record]{}
		memorytest.RunOrder(t, func() orchestrator.Memory[orchestrator.Record] { return m })
	})
}
