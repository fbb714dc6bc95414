package remote

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

// The conformance suite is about engines, too. In these tests the handler also serves the calls of
// engines, by the same encoding, so that all structs of the contract cross the wire.

// spilling is the question of Spill.
type spilling struct {
	Engine journal.EngineID
	ID     journal.Number
	Data   []byte
}

// engineCalls returns the calls that no client has.
func engineCalls() map[string]call {
	return map[string]call{
		"commit": calling(NeedWrite, func(ctx context.Context, s *session, g *store.Group) (
			*store.Group, error,
		) {
			return s.commit(ctx, g)
		}),
		"purge": calling(NeedWrite, func(ctx context.Context, s *session, p *store.Purge) (
			store.Purged, error,
		) {
			return s.store.Purge(ctx, *p)
		}),
		"spill": calling(NeedWrite, func(ctx context.Context, s *session, q *spilling) (
			nothing, error,
		) {
			return nothing{}, s.store.Spill(ctx, q.Engine, q.ID, q.Data)
		}),
		nameOf(store.Join{}):       claiming[store.Join](),
		nameOf(store.Renew{}):      claiming[store.Renew](),
		nameOf(store.Leave{}):      claiming[store.Leave](),
		nameOf(store.TakeDue{}):    claiming[store.TakeDue](),
		nameOf(store.TakeRun{}):    claiming[store.TakeRun](),
		nameOf(store.TakeOutbox{}): claiming[store.TakeOutbox](),
	}
}

func nameOf(c store.Claim) string { return fmt.Sprintf("%T", c) }

func claiming[C store.Claim]() call {
	return calling(NeedWrite, func(ctx context.Context, s *session, c *C) (store.Claimed, error) {
		return s.store.Claim(ctx, *c)
	})
}

// A wire is the client of a store, with the calls of engines.
type wire struct {
	*Store
	behind store.Store
}

func (w *wire) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	switch c.(type) {
	case store.ReserveID:
		return w.Store.Claim(ctx, c)
	case store.Join, store.Renew, store.Leave, store.TakeDue, store.TakeRun, store.TakeOutbox:
		return ask[store.Claimed](ctx, w.Store, nameOf(c), c)
	}
	return store.Claimed{}, store.InvalidClaim(c)
}

func (w *wire) Spill(
	ctx context.Context, engine journal.EngineID, id journal.Number, data []byte,
) error {
	_, err := ask[nothing](ctx, w.Store, "spill", spilling{engine, id, data})
	return err
}

func (w *wire) Close() error {
	if err := w.Store.Close(); err != nil {
		return err
	}
	return w.behind.Close()
}

// direct sends requests to a handler in this process.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// through returns a store whose every call crosses the wire.
func through(s store.Store) (store.Store, error) {
	h := Handler(s, HandlerOptions{Allow: everything}).(*handler)
	maps.Copy(h.calls, engineCalls())
	c, err := Open(context.Background(), "http://wire", Options{
		Client: &http.Client{Transport: direct{h}},
	})
	return &wire{c, s}, err
}

func everything(*http.Request, Call) error { return nil }

// spec: B-16
func TestConformanceOnMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Database {
		s := memory.New()
		return storetest.Database{Open: func() (store.Store, error) {
			s = s.Reopen()
			return through(s)
		}}
	})
}

func TestConformanceWithLeases(t *testing.T) {
	storetest.RunLight(t, func(*testing.T) storetest.Database {
		s := memory.NewShared(time.Hour)
		return storetest.Database{
			Open:  func() (store.Store, error) { return through(s.Beside()) },
			Lapse: s.Lapse,
		}
	})
}

// spec: B-16
func TestConformanceOnSQLite(t *testing.T) {
	storetest.RunLight(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "runs.db")
		return storetest.Database{Open: func() (store.Store, error) {
			s, err := sqlite.Open(path)
			if err != nil {
				return nil, err
			}
			return through(s)
		}}
	})
}

// The same random operations have the same answers through the wire.
func TestLikeWhatIsServed(t *testing.T) {
	for seed := range uint64(4) {
		m, far := memory.New(), memory.New()
		storetest.Differ(t,
			storetest.Database{Open: func() (store.Store, error) { m = m.Reopen(); return m, nil }},
			storetest.Database{Open: func() (store.Store, error) {
				far = far.Reopen()
				return through(far)
			}}, seed, 400)
	}
}
