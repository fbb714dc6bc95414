package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/orchestrator"
)

var errDown = errors.New("down")

// A flaky is a memory whose first calls fail, or hang.
type flaky struct {
	orchestrator.Local[value]
	fails, calls int
	hangs        bool
	cleaned      int
}

func (f *flaky) down(ctx context.Context) error {
	f.calls++
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.calls <= f.fails {
		return errDown
	}
	return nil
}

func (f *flaky) Read(ctx context.Context, subject string, m *orchestrator.Metadata) (
	*orchestrator.State[value], error) {
	if err := f.down(ctx); err != nil {
		return nil, err
	}
	return f.Local.Read(ctx, subject, m)
}

func (f *flaky) Write(ctx context.Context, subject string, c orchestrator.Change[value],
	m *orchestrator.Metadata) error {
	if err := f.down(ctx); err != nil {
		return err
	}
	return f.Local.Write(ctx, subject, c, m)
}

func (f *flaky) Lock(ctx context.Context, subject string, ttl time.Duration,
	m *orchestrator.Metadata) (orchestrator.Token, error) {
	if err := f.down(ctx); err != nil {
		return 0, err
	}
	return f.Local.Lock(ctx, subject, ttl, m)
}

func (f *flaky) Unlock(ctx context.Context, subject string, t orchestrator.Token,
	m *orchestrator.Metadata) (bool, error) {
	if err := f.down(ctx); err != nil {
		return false, err
	}
	return f.Local.Unlock(ctx, subject, t, m)
}

func (f *flaky) Cleanup(context.Context, string, orchestrator.Change[value],
	*orchestrator.Metadata) error {
	f.cleaned++
	return nil
}

// spec
func TestInsistTriesThreeTimes(t *testing.T) {
	for fails, works := range []bool{true, true, true, false, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &flaky{}
			m := orchestrator.Insist[value](f)
			token, err := f.Local.Lock(t.Context(), "held", time.Minute, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, call := range map[string]func() (bool, error){
				"read": func() (bool, error) {
					_, err := m.Read(t.Context(), "a", nil)
					return err == nil, err
				},
				"lock": func() (bool, error) {
					got, err := m.Lock(t.Context(), "a", time.Minute, nil)
					return got != 0, err
				},
			} {
				f.fails, f.calls = fails, 0
				if ok, err := call(); ok != works || !works && !errors.Is(err, errDown) {
					t.Errorf("%s, %d calls fail: %v, %v", name, fails, ok, err)
				}
				if want := min(fails+1, 3); f.calls != want {
					t.Errorf("%s, %d calls fail: %d calls", name, fails, f.calls)
				}
			}
			f.fails, f.calls = fails, 0
			if ok, err := m.Unlock(t.Context(), "held", token, nil); ok != works || err != nil {
				t.Errorf("unlock, %d calls fail: %v, %v", fails, ok, err)
			}
			f.fails, f.calls = fails, 0
			err = m.Write(t.Context(), "a", orchestrator.Change[value]{}, nil)
			if f.calls != 1 || fails > 0 && !errors.Is(err, errDown) {
				t.Errorf("write, %d calls fail: %d calls, %v", fails, f.calls, err)
			}
		})
	}
}

// spec: A-5
func TestInsistDoesNotWaitForALockThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		if _, err := f.Local.Lock(t.Context(), "a", time.Hour, nil); err != nil {
			t.Fatal(err)
		}
		m := orchestrator.Insist[value](f)
		if got, err := m.Lock(t.Context(), "a", time.Minute, nil); got != 0 || err != nil ||
			f.calls != 3 {
			t.Errorf("token %d after %d calls, %v", got, f.calls, err)
		}
	})
}

// spec: A-3
func TestInsistReadsInUnderASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now() // of the bubble
		m := orchestrator.Insist[value](&flaky{hangs: true})
		_, err := m.Read(t.Context(), "a", nil)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) ||
			took >= time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// spec
func TestInsistCleansUpIfTheMemoryDoes(t *testing.T) {
	f := &flaky{}
	for _, m := range []orchestrator.Memory[value]{f, &orchestrator.Local[value]{}} {
		c, is := orchestrator.Insist(m).(orchestrator.Cleaner[value])
		if !is {
			t.Fatal("it is no cleaner")
		}
		if err := c.Cleanup(t.Context(), "a", orchestrator.Change[value]{}, nil); err != nil {
			t.Error(err)
		}
	}
	if f.cleaned != 1 {
		t.Errorf("%d calls", f.cleaned)
	}
}

// spec: A-2
func TestAReferenceIsPendingNoneOrAName(t *testing.T) {
	for _, c := range []struct {
		is    orchestrator.Reference
		text  string
		name  string
		known bool
	}{
		{orchestrator.Pending, "pending", "", false},
		{orchestrator.Reference{}, "pending", "", false},
		{orchestrator.None, "none", "", true},
		{orchestrator.To(""), "none", "", true},
		{orchestrator.To("order-1"), "order-1", "order-1", true},
	} {
		name, known := c.is.Name()
		if c.is.String() != c.text || name != c.name || known != c.known {
			t.Errorf("%v, %q, %v", c.is, name, known)
		}
	}
	if orchestrator.Pending == orchestrator.None {
		t.Error("what is not known is none")
	}
}
