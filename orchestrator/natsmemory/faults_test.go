package natsmemory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/natsmemory"
)

// serverTime asks the server in another bucket than the memory does.
func serverTime(t *testing.T, js jetstream.JetStream) time.Time {
	t.Helper()
	kv, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "time"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "now", nil); err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(t.Context(), "now")
	if err != nil {
		t.Fatal(err)
	}
	return e.Created()
}

// spec
func TestAWrongClockOfAClientChangesNothing(t *testing.T) {
	const years = 60 * 365 * 24 * time.Hour
	for name, ahead := range map[string]time.Duration{"behind": 0, "ahead": years} {
		t.Run(name, func(t *testing.T) {
			s := server(t, "")
			js := connect(t, s.Addr())
			right := open(t, js, natsmemory.Options{})
			// wrong calls f with a memory of a client whose clock is in the year 2000, or ahead.
			wrong := func(f func(t *testing.T, m *memory)) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(ahead)
					off := time.Until(serverTime(t, connect(t, s.Addr())))
					if off.Abs() < years/4 {
						t.Fatalf("the clock of the client is wrong by %v only", off)
					}
					f(t, open(t, connect(t, s.Addr()), natsmemory.Options{}))
				})
			}
			lock(t, right, "theirs", time.Hour)
			var mine, short token
			wrong(func(t *testing.T, m *memory) {
				tok, err := m.Lock(t.Context(), "theirs", time.Hour, nil)
				if tok != 0 || err != nil {
					t.Errorf("a lock that is held is taken: %d, %v", tok, err)
				}
				mine = lock(t, m, "mine", time.Hour)
				short = lock(t, m, "short", 50*time.Millisecond)
				if err := write(t, m, "mine", "x", mine); err != nil {
					t.Error(err)
				}
			})
			if tok, err := right.Lock(t.Context(), "mine", time.Hour, nil); tok != 0 || err != nil {
				t.Errorf("the lock of the other is taken: %d, %v", tok, err)
			}
			passed := serverTime(t, js).Add(50 * time.Millisecond)
			for serverTime(t, js).Before(passed) {
			}
			wrong(func(t *testing.T, m *memory) {
				err := write(t, m, "short", "x", short)
				if !errors.Is(err, orchestrator.ErrFenced) {
					t.Errorf("a late write gives %v", err)
				}
				if ok, err := m.Unlock(t.Context(), "short", short, nil); ok || err != nil {
					t.Errorf("a late unlock gives %v, %v", ok, err)
				}
				if ok, err := m.Unlock(t.Context(), "mine", mine, nil); !ok || err != nil {
					t.Errorf("an unlock in time gives %v, %v", ok, err)
				}
				lock(t, m, "short", time.Hour)
			})
			if s, err := right.Read(t.Context(), "short", nil); s != nil || err != nil {
				t.Errorf("a late write is there: %v, %v", s, err)
			}
		})
	}
}

// A ledger has what was acknowledged, apart from the server.
type ledger struct {
	mu       sync.Mutex
	versions map[string]int64 // the greatest that a Write or Read has returned
	tokens   map[string]token // the greatest that a Lock has returned
	given    map[string]bool  // all of them, each with its subject
	changed  chan struct{}    // closed at the next entry of a Write
	writes   int
}

// known returns what a later Read and Lock must not be below.
func (l *ledger) known(subject string) (int64, token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.versions[subject], l.tokens[subject]
}

// add adds what a Write or a Lock has returned. It reports whether that token is there already.
func (l *ledger) add(subject string, version int64, tok token) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.versions[subject] = max(l.versions[subject], version)
	l.tokens[subject] = max(l.tokens[subject], tok)
	if version > 0 {
		l.writes++
		close(l.changed)
		l.changed = make(chan struct{})
		return false
	}
	name := fmt.Sprint(tok, " of ", subject)
	again, l.given[name] = l.given[name], true
	return again
}

// await waits for more writes.
func (l *ledger) await(t *testing.T, more int) {
	t.Helper()
	late := time.After(time.Minute)
	l.mu.Lock()
	defer l.mu.Unlock()
	for want := l.writes + more; l.writes < want; {
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			t.Error("nobody writes any more")
			want = 0
		}
		l.mu.Lock()
	}
}

// count adds one to the state of a subject, and compares all answers with the ledger.
func (l *ledger) count(ctx context.Context, t *testing.T, m *memory, subject string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, before := l.known(subject)
	tok, err := m.Lock(ctx, subject, 200*time.Millisecond, nil)
	if err != nil || tok == 0 {
		return
	}
	if again := l.add(subject, 0, tok); again || tok <= before {
		t.Errorf("%s: token %d after token %d; given before: %v", subject, tok, before, again)
	}
	least, _ := l.known(subject)
	c := change{Lock: tok}
	if c.Prev, err = m.Read(ctx, subject, nil); err != nil {
		return
	}
	var version int64
	if c.Prev != nil {
		version, c.Next.Count = c.Prev.Version, c.Prev.Value.Count
	}
	if version < least || int64(c.Next.Count) != version {
		t.Errorf("%s: version %d, count %d, after version %d", subject, version, c.Next.Count,
			least)
	}
	c.Next.Count++
	if err := m.Write(ctx, subject, c, nil); err == nil {
		l.add(subject, version+1, 0)
	}
	if version%8 != 0 { // otherwise the lock passes
		_, _ = m.Unlock(ctx, subject, tok, nil)
	}
}

// spec
func TestWhatWasAcknowledgedSurvivesThatTheServerIsKilled(t *testing.T) {
	s := server(t, "")
	l := &ledger{
		versions: map[string]int64{}, tokens: map[string]token{}, given: map[string]bool{},
		changed: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	t.Cleanup(stop)
	for i := range 6 {
		js := connect(t, s.Addr(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
		m := open(t, js, natsmemory.Options{})
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.count(ctx, t, m, fmt.Sprint("subject ", (i+n)%12))
			}
		})
	}
	for range 5 {
		l.await(t, 200)
		s.Kill()
		s.Restart()
	}
	l.await(t, 50)
	stop()
	group.Wait()
	m := open(t, connect(t, s.Addr()), natsmemory.Options{})
	for subject := range l.versions {
		least, _ := l.known(subject)
		s, err := m.Read(t.Context(), subject, nil)
		if err != nil || s == nil || s.Version < least || int64(s.Value.Count) != s.Version {
			t.Errorf("%s: %+v, %v; version %d was acknowledged", subject, s, err, least)
		}
	}
	t.Logf("%d writes", l.writes)
}

// soon calls a method with a context that ends soon.
func soon(t *testing.T, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	return call(ctx)
}

// calls returns calls of all methods, of a subject whose lock has that token.
func calls(m *memory, tok token) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"read":     func(ctx context.Context) error { return second(m.Read(ctx, "a", nil)) },
		"lock":     func(ctx context.Context) error { return second(m.Lock(ctx, "b", 1e9, nil)) },
		"unlock":   func(ctx context.Context) error { return second(m.Unlock(ctx, "a", tok, nil)) },
		"children": func(ctx context.Context) error { return second(m.Children(ctx, "p")) },
		"write": func(ctx context.Context) error {
			return m.Write(ctx, "a", change{Lock: tok}, nil)
		},
	}
}

func second[T any](_ T, err error) error { return err }

// spec: A-15
func TestNoCallOutlastsItsContextIfTheServerIsSilent(t *testing.T) {
	s := server(t, "")
	proxy := faultproxy.New(t, s.Addr())
	for name, fault := range map[string]struct{ begin, end func() }{
		"paused":     {s.Pause, s.Resume},
		"blackhole":  {proxy.Blackhole, proxy.Heal},
		"no answers": {func() { proxy.Stall(faultproxy.ToClient) }, proxy.Heal},
		"cut off":    {func() { proxy.Refuse(); proxy.Cut() }, proxy.Heal},
	} {
		t.Run(name, func(t *testing.T) {
			js := connect(t, proxy.Addr(), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
				nats.ReconnectWait(20*time.Millisecond))
			m := open(t, js, natsmemory.Options{Bucket: "b" + fmt.Sprint(len(name))})
			tok := lock(t, m, "a", time.Hour)
			fault.begin()
			all := calls(m, tok)
			for soon(t, all["read"]) == nil { // a paused server may go on for a moment
			}
			for call, f := range all {
				if err := soon(t, f); err == nil || errors.Is(err, orchestrator.ErrFenced) {
					t.Errorf("%s gives %v without an answer of the server", call, err)
				}
			}
			fault.end()
			direct := open(t, connect(t, s.Addr()), natsmemory.Options{
				Bucket: "b" + fmt.Sprint(len(name)),
			})
			if err := write(t, direct, "a", "x", tok); err != nil {
				t.Errorf("a write afterwards: %v", err)
			}
		})
	}
}

// spec
func TestAWriteWhoseAnswerWasLostIsFoundByRead(t *testing.T) {
	s := server(t, "")
	proxy := faultproxy.New(t, s.Addr())
	direct := open(t, connect(t, s.Addr()), natsmemory.Options{})
	tok := lock(t, direct, "a", time.Hour)
	var version int64
	lost, failed := 0, 0
	for bytes := int64(0); ; bytes += 30 {
		m := open(t, connect(t, proxy.Addr(), nats.NoReconnect()), natsmemory.Options{})
		proxy.CutAfter(faultproxy.ToClient, bytes)
		c := change{Next: value{Text: fmt.Sprint(bytes)}, Lock: tok}
		if version > 0 {
			c.Prev = &state{Version: version}
		}
		err := m.Write(t.Context(), "a", c, nil)
		proxy.Heal()
		found, broken := direct.Read(t.Context(), "a", nil)
		if broken != nil {
			t.Fatal(broken)
		}
		isThere := found != nil && found.Value.Text == c.Next.Text
		switch {
		case errors.Is(err, orchestrator.ErrConflict) || errors.Is(err, orchestrator.ErrFenced):
			t.Errorf("after %d bytes: %v", bytes, err)
		case err == nil && !isThere:
			t.Errorf("after %d bytes: the write is acknowledged, and %+v is read", bytes, found)
		case err != nil && isThere:
			lost++
		case err != nil:
			failed++
		}
		if isThere {
			if version++; found.Version != version {
				t.Fatalf("the version is %d after %d", found.Version, version-1)
			}
		}
		if err == nil {
			break
		}
	}
	if lost == 0 || failed == 0 {
		t.Errorf("%d writes were without an answer, %d without an effect", lost, failed)
	}
}
