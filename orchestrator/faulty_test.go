package orchestrator_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/memorytest"
)

// A faulty memory keeps the contract, but for one fault.
type faulty struct {
	fault string
	mu    sync.Mutex
	rows  map[string]*row
	cache *state // what the last refused write found, for one fault
}

type row struct {
	state state
	token token
	ends  time.Time
	ttl   time.Duration
}

func (f *faulty) of(subject string) *row {
	if f.rows == nil {
		f.rows = map[string]*row{}
	}
	if f.rows[subject] == nil {
		f.rows[subject] = &row{}
	}
	return f.rows[subject]
}

func (r *row) held(t token) bool { return t > 0 && t == r.token && time.Now().Before(r.ends) }

func (f *faulty) Read(ctx context.Context, subject string, _ *orchestrator.Metadata) (*state,
	error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.of(subject).state
	if f.cache != nil {
		s, f.cache = *f.cache, nil
	}
	if s.Version == 0 {
		return nil, ctx.Err()
	}
	return &s, ctx.Err()
}

func (f *faulty) Write(ctx context.Context, subject string, c orchestrator.Change[value],
	_ *orchestrator.Metadata) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.of(subject)
	fits := c.Prev == nil && r.state.Version == 0 ||
		c.Prev != nil && c.Prev.Version == r.state.Version
	refused := ctx.Err()
	switch {
	case refused != nil:
	case !r.held(c.Lock) && f.fault != "a write needs no lock and no state before":
		refused = orchestrator.ErrFenced
	case !fits && f.fault != "a write needs no lock and no state before":
		refused = orchestrator.ErrConflict
	}
	if refused != nil {
		f.refuse(r, &c)
		return refused
	}
	if f.fault == "a tenth write is lost" && r.state.Version == 9 {
		return nil
	}
	r.state = state{Value: c.Next, Version: r.state.Version + 1}
	switch {
	case f.fault == "a write renews the lock":
		r.ends = time.Now().Add(r.ttl)
	case f.fault == "the versions start again" && r.state.Version == 7:
		r.state.Version = 1
	case f.fault == "a tenth write is stored and refused" && r.state.Version == 10:
		return orchestrator.ErrConflict
	}
	return nil
}

func (f *faulty) refuse(r *row, c *orchestrator.Change[value]) {
	switch f.fault {
	case "a refused write is read once":
		f.cache = &state{Value: c.Next, Version: r.state.Version}
	case "what a refused write has found is read of the next subject":
		s := r.state
		f.cache = &s
	case "a refused write frees the lock":
		r.ends = time.Time{}
	case "a refused write takes a version":
		if r.state.Version > 0 {
			r.state.Version++
		}
	}
}

func (f *faulty) Lock(ctx context.Context, subject string, ttl time.Duration,
	_ *orchestrator.Metadata) (token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.of(subject)
	if ctx.Err() != nil || r.held(r.token) {
		if f.fault == "who asks for a lock renews it" {
			r.ends = time.Now().Add(ttl)
		}
		return 0, ctx.Err()
	}
	passed := !r.ends.IsZero()
	if r.token++; passed && f.fault == "a lock that passes leaves its token to the next" ||
		f.fault == "tokens are given again without a state" && r.state.Version == 0 {
		r.token = max(r.token-1, 1)
	}
	if f.fault == "tokens start again" && r.token > 4 {
		r.token = 1
	}
	r.ends, r.ttl = time.Now().Add(ttl), ttl
	return r.token, nil
}

func (f *faulty) Unlock(ctx context.Context, subject string, t token, _ *orchestrator.Metadata) (
	bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.of(subject)
	last := t > 0 && t == r.token && !r.ends.IsZero()
	if ctx.Err() != nil || !r.held(t) &&
		(!last || f.fault != "a lock that has passed can be freed") {
		return false, ctx.Err()
	}
	r.ends = time.Time{}
	return true, nil
}

const (
	random = "random calls have the answers of one memory"
	many   = "many holders lose no change"
)

// find checks a clause with some seeds. It returns the first error.
func find(t *testing.T, clause string, m func() orchestrator.Memory[value]) (found error) {
	t.Helper()
	for _, c := range memorytest.Cases() {
		for seed := uint64(1); c.Name == clause && seed <= 30 && found == nil; seed++ {
			synctest.Test(t, func(t *testing.T) {
				one := m()
				found = c.Check(t.Context(), memorytest.World{
					Open: func() orchestrator.Memory[value] { return one }, Seed: seed,
				})
			})
		}
	}
	return found
}

// spec: A-15
func TestTheSuiteFindsRareFaults(t *testing.T) {
	for fault, clause := range map[string]string{
		"a lock that passes leaves its token to the next":            random,
		"a lock that has passed can be freed":                        random,
		"a write renews the lock":                                    random,
		"who asks for a lock renews it":                              random,
		"the versions start again":                                   random,
		"tokens start again":                                         random,
		"tokens are given again without a state":                     random,
		"a refused write is read once":                               random,
		"what a refused write has found is read of the next subject": random,
		"a refused write frees the lock":                             random,
		"a refused write takes a version":                            random,
		"a write needs no lock and no state before":                  many,
		"a tenth write is lost":                                      many,
		"a tenth write is stored and refused":                        many,
	} {
		t.Run(fault, func(t *testing.T) {
			m := func() orchestrator.Memory[value] { return &faulty{fault: fault} }
			if find(t, clause, m) == nil {
				t.Error("the suite finds nothing")
			}
		})
	}
}

// A slow memory is one whose locks often pass between two calls.
type slow struct{ orchestrator.Memory[value] }

func (s slow) Read(ctx context.Context, subject string, m *orchestrator.Metadata) (*state, error) {
	time.Sleep(170 * time.Millisecond)
	return s.Memory.Read(ctx, subject, m)
}

func (s slow) Write(ctx context.Context, subject string, c orchestrator.Change[value],
	m *orchestrator.Metadata) error {
	time.Sleep(130 * time.Millisecond)
	defer time.Sleep(370 * time.Millisecond)
	return s.Memory.Write(ctx, subject, c, m)
}

func (s slow) Lock(ctx context.Context, subject string, ttl time.Duration,
	m *orchestrator.Metadata) (token, error) {
	time.Sleep(70 * time.Millisecond)
	defer time.Sleep(110 * time.Millisecond)
	return s.Memory.Lock(ctx, subject, ttl, m)
}

// spec: A-15
func TestTheSuiteFindsNothingInARightMemory(t *testing.T) {
	local := func() orchestrator.Memory[value] { return &orchestrator.Local[value]{} }
	for _, clause := range []string{random, many} {
		for name, m := range map[string]func() orchestrator.Memory[value]{
			"without a fault": func() orchestrator.Memory[value] { return &faulty{} },
			"local":           local,
			"slow":            func() orchestrator.Memory[value] { return slow{local()} },
		} {
			if err := find(t, clause, m); err != nil {
				t.Errorf("%s, %s: %v", name, clause, err)
			}
		}
	}
}
