package steps

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

// bookings is a workflow with a step in a transaction between two others.
func bookings(t *world.Till) *perdure.Workflow[int, int] {
	return perdure.Define("booking", func(ctx context.Context, cents int) (int, error) {
		if err := world.PlainStep(ctx, "before"); err != nil {
			return 0, err
		}
		n, err := perdure.StepTx(ctx, "book", t, func(ctx context.Context, tx *sql.Tx) (int,
			error) {
			return world.Book(ctx, tx, cents)
		})
		if err != nil {
			return 0, err
		}
		return n, world.PlainStep(ctx, "after")
	})
}

// completed counts the results of a step in a journal.
func completed(entries []journal.Entry, step string) (n int) {
	for _, e := range entries {
		if e.Kind == journal.StepCompleted && e.Op.Name == step {
			n++
		}
	}
	return n
}

// spec: B-4
func TestAStepInATransactionWritesWithItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		w := world.NewShop(t, perdure.Options{}, bookings(books))
		books.Transactions = sqlite.Transactions(w.DB)
		run := world.Must[*perdure.Run[json.RawMessage]](t)(w.Engine.Start(t.Context(), "booking",
			[]byte("7")))
		if out := world.Must[json.RawMessage](t)(run.Result(t.Context())); string(out) != "7" {
			t.Errorf("the run gives %s", out)
		}
		if n, done := w.Invoices(),
			completed(world.Must[[]journal.Entry](t)(w.Engine.History(t.Context(),
				run.ID(), 0, 0)), "book"); n != 1 || done != 1 {
			t.Errorf("%d invoices and %d results, want one of each", n, done)
		}
	})
}

// spec: B-4
func TestAFailedAttemptInATransactionLeavesNothing(t *testing.T) {
	errNo := errors.New("no")
	for name, c := range map[string]struct {
		body   func(n int) error
		commit func(t *world.Till) func(n int, tx *sql.Tx) error
	}{
		"the body gives an error": {body: func(int) error { return errNo }},
		"the body panics":         {body: func(int) error { panic("no") }},
		"the commit fails": {commit: func(*world.Till) func(int, *sql.Tx) error {
			return func(_ int, tx *sql.Tx) error { return errors.Join(errNo, tx.Rollback()) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				books := &world.Till{}
				bodies := 0
				fails := perdure.Define("fails", func(ctx context.Context, _ int) (int, error) {
					return perdure.StepTx(ctx, "book", books,
						func(ctx context.Context, tx *sql.Tx) (int, error) {
							n, err := world.Book(ctx, tx, 7)
							if bodies++; bodies < 3 && c.body != nil {
								err = c.body(bodies)
							}
							return n, err
						})
				})
				w := world.NewShop(t, perdure.Options{}, fails)
				books.Transactions = sqlite.Transactions(w.DB)
				if c.commit != nil {
					fail := c.commit(books)
					books.OnCommit = func(n int, tx *sql.Tx) error {
						if n < 3 {
							return fail(n, tx)
						}
						return tx.Commit()
					}
				}
				run := world.Must[*perdure.Run[int]](t)(fails.Start(t.Context(), w.Engine, 1))
				if out := world.Must[int](t)(run.Result(t.Context())); out != 7 || bodies != 3 {
					t.Errorf("%d after %d attempts", out, bodies)
				}
				entries := world.Must[[]journal.Entry](t)(w.Engine.History(t.Context(), run.ID(), 0,
					0))
				if got := fmt.Sprint(world.Tail(entries, 9)); w.Invoices() != 1 ||
					got != "[RunStarted StepRetrying book StepStarted book StepRetrying book "+
						"StepStarted book StepCompleted book RunCompleted]" {
					t.Errorf("%d invoices, %s", w.Invoices(), got)
				}
			})
		})
	}
}

// A mortal is a store whose process can die.
type mortal struct {
	store.Store
	dead atomic.Bool
}

func (m *mortal) err(err error) error {
	if m.dead.Load() {
		return store.ErrClosed
	}
	return err
}

func (m *mortal) Commit(ctx context.Context, g *store.Group) error {
	if m.dead.Load() {
		return store.ErrClosed
	}
	return m.err(m.Store.Commit(ctx, g))
}

func (m *mortal) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if m.dead.Load() {
		return store.Claimed{}, store.ErrClosed
	}
	return m.Store.Claim(ctx, c)
}

func (m *mortal) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	if m.dead.Load() {
		return nil, store.ErrClosed
	}
	return m.Store.Load(ctx, run, r)
}

func (m *mortal) In(tx any) (store.Transaction, error) {
	if m.dead.Load() {
		return nil, store.ErrClosed
	}
	return m.Store.(store.Transactor).In(tx)
}

// A mishap is a planned failure of a run: in a call of the store, at the end of the transaction,
// or both.
type mishap struct {
	plan         storetest.Plan
	commit       int  // number of the commit of a transaction
	done, killed bool // whether it is committed; whether the process dies with it
}

// TestInvoicesAndResultsAreOneWhateverFails makes everything fail at every place: J6.
//
// spec: B-4
func TestInvoicesAndResultsAreOneWhateverFails(t *testing.T) {
	if testing.Short() {
		t.Skip("each mishap has a database on disk")
	}
	var all []mishap
	for call := 1; call <= 12; call++ {
		for _, f := range []storetest.Fault{
			storetest.FailBefore, storetest.FailAfter, storetest.CrashBefore, storetest.CrashAfter,
		} {
			all = append(all, mishap{
				plan: storetest.Plan{Method: storetest.Any, Call: call, Fault: f},
			})
		}
	}
	for _, done := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			all = append(all, mishap{commit: 1, done: done, killed: killed})
			for _, m := range []storetest.Method{storetest.Commit, storetest.Load} {
				for call := 1; call <= 4; call++ {
					all = append(all, mishap{
						commit: 1,
						done:   done,
						killed: killed,
						plan:   storetest.Plan{Method: m, Call: call, Fault: storetest.FailAfter},
					})
				}
			}
		}
	}
	crashes, met := 0, 0
	for _, m := range all {
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dead, injected := misfortune(t, m)
				if dead {
					crashes++
				}
				if injected {
					met++
				}
			})
		})
	}
	if crashes < 15 || met < 40 {
		t.Errorf("%d crashes and %d faults: this has proved little", crashes, met)
	}
}

// misfortune causes one mishap and returns its effects.
func misfortune(t *testing.T, m mishap) (dead, injected bool) {
	path := filepath.Join(t.TempDir(), "shop.db")
	books := &world.Till{}
	def := bookings(books)
	id, client := "", (*perdure.Client)(nil)
	world.Must[*sqlite.Store](t)(sqlite.Open(path)).Close()
	db := world.OpenTables(t, path)
	defer db.Close()
	books.Transactions = sqlite.Transactions(db)
	for life := 1; ; life++ {
		s := world.Must[*sqlite.Store](t)(sqlite.Open(path))
		var plans []storetest.Plan
		if life == 1 && m.plan.Call > 0 {
			plans = append(plans, m.plan)
		}
		f := storetest.NewFaulty(s, plans...)
		process := &mortal{Store: f}
		books.OnCommit = func(n int, tx *sql.Tx) error {
			if n != m.commit || life > 1 {
				return tx.Commit()
			}
			end := tx.Rollback
			if m.done {
				end = tx.Commit
			}
			process.dead.Store(m.killed)
			return errors.Join(storetest.ErrInjected, end())
		}
		eng := world.Must[*perdure.Engine](t)(
			perdure.New(process, perdure.Options{IdleTimeout: -1}))
		if err := eng.Register(def); err != nil {
			t.Fatal(err)
		}
		client = world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), s))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- eng.Run(ctx) }()
		if life == 1 {
			id = world.Must[*perdure.Run[json.RawMessage]](t)(
				client.Start(ctx, "booking", []byte("7"),
					perdure.ID("b-1"))).ID()
		}
		for ended := false; !ended; {
			time.Sleep(time.Second)
			select {
			case <-done:
				done <- nil
				ended, dead = true, true
			default:
				h := world.Must[*perdure.Run[json.RawMessage]](t)(client.Get(ctx, id))
				d := world.Must[[]perdure.Status](t)(client.Statuses(ctx, h.RunID()))
				ended = d[0].IsTerminal()
			}
		}
		stop()
		<-done
		injected = injected || len(f.Injected()) > 0 || m.commit > 0
		st := world.Must[[]perdure.Status](t)(client.Statuses(t.Context(), id))[0]
		if st.IsTerminal() {
			var n int
			if err := db.QueryRow("select count(*) from invoices").Scan(&n); err != nil {
				t.Fatal(err)
			}
			entries := world.Must[[]journal.Entry](t)(client.History(t.Context(), id, 0, 0))
			if got := completed(entries, "book"); st.Head.Status != journal.Completed || n != 1 ||
				got != 1 {
				t.Errorf("the run is %v with %d invoices and %d results: %v", st.Head.Status, n,
					got,
					world.Tail(entries, 20))
			}
			for i, e := range entries {
				if e.Seq != int64(i+1) {
					t.Errorf("entry %d has sequence %d", i+1, e.Seq)
				}
			}
			s.Close()
			return dead, injected
		}
		s.Close()
		if life > 3 {
			t.Fatalf("the run is %v after three lives", st.Head.Status)
		}
	}
}

// spec: B-4
func TestManyStepsInTransactionsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		many := perdure.Define("many", func(ctx context.Context, branches int) (int, error) {
			var sums []*perdure.Future[int]
			for i := range branches {
				sums = append(
					sums, perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
						if err := world.PlainStep(ctx, "before"); err != nil {
							return 0, err
						}
						n, err := perdure.StepTx(ctx, "book", books,
							func(ctx context.Context, tx *sql.Tx) (int, error) {
								return world.Book(ctx, tx, 1)
							})
						return n, errors.Join(err, world.PlainStep(ctx, "after"))
					}, perdure.Key(fmt.Sprint("b", i))))
			}
			sum := 0
			for _, f := range sums {
				n, err := f.Await(ctx)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		})
		w := world.NewShop(t, perdure.Options{}, many)
		books.Transactions = sqlite.Transactions(w.DB)
		books.OnCommit = func(n int, tx *sql.Tx) error { // sometimes a commit fails, done or not
			switch n % 7 {
			case 3:
				return errors.Join(storetest.ErrInjected, tx.Rollback())
			case 5:
				return errors.Join(storetest.ErrInjected, tx.Commit())
			}
			return tx.Commit()
		}
		var runs []*perdure.Run[int]
		for range 12 {
			runs = append(runs, world.Must[*perdure.Run[int]](t)(
				many.Start(t.Context(), w.Engine, 5)))
		}
		results := 0
		for _, run := range runs {
			if sum := world.Must[int](t)(run.Result(t.Context())); sum != 5 {
				t.Errorf("a run has booked %d", sum)
			}
			entries := world.Must[[]journal.Entry](t)(w.Engine.History(t.Context(), run.ID(), 0, 0))
			for _, bad := range world.Audit(world.Must[perdure.Description](t)(
				w.Engine.Describe(t.Context(),
					run.ID())), entries) {
				t.Error(bad)
			}
			results += completed(entries, "book")
		}
		if n := w.Invoices(); n != 60 || results != 60 {
			t.Errorf("%d invoices and %d results, want 60 of each", n, results)
		}
	})
}

// A body that takes too long loses its transaction at once: the record of the timeout must not
// wait for it. The cancel does not wait either for the engine's claim of another run, which waits
// for the lock that the transaction has.
//
// spec: B-4
func TestAStepThatIsGivenUpIsRolledBack(t *testing.T) {
	for _, how := range []string{"timed out", "cancelled"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				books := &world.Till{}
				entered := make(chan struct{}, 1)
				slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
					return perdure.StepTx(ctx, "book", books,
						func(ctx context.Context, tx *sql.Tx) (int, error) {
							if _, err := world.Book(ctx, tx, 1); err != nil {
								return 0, err
							}
							entered <- struct{}{}
							<-ctx.Done()
							return 1, nil
						}, perdure.Timeout(5*time.Second), perdure.NoRetry)
				})
				nap := perdure.Define("nap", func(ctx context.Context, _ int) (int, error) {
					return 1, perdure.Sleep(ctx, time.Second)
				})
				w := world.NewShop(t, perdure.Options{IdleTimeout: -1}, slow, nap)
				books.Transactions = sqlite.Transactions(w.DB)
				other := world.Must[*perdure.Run[int]](t)(nap.Start(t.Context(), w.Engine, 1))
				synctest.Wait()
				run := world.Must[*perdure.Run[int]](t)(slow.Start(t.Context(), w.Engine, 1))
				<-entered
				time.Sleep(2 * time.Second) // the other run is due
				want, within := journal.CodeTimedOut, 4*time.Second
				if how == "cancelled" {
					want, within = journal.CodeCancelled, time.Second
					if err := w.Engine.Cancel(t.Context(), run.ID(), "enough"); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				_, err := run.Result(t.Context())
				if journal.CodeOf(err) != want || time.Since(began) > within || w.Invoices() != 0 {
					t.Errorf("%v after %v, %d invoices", err, time.Since(began), w.Invoices())
				}
				world.Must[int](t)(other.Result(t.Context()))
			})
		})
	}
}

// spec: B-4
func TestABodyInATransactionRecordsNothingBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		var once error
		defs := perdure.Define("once", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				_, once = perdure.Once(ctx, "k", func() (int, error) { return 1, nil })
				return world.Book(ctx, tx, 1)
			})
		})
		w := world.NewShop(t, perdure.Options{}, defs)
		books.Transactions = sqlite.Transactions(w.DB)
		world.Must[int](t)(world.Must[*perdure.Run[int]](t)(defs.Start(t.Context(), w.Engine,
			1)).Result(t.Context()))
		if journal.CodeOf(once) != journal.CodeMisuse {
			t.Errorf("Once gives %v", once)
		}
	})
}

// spec: B-4
func TestAStepStartsAndSignalsInItsTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		var w *world.Shop
		sends := perdure.Define("sends", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				n, last, err := perdure.Attempt(ctx)
				if err == nil {
					_, err = perdure.SendWithStart(ctx, w.Engine.In(tx), settled, n, dunns, 10,
						perdure.ID("inv-1"))
				}
				if err == nil && !last {
					err = errors.New("no")
				}
				return n, err
			}, perdure.Retry{Attempts: 2})
		})
		w = world.NewShop(t, perdure.Options{}, sends, dunns)
		books.Transactions = sqlite.Transactions(w.DB)
		world.Must[int](t)(world.Must[*perdure.Run[int]](t)(sends.Start(t.Context(), w.Engine,
			1)).Result(t.Context()))
		run := world.Must[*perdure.Run[int]](t)(dunns.Get(t.Context(), w.Engine, "inv-1"))
		if left := world.Must[int](t)(run.Result(t.Context())); left != 8 {
			t.Errorf("%d are left to pay: it has got the signal of an attempt that failed", left)
		}
	})
}

// The memory store takes any transaction, so that workflows can be tested without a
// database.
//
// spec: B-4
func TestAStepInATransactionNeedsAStoreThatTakesPart(t *testing.T) {
	for name, c := range map[string]struct {
		store store.Store
		code  journal.Code
	}{
		"memory":                          {memory.New(), ""},
		"a store that takes part in none": {onlyStore{memory.New()}, journal.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := world.Must[*perdure.Engine](t)(perdure.New(c.store, perdure.Options{}))
				bodies := 0
				here := perdure.Define("here", func(ctx context.Context, _ int) (int, error) {
					return perdure.StepTx(ctx, "book", anyTx{}, func(context.Context, int) (int,
						error) {
						bodies++
						return 1, nil
					})
				})
				if err := eng.Register(here); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- eng.Run(ctx) }()
				run := world.Must[*perdure.Run[int]](t)(here.Start(ctx, eng, 1))
				if _, err := run.Result(ctx); journal.CodeOf(err) != c.code ||
					(bodies == 1) != (c.code == "") {
					t.Errorf("%v after %d bodies", err, bodies)
				}
				stop()
				<-done
			})
		})
	}
}

// anyTx are transactions without a database.
type anyTx struct{}

func (anyTx) Begin(context.Context) (int, error)  { return 1, nil }
func (anyTx) Commit(context.Context, int) error   { return nil }
func (anyTx) Rollback(context.Context, int) error { return nil }

// A message that arrives while the result of such a step is tentative is recorded after the
// result, and keeps its place if the transaction is rolled back.
//
// spec: B-4
func TestResultsAreDeliveredInOrderAroundATransaction(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(tx *sql.Tx) error
		want string
	}{
		"committed": {func(tx *sql.Tx) error { return tx.Commit() }, "[book other]"},
		"committed, with luck": {
			func(tx *sql.Tx) error { return errors.Join(storetest.ErrInjected, tx.Commit()) },
			"[book other]",
		},
		"rolled back": {
			func(tx *sql.Tx) error { return errors.Join(storetest.ErrInjected, tx.Rollback()) },
			"[other book]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				books := &world.Till{}
				let := make(chan struct{})
				both := perdure.Define("both", func(ctx context.Context, _ int) (string, error) {
					var order []string
					other := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
						_, err := perdure.Step(ctx, "other", func(context.Context) (int, error) {
							<-let
							return 1, nil
						})
						order = append(order, "other")
						return 1, err
					})
					_, err := perdure.StepTx(ctx, "book", books,
						func(ctx context.Context, tx *sql.Tx) (int, error) {
							if err := perdure.Emit(ctx, "booked", 1); err != nil {
								return 0, err
							}
							return world.Book(ctx, tx, 1)
						})
					order = append(order, "book")
					if _, e := other.Await(ctx); e != nil || err != nil {
						return "", errors.Join(err, e)
					}
					was, err := perdure.Step(ctx, "order", func(context.Context) (string, error) {
						return fmt.Sprint(order), nil
					})
					if err == nil {
						err = perdure.Sleep(ctx, time.Hour) // and the code is called again
					}
					if is := fmt.Sprint(order); err == nil && is != was {
						err = fmt.Errorf("the order was %s and is %s", was, is)
					}
					return was, err
				})
				w := world.NewShop(t, perdure.Options{IdleTimeout: -1}, both)
				books.Transactions = sqlite.Transactions(w.DB)
				books.OnCommit = func(n int, tx *sql.Tx) error {
					if n > 1 {
						return tx.Commit()
					}
					close(let)
					time.Sleep(10 * time.Millisecond) // the other result is there
					return c.end(tx)
				}
				run := world.Must[*perdure.Run[string]](t)(both.Start(t.Context(), w.Engine, 1))
				if was := world.Must[string](t)(run.Result(t.Context())); was != c.want {
					t.Errorf("the order was %s, want %s", was, c.want)
				}
				entries := world.Must[[]journal.Entry](t)(w.Engine.History(t.Context(), run.ID(), 0,
					0))
				d := world.Must[perdure.Description](t)(w.Engine.Describe(t.Context(), run.ID()))
				for _, bad := range world.Audit(d, entries) {
					t.Error(bad)
				}
				if w.Invoices() != 1 || completed(entries, "book") != 1 {
					t.Errorf("%d invoices: %v", w.Invoices(), world.Tail(entries, 20))
				}
			})
		})
	}
}
