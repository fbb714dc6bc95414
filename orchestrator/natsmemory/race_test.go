package natsmemory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/natsmemory"
)

// A between is a JetStream that calls something between each read and the update that follows.
type between struct {
	jetstream.JetStream
	call func(kv jetstream.KeyValue, key string)
}

func (b *between) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	kv, err := b.JetStream.KeyValue(ctx, bucket)
	return betweenKeys{kv, b}, err
}

type betweenKeys struct {
	jetstream.KeyValue
	b *between
}

func (k betweenKeys) Create(ctx context.Context, key string, data []byte,
	o ...jetstream.KVCreateOpt) (uint64, error) {
	if k.b.call != nil {
		k.b.call(k.KeyValue, key)
	}
	return k.KeyValue.Create(ctx, key, data, o...)
}

func (k betweenKeys) Update(ctx context.Context, key string, data []byte, revision uint64) (
	uint64, error) {
	if k.b.call != nil {
		k.b.call(k.KeyValue, key)
	}
	return k.KeyValue.Update(ctx, key, data, revision)
}

// touch stores what is there, as a new revision. That is no change after a Write or Unlock; what
// Lock stores has its meaning with its own revision only.
func touch(t *testing.T, kv jetstream.KeyValue, key string) {
	t.Helper()
	e, err := kv.Get(t.Context(), key)
	if err == nil {
		_, err = kv.Update(t.Context(), key, e.Value(), e.Revision())
	}
	if err != nil {
		t.Error(err)
	}
}

// spec
func TestWhatHappensBetweenAReadAndItsUpdateIsJudged(t *testing.T) {
	s := server(t, "")
	b := &between{JetStream: connect(t, s.Addr())}
	m := open(t, b, natsmemory.Options{})
	other := open(t, connect(t, s.Addr()), natsmemory.Options{})
	// during calls one of the methods while something happens, at the first update only or at all.
	during := func(happens func(kv jetstream.KeyValue, key string), always bool, f func()) {
		b.call = func(kv jetstream.KeyValue, key string) {
			if !always {
				b.call = nil
			}
			happens(kv, key)
		}
		f()
		b.call = nil
	}
	tok := lock(t, m, "a", time.Hour)
	if err := write(t, m, "a", "x", tok); err != nil {
		t.Fatal(err)
	}
	touched := func(kv jetstream.KeyValue, key string) { touch(t, kv, key) }
	during(touched, false, func() {
		if err := write(t, m, "a", "y", tok); err != nil {
			t.Errorf("a write beside a change that does not matter gives %v", err)
		}
	})
	over, cancel := context.WithCancel(t.Context())
	during(func(jetstream.KeyValue, string) { cancel() }, false, func() {
		c := change{Prev: &state{Version: 2}, Lock: tok}
		if err := m.Write(over, "a", c, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a write whose context ends before the update gives %v", err)
		}
	})
	during(touched, true, func() {
		err := write(t, m, "a", "z", tok)
		if err == nil || errors.Is(err, orchestrator.ErrConflict) ||
			errors.Is(err, orchestrator.ErrFenced) {
			t.Errorf("a write beside changes without an end gives %v", err)
		}
	})
	during(func(jetstream.KeyValue, string) {
		if err := write(t, other, "a", "of the other", tok); err != nil {
			t.Error(err)
		}
	}, false, func() {
		if err := write(t, m, "a", "z", tok); !errors.Is(err, orchestrator.ErrConflict) {
			t.Errorf("a write beside another one gives %v", err)
		}
	})
	next := tok
	during(func(jetstream.KeyValue, string) {
		if ok, err := other.Unlock(t.Context(), "a", tok, nil); err != nil || !ok {
			t.Error(ok, err)
		}
		next = lock(t, other, "a", time.Hour)
		if err := write(t, other, "a", "of the next", next); err != nil {
			t.Error(err)
		}
	}, false, func() {
		if err := write(t, m, "a", "z", tok); !errors.Is(err, orchestrator.ErrFenced) {
			t.Errorf("a write beside another lock gives %v", err)
		}
	})
	during(touched, false, func() {
		if ok, err := m.Unlock(t.Context(), "a", next, nil); err != nil || !ok {
			t.Errorf("an unlock beside a change that does not matter gives %v, %v", ok, err)
		}
	})
	during(touched, true, func() {
		if tok, err := m.Lock(t.Context(), "a", time.Hour, nil); tok != 0 || err != nil {
			t.Errorf("a lock beside changes without an end gives %d, %v", tok, err)
		}
	})
	during(func(jetstream.KeyValue, string) { lock(t, other, "a", time.Hour) }, false, func() {
		if tok, err := m.Lock(t.Context(), "a", time.Hour, nil); tok != 0 || err != nil {
			t.Errorf("a lock beside another one gives %d, %v", tok, err)
		}
	})
	during(func(jetstream.KeyValue, string) { lock(t, other, "new", time.Hour) }, false, func() {
		if tok, err := m.Lock(t.Context(), "new", time.Hour, nil); tok != 0 || err != nil {
			t.Errorf("a first lock beside another one gives %d, %v", tok, err)
		}
	})
	if s, err := m.Read(t.Context(), "a", nil); err != nil || s.Version != 4 ||
		s.Value.Text != "of the next" {
		t.Errorf("the state is %+v, %v", s, err)
	}
}
