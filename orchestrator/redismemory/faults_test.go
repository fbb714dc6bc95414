package redismemory_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testserver"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/redismemory"
)

// A way is a dialer through a proxy, and after the switch past it.
type way struct {
	proxy *faultproxy.Proxy
	past  atomic.Bool
	addr  string
}

func newWay(t *testing.T, s *testserver.Server) *way {
	return &way{proxy: faultproxy.New(t, s.Addr()), addr: s.Addr()}
}

func (w *way) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	addr := w.addr
	if !w.past.Load() {
		addr = w.proxy.Addr()
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// lose makes a call. The server executes it, and the connection is cut instead of the answer. The
// next connection works.
func (w *way) lose(call func() error) error {
	w.past.Store(true)
	w.proxy.CutAfter(faultproxy.ToClient, 0)
	defer w.proxy.Heal()
	return call()
}

// These call a memory and lose the answer. Each call was made before, so that the server knows its
// script.
var lost = map[string]func(t *testing.T, m *memory, w *way) error{
	"write": func(t *testing.T, m *memory, w *way) error {
		token := holds(t, m, "a")
		if err := m.Write(t.Context(), "a", change{Lock: token}, nil); err != nil {
			t.Fatal(err)
		}
		c := change{Next: value{Text: "two"}, Prev: &state{Version: 1}, Lock: token}
		err := w.lose(func() error { return m.Write(t.Context(), "a", c, nil) })
		is(t, m, "a", "two", 2)
		return err
	},
	"lock": func(t *testing.T, m *memory, w *way) error {
		holds(t, m, "b")
		err := w.lose(func() error {
			_, err := m.Lock(t.Context(), "a", time.Hour, nil)
			return err
		})
		if again, err := m.Lock(t.Context(), "a", time.Hour, nil); again != 0 || err != nil {
			t.Errorf("the lock is free: token %d, %v", again, err)
		}
		return err
	},
	"unlock": func(t *testing.T, m *memory, w *way) error {
		token := holds(t, m, "a")
		if freed, err := m.Unlock(t.Context(), "a", token-1, nil); freed || err != nil {
			t.Fatal(freed, err)
		}
		err := w.lose(func() error {
			_, err := m.Unlock(t.Context(), "a", token, nil)
			return err
		})
		holds(t, m, "a")
		return err
	},
	"read": func(t *testing.T, m *memory, w *way) error {
		if s, err := m.Read(t.Context(), "a", nil); s != nil || err != nil {
			t.Fatal(s, err)
		}
		return w.lose(func() error {
			_, err := m.Read(t.Context(), "a", nil)
			return err
		})
	},
}

// A client with its usual settings tries again, and gets through here.
//
// spec
func TestACallWhoseAnswerIsLostHasItsEffectAndIsNotSentAgain(t *testing.T) {
	single, many := testserver.Redis(t), cluster(t)
	for name, lose := range lost {
		for s, open := range map[*testserver.Server]func(t *testing.T, w *way) *memory{
			single: func(t *testing.T, w *way) *memory {
				return open(client(t, redis.Options{Dialer: w.dial}))
			},
			many: func(t *testing.T, w *way) *memory {
				return open(toCluster(t, redis.ClusterOptions{
					Addrs: []string{many.Addr()}, Dialer: w.dial,
				}))
			},
		} {
			t.Run(fmt.Sprintf("%s, cluster %v", name, s == many), func(t *testing.T) {
				if err := to(t, s).FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				w := newWay(t, s)
				err := lose(t, open(t, w), w)
				if err == nil || errors.Is(err, orchestrator.ErrConflict) {
					t.Errorf("the error of a call without an answer is %v", err)
				}
				if w.proxy.Hits() == 0 {
					t.Error("no connection was cut")
				}
			})
		}
	}
}

// spec
func TestACallEndsWithItsContextIfNoAnswerComes(t *testing.T) {
	s := testserver.Redis(t)
	w := newWay(t, s)
	c := client(t, redis.Options{Dialer: w.dial})
	m := open(c)
	held := holds(t, m, "a")
	for name, fault := range map[string]struct{ begin, end func() }{
		"a server that hangs":             {s.Pause, s.Resume},
		"a network that swallows":         {w.proxy.Blackhole, w.proxy.Heal},
		"a network that delays an answer": {w.holdBack, w.proxy.Heal},
	} {
		for what, call := range map[string]func(ctx context.Context) error{
			"read": func(ctx context.Context) error { return second(m.Read(ctx, "a", nil)) },
			"write": func(ctx context.Context) error {
				return m.Write(ctx, "a", change{Lock: held}, nil)
			},
			"lock": func(ctx context.Context) error {
				return second(m.Lock(ctx, "b", time.Hour, nil))
			},
			"unlock": func(ctx context.Context) error {
				return second(m.Unlock(ctx, "c", 1, nil))
			},
			"children": func(ctx context.Context) error {
				return second(m.Children(ctx, "p"))
			},
			"check": func(ctx context.Context) error {
				return second(redismemory.Check(ctx, c))
			},
		} {
			fault.begin()
			late, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := call(late); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, %s: the error at the deadline is %v", name, what, err)
			}
			over, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			if err := call(over); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %s: the error after a cancel is %v", name, what, err)
			}
			stop()
			fault.end()
		}
		if _, err := m.Read(t.Context(), "a", nil); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func (w *way) holdBack() { w.proxy.Stall(faultproxy.ToClient) }

// A ledger has what a server has acknowledged, by subject.
type ledger struct {
	mu     sync.Mutex
	least  map[string]int64 // the version that was written or read
	tokens map[string]bool
	acks   int
	enough chan struct{} // closed after enough acknowledged writes
	errs   []error
}

const enough = 100

// found notes a version, and reports one below what was acknowledged.
func (l *ledger) found(subject string, s *state, before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s == nil && before == 0:
	case s == nil || s.Version < before || int64(s.Value.Count) != s.Version:
		l.errs = append(l.errs, fmt.Errorf("%s has %+v after version %d", subject, s, before))
	default:
		l.least[subject] = max(l.least[subject], s.Version)
	}
}

func (l *ledger) acknowledged(subject string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.least[subject]
}

func (l *ledger) wrote(subject string, version int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.least[subject] = max(l.least[subject], version)
	if l.acks++; l.acks == enough {
		close(l.enough)
	}
}

func (l *ledger) locked(subject string, t orchestrator.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := fmt.Sprint(subject, " ", t)
	if l.tokens[name] {
		l.errs = append(l.errs, fmt.Errorf("the token %s comes again", name))
	}
	l.tokens[name] = true
}

// count counts up under the lock until a call fails.
func (l *ledger) count(ctx context.Context, m *memory, subject string) error {
	for {
		token, err := m.Lock(ctx, subject, 200*time.Millisecond, nil)
		if err != nil {
			return err
		}
		if token == 0 {
			continue
		}
		l.locked(subject, token)
		before := l.acknowledged(subject)
		s, err := m.Read(ctx, subject, nil)
		if err != nil {
			return err
		}
		l.found(subject, s, before)
		c := change{Prev: s, Lock: token, Next: value{Count: 1}}
		if s != nil {
			c.Next.Count = s.Value.Count + 1
		}
		switch err := m.Write(ctx, subject, c, nil); {
		case err == nil:
			l.wrote(subject, int64(c.Next.Count))
		case !errors.Is(err, orchestrator.ErrFenced) && !errors.Is(err, orchestrator.ErrConflict):
			return err
		}
		if _, err := m.Unlock(ctx, subject, token, nil); err != nil {
			return err
		}
	}
}

// spec
func TestAKilledServerHasWhatItHasAcknowledged(t *testing.T) {
	s := testserver.Redis(t)
	m := open(to(t, s))
	l := &ledger{least: map[string]int64{}, tokens: map[string]bool{}}
	subjects := []string{"a", "b", "c"}
	for range 4 {
		l.acks, l.enough = 0, make(chan struct{})
		var group sync.WaitGroup
		for i := range 2 * len(subjects) {
			group.Go(func() {
				err := l.count(t.Context(), open(to(t, s)), subjects[i%len(subjects)])
				t.Log("a holder ends:", err)
			})
		}
		<-l.enough
		s.Kill()
		group.Wait()
		s.Restart()
		for _, subject := range subjects {
			found, err := m.Read(t.Context(), subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			l.found(subject, found, l.acknowledged(subject))
		}
	}
	if err := errors.Join(l.errs...); err != nil {
		t.Error(err)
	}
	t.Log(l.least, len(l.tokens), "tokens")
}
