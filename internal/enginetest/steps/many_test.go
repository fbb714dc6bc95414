package steps

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// An item is an input and a payload. One below 0 does not encode.
type item int

func (v item) MarshalJSON() ([]byte, error) {
	if v < 0 {
		return nil, errors.New("it is below 0")
	}
	return json.Marshal(int(v))
}

// poison is the workflow ID of starts and signals that the store refuses.
const poison = "poison"

// many has the workflows and signals of tests of many starts and signals, and counts commits.
type many struct {
	*world.World
	double *perdure.Workflow[item, int]
	listen *perdure.Workflow[int, []int]
	other  *perdure.Workflow[int, int]

	mu      sync.Mutex
	commits int    // that create runs or post messages
	then    func() // is called in each of these commits; may be nil
}

var told = perdure.NewSignal[item]("told")

func newMany(t *testing.T) *many {
	m := &many{
		double: perdure.Define("double", func(_ context.Context, v item) (int, error) {
			return 2 * int(v), nil
		}),
		listen: perdure.Define("listen", func(ctx context.Context, n int) (out []int, err error) {
			for len(out) < n && err == nil {
				var v item
				v, err = told.Wait(ctx)
				out = append(out, int(v))
			}
			return out, err
		}),
		other: perdure.Define("other", func(ctx context.Context, _ int) (int, error) {
			v, err := told.Wait(ctx)
			return int(v), err
		}),
	}
	m.World = world.Hooked(t, &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
		counts := false
		for _, c := range g.Changes {
			counts = counts || c.Create || len(c.Posts) > 0
			if c.Create && strings.HasPrefix(c.Head.WorkflowID, poison) ||
				slices.ContainsFunc(c.Posts, func(p store.Post) bool {
					return strings.HasPrefix(p.WorkflowID, poison)
				}) {
				return &store.DataError{Err: errors.New("it does not taste")}
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if counts {
			if m.commits++; m.then != nil {
				m.then()
			}
		}
		return do()
	}}, perdure.Options{}, m.double, m.listen, m.other)
	return m
}

// count counts the commits from now on, and calls then in each.
func (m *many) count(then func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits, m.then = 0, then
}

// counted returns the number of commits.
func (m *many) counted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits
}

// callers returns the engine, and a client without one.
func (m *many) callers() map[string]perdure.Caller {
	c, err := perdure.NewClient(m.T.Context(), m.Store)
	if err != nil {
		m.T.Fatal(err)
	}
	return map[string]perdure.Caller{"engine": m.Engine, "client": c}
}

// Each of many starts of one call has its own result or error, and they share commits.
//
// spec: R-27
func TestManyStartsOfOneCallShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMany(t)
		defer m.End()
		ctx := t.Context()
		world.Start(m.World, m.other, 1, perdure.ID("taken"))
		for name, c := range m.callers() {
			const n = 3500
			inputs := make([]item, n)
			ids := make([]string, n)
			for i := range inputs {
				inputs[i], ids[i] = item(i), fmt.Sprint(name, i)
			}
			inputs[7], ids[8], ids[9], ids[1500] = -1, "taken", "no ID", poison
			ids[3000] = ids[2999]
			m.count(nil)
			runs, errs := m.double.StartAll(ctx, c, inputs, func(i int) []perdure.StartOption {
				return []perdure.StartOption{perdure.ID(ids[i])}
			})
			codes := map[int]journal.Code{
				7: journal.CodeEncode, 8: journal.CodeConflict, 9: journal.CodeInvalid,
				1500: journal.CodeInvalid,
			}
			for i := range inputs {
				if code := codes[i]; journal.CodeOf(errs[i]) != code || (runs[i] == nil) != (code !=
					"") {
					t.Fatalf("%s: start %d returns %v, %v", name, i, runs[i], errs[i])
				}
				if runs[i] == nil {
					continue
				}
				if runs[i].ID() != ids[i] || i != 3000 && i != 2999 && !runs[i].New() {
					t.Fatalf("%s: start %d returns run %s, new: %v", name, i, runs[i].ID(),
						runs[i].New())
				}
			}
			if n := m.counted(); n > 40 { // with some for the halves of the group that is refused
				t.Errorf("%s: %d starts take %d commits", name, len(inputs), n)
			}
			if runs[2999].New() == runs[3000].New() || runs[2999].RunID() != runs[3000].RunID() {
				t.Errorf("%s: two starts of one ID return %s and %s", name, runs[2999].RunID(),
					runs[3000].RunID())
			}
			for _, i := range []int{0, 999, 1000, 1001, 2000, n - 1} {
				if v := world.Must[int](t)(runs[i].Result(ctx)); v != 2*i {
					t.Errorf("%s: run %d returns %d", name, i, v)
				}
			}
			again, errs := m.double.StartAll(ctx, c, inputs[:1], func(int) []perdure.StartOption {
				return []perdure.StartOption{perdure.ID(ids[0])}
			})
			if err := errors.Join(errs...); err != nil || again[0].New() {
				t.Errorf("%s: the same start again: %v", name, err)
			}
			own, errs := m.double.StartAll(ctx, c, inputs[:2], nil)
			if err := errors.Join(errs...); err != nil || own[0].ID() == own[1].ID() {
				t.Errorf("%s: starts without options: %v", name, err)
			}
			if none, errs := m.double.StartAll(ctx, c, nil, nil); len(none)+len(errs) > 0 {
				t.Errorf("%s: no starts return %v, %v", name, none, errs)
			}
		}
	})
}

// Many signals of one call share commits, and signals to one run come in their order.
//
// spec: R-17
func TestManySignalsOfOneCallComeInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMany(t)
		defer m.End()
		ctx := t.Context()
		for name, c := range m.callers() {
			const n, each = 3500, 700
			ended := world.Start(m.World, m.double, 1, perdure.ID(name+"-ended"))
			world.Must[int](t)(ended.Result(ctx))
			values, ids := make([]item, n), make([]string, n)
			var runs []*perdure.Run[[]int]
			for i := range n / each {
				runs = append(runs, world.Start(m.World, m.listen, each-1,
					perdure.ID(fmt.Sprint(name, i))))
			}
			for i := range values {
				values[i], ids[i] = item(i), runs[i%5].ID()
			}
			values[10], ids[11], ids[12], ids[13], ids[14] = -1, "no ID", poison,
				ended.RunID(), name+"-nobody"
			opts := func(i int) (string, []perdure.SendOption) {
				return ids[i], []perdure.SendOption{perdure.SendKey(fmt.Sprint(name, "-", i))}
			}
			m.count(nil)
			sent, errs := told.SendAll(ctx, c, values, opts)
			if n := m.counted(); n > 40 {
				t.Errorf("%s: %d signals take %d commits", name, len(values), n)
			}
			codes := map[int]journal.Code{
				10: journal.CodeEncode, 11: journal.CodeInvalid, 12: journal.CodeInvalid,
			}
			for i, d := range sent {
				has := i < 10 || i > 14
				if journal.CodeOf(errs[i]) != codes[i] || d.NotDelivered != (i == 13) ||
					d.Unrouted != (i == 14) || (d.RunID == runs[i%5].RunID()) != has {
					t.Fatalf("%s: signal %d is %+v, %v", name, i, d, errs[i])
				}
			}
			for i, run := range runs {
				got := world.Must[[]int](t)(run.Result(ctx))
				if !slices.IsSorted(got) || got[0] != i || got[each-2] != n-5+i {
					t.Errorf("%s: run %d got %v", name, i, got)
				}
			}
			again, errs := told.SendAll(ctx, c, values[:5], func(i int) (string,
				[]perdure.SendOption) {
				_, key := opts(i)
				return runs[i].RunID(), key
			})
			for i, d := range again {
				if !d.Duplicate || errs[i] != nil {
					t.Errorf("%s: signal %d again is %+v, %v", name, i, d, errs[i])
				}
			}
		}
	})
}

// When the context ends, no further start and no further signal begins; the same call again does
// the rest.
func TestManyStartsAndSignalsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMany(t)
		defer m.End()
		run := world.Start(m.World, m.other, 1, perdure.ID("other"))
		for name, c := range m.callers() {
			const n = 5000
			ids := func(i int) []perdure.StartOption {
				return []perdure.StartOption{perdure.ID(fmt.Sprint(name, i))}
			}
			to := func(i int) (string, []perdure.SendOption) {
				return run.ID(), []perdure.SendOption{perdure.SendKey(fmt.Sprint(name, i))}
			}
			for what, do := range map[string]func(context.Context) []error{
				"starts": func(ctx context.Context) []error {
					_, errs := m.double.StartAll(ctx, c, make([]item, n), ids)
					return errs
				},
				"signals": func(ctx context.Context) []error {
					_, errs := told.SendAll(ctx, c, make([]item, n), to)
					return errs
				},
			} {
				ctx, cancel := context.WithCancel(t.Context())
				m.count(cancel)
				errs := do(ctx)
				failed, commits := 0, m.counted()
				for _, err := range errs {
					if err != nil {
						world.CodeIs(t, err, journal.CodeUnavailable)
						failed++
					}
				}
				if failed < n-2500 || commits > 10 {
					t.Errorf("%s of the %s: %d failed, and %d commits", what, name, failed, commits)
				}
				for _, err := range do(ctx) {
					world.CodeIs(t, err, journal.CodeUnavailable)
				}
				m.count(nil)
				world.NoError(t, errors.Join(do(t.Context())...))
			}
		}
		time.Sleep(time.Minute) // the engine sees what a client has made at its next sweep
		if n := m.Count()[journal.Completed]; n != 2*5000+1 {
			t.Errorf("%d runs have ended", n)
		}
	})
}

// A call with the context of workflow code is refused, and so are all of its items.
func TestManyStartsAreRefusedInWorkflowCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts, sends []error
		var eng *perdure.Engine
		inner := perdure.Define("inner", world.Nothing)
		outer := perdure.Define("outer", func(ctx context.Context, _ int) (int, error) {
			_, starts = inner.StartAll(ctx, eng, []int{1, 2}, nil)
			_, sends = told.SendAll(ctx, eng, []item{1, 2},
				func(int) (string, []perdure.SendOption) { return "x", nil })
			return 0, nil
		})
		w := world.New(t, inner, outer)
		defer w.End()
		eng = w.Engine
		world.Must[int](t)(world.Start(w, outer, 1).Result(t.Context()))
		for _, err := range slices.Concat(starts, sends) {
			world.CodeIs(t, err, journal.CodeMisuse)
		}
		if len(starts) != 2 || len(sends) != 2 {
			t.Errorf("there are %d and %d errors", len(starts), len(sends))
		}
	})
}

// Starts and signals that a transaction takes exist exactly if it is committed, whatever is wrong
// with others of the call.
//
// spec: B-4
func TestManyStartsAndSignalsInATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := perdure.Define("double", func(_ context.Context, v item) (int, error) {
			return 2 * int(v), nil
		})
		w := world.NewShop(t, perdure.Options{}, double, dunns)
		ctx := t.Context()
		dun := world.Must[*perdure.Run[int]](t)(dunns.Start(ctx, w.Engine, 1, perdure.ID("taken")))
		inputs := []item{1, -1, 2, 3}
		ids := []perdure.ID{"a", "b", "taken", "c"}
		client := world.Must[*perdure.Client](t)(perdure.NewClient(ctx, w.Store))
		for _, c := range []perdure.Caller{w.Engine, client} {
			for _, commit := range []bool{false, true} {
				var runs []*perdure.Run[int]
				w.In(commit, func(tx *sql.Tx) {
					var errs []error
					runs, errs = double.StartAll(ctx, c.In(tx), inputs,
						func(i int) []perdure.StartOption {
							return []perdure.StartOption{ids[i], perdure.Dedup(0)}
						})
					for i, code := range []journal.Code{"", journal.CodeEncode,
						journal.CodeConflict, ""} {
						if journal.CodeOf(errs[i]) != code {
							t.Errorf("start %d returns %v", i, errs[i])
						}
					}
				})
				if !commit {
					all := world.Must[[]perdure.Status](t)(w.Engine.Statuses(ctx,
						runs[0].RunID(), runs[3].RunID()))
					if all[0].Found || all[1].Found {
						t.Error("a start that was rolled back made a run")
					}
					continue
				}
				// both have ended when the next caller starts runs of these IDs
				if v := world.Must[int](t)(runs[0].Result(ctx)); v != 2 {
					t.Errorf("the first run returns %d", v)
				}
				if v := world.Must[int](t)(runs[3].Result(ctx)); v != 6 {
					t.Errorf("the last run returns %d", v)
				}
			}
		}
		for _, commit := range []bool{false, true} {
			w.In(commit, func(tx *sql.Tx) {
				sent, errs := settled.SendAll(ctx, w.Engine.In(tx), []int{4, 5},
					func(i int) (string, []perdure.SendOption) {
						return []string{dun.ID(), "no ID"}[i], nil
					})
				if errs[0] != nil || sent[0].RunID != dun.RunID() {
					t.Errorf("signal 0 is %+v, %v", sent[0], errs[0])
				}
				world.CodeIs(t, errs[1], journal.CodeInvalid)
			})
		}
		if v := world.Must[int](t)(dun.Result(ctx)); v != -3 {
			t.Errorf("the run returns %d, and got another signal than the committed one", v)
		}
		tx := world.Must[*sql.Tx](t)(w.DB.Begin())
		world.NoError(t, tx.Rollback())
		_, late := double.StartAll(ctx, w.Engine.In(tx), make([]item, 2500), nil)
		for _, err := range late {
			if err == nil || err.Error() != late[0].Error() {
				t.Fatalf("a transaction that is over takes a start: %v", err)
			}
		}
		_, errs := double.StartAll(ctx, w.Engine.In(7), []item{1, 2}, nil)
		for _, err := range errs {
			world.CodeIs(t, err, journal.CodeInvalid)
		}
	})
}

// Starts wait for an engine that does not run yet, and for one that joins again.
func TestManyStartsWaitForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, err := perdure.New(memory.New(), perdure.Options{})
		double := perdure.Define("double", func(_ context.Context, v item) (int, error) {
			return 2 * int(v), nil
		})
		if err := errors.Join(err, eng.Register(double)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10)
		_, errs := double.StartAll(ctx, eng, make([]item, 3), nil)
		cancel()
		world.CodeIs(t, errs[0], journal.CodeStopped)
		world.CodeIs(t, errs[2], journal.CodeUnavailable)
		running, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- eng.Run(running) }()
		_, errs = double.StartAll(t.Context(), eng, make([]item, 3), nil)
		world.NoError(t, errors.Join(errs...))
		stop()
		world.NoError(t, <-ended)
		_, errs = double.StartAll(t.Context(), eng, make([]item, 3), nil)
		for _, err := range errs {
			world.CodeIs(t, err, journal.CodeStopped)
		}
	})
}
