package barrier_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// A meeting is two deliveries at the same time: the second one comes while the transaction of the
// first is open.
type meeting struct {
	tried         bool // the try came before
	first, second perdure.Phase
}

// meetings are the meetings in which the second delivery must wait for the first.
var meetings = []meeting{
	{false, try, try}, {false, try, cancel}, {false, cancel, try}, {false, cancel, cancel},
	{true, confirm, confirm}, {true, confirm, cancel}, {true, cancel, confirm},
	{true, cancel, cancel},
	{false, plain, plain}, {false, plain, undo}, {false, undo, plain}, {false, undo, undo},
}

// A first is a delivery whose transaction is open.
type first struct {
	p     *participant
	tx    *sql.Tx
	h     history // what is committed before it
	event event
}

func (m meeting) begin(p *participant, o *sql.TxOptions) first {
	p.t.Helper()
	f := first{p: p}
	if m.tried {
		f.h = f.h.play(p, try, none)
	}
	f.tx = must[*sql.Tx](p.t)(p.db.BeginTx(p.t.Context(), o))
	runs, _, _ := f.h.next(m.first)
	n, err := barrier.Do(p.ctx[m.first], f.tx, p.effect(m.first, none))
	if err != nil || runs != (n != 0) {
		p.t.Fatalf("the first gives %d, %v", n, err)
	}
	f.event = event{m.first, runs, n}
	return f
}

// end commits the first delivery or rolls it back, and returns the model after that.
func (f first) end(commits bool) history {
	f.p.t.Helper()
	end := f.tx.Rollback
	if commits {
		end, f.h = f.tx.Commit, append(f.h, f.event)
	}
	if err := end(); err != nil {
		f.p.t.Fatal(err)
	}
	return f.h
}

const whoWaits = `select exists (select from pg_locks join pg_stat_activity using (pid)
	where datname = current_database() and not granted and locktype = 'transactionid')`

// awaitLock returns when a session of the database waits for the transaction of another one.
func awaitLock(t *testing.T, db *sql.DB) {
	t.Helper()
	for waiting := false; !waiting; {
		if err := db.QueryRow(whoWaits).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

// spec: F-43
func TestTheSecondOfTwoAtATimeWaitsAndSeesWhatTheFirstCameTo(t *testing.T) {
	db := opened(t, "pgx", testpg.URL(t))
	s := newStage(t)
	for _, m := range meetings {
		for _, commits := range []bool{true, false} {
			for _, level := range []sql.IsolationLevel{
				sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
			} {
				t.Run(fmt.Sprintf("%s, %s, commits: %v, %v", name(m.first), name(m.second), commits,
					level), func(t *testing.T) {
					p := s.participant(db)
					p.t = t
					m.waits(p, &sql.TxOptions{Isolation: level}, commits)
				})
			}
		}
	}
}

// waits plays a meeting on PostgreSQL.
func (m meeting) waits(p *participant, o *sql.TxOptions, commits bool) {
	t := p.t
	first := m.begin(p, o)
	second := make(chan error)
	var n int
	tx := must[*sql.Tx](t)(p.db.BeginTx(t.Context(), o))
	go func() {
		var err error
		n, err = barrier.Do(p.ctx[m.second], tx, p.effect(m.second, none))
		second <- err
	}()
	awaitLock(t, p.db)
	h := first.end(commits)
	err := <-second
	runs, want, wantErr := h.next(m.second)
	if runs {
		want = int(p.next.Load())
	}
	// the transaction cannot see the result that it has waited for
	if commits && o.Isolation != sql.LevelReadCommitted {
		var state interface{ SQLState() string }
		if !errors.As(err, &state) || state.SQLState() != "40001" || !isRetried(t, err) {
			t.Errorf("the second gives %d, %v", n, err)
		}
		tx.Rollback()
		h.play(p, m.second, none).agrees(p)
		return
	}
	if n != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Errorf("the second gives %d, %v, want %d, %v", n, err, want, wantErr)
	}
	end := tx.Commit
	if err != nil {
		end = tx.Rollback
	} else {
		h = append(h, event{m.second, runs, n})
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	h.agrees(p)
}

// attempts returns how often a step is tried that fails with an error and may be tried twice, and
// the error that its workflow gets.
func attempts(t *testing.T, err error) (n int, recorded error) {
	t.Helper()
	fails := perdure.Define("fails", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "fails", func(context.Context) (int, error) {
			n++
			return 0, err
		}, perdure.Retry{Attempts: 2, First: 1})
	})
	engine := must[*perdure.Engine](t)(perdure.New(memory.New(), perdure.Options{}))
	if err := engine.Register(fails); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	run := must[*perdure.Run[int]](t)(fails.Start(ctx, engine, 1))
	_, recorded = run.Result(ctx)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return n, recorded
}

func isRetried(t *testing.T, err error) bool {
	t.Helper()
	n, _ := attempts(t, err)
	return n == 2
}

// spec: F-43
func TestWhatComesAtTheWrongTimeIsNotTriedAgain(t *testing.T) {
	p := newStage(t).participant(openSQLite(t))
	refused := func(phase perdure.Phase, want error) {
		t.Helper()
		_, err := p.deliver(phase, none)
		if n, recorded := attempts(t, err); n != 1 || !errors.Is(recorded, want) ||
			journal.CodeOf(err) != journal.CodeWrongState {
			t.Errorf("%v is tried %d times, and recorded as %v", err, n, recorded)
		}
	}
	refused(confirm, barrier.ErrNotTried)
	p.expect(undo, 0, nil)
	refused(plain, barrier.ErrCancelled)
}

// spec: F-43
func TestWhoCannotWaitOnSQLiteIsToldToTryAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, other := opened(t, "sqlite", dsn(path, "")), opened(t, "sqlite", dsn(path, ""))
	s := newStage(t)
	busy := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "database is locked") ||
			!isRetried(t, err) {
			t.Errorf("the second gives %v", err)
		}
	}
	for _, m := range meetings {
		p := s.participant(db)
		first := m.begin(p, nil)
		p.db = other
		_, err := p.deliver(m.second, none)
		busy(err)
		first.end(true).play(p, m.second, none).agrees(p)

		p = s.participant(db)
		tx := must[*sql.Tx](t)(other.Begin()) // it reads before the first one writes
		var lines int
		if err := tx.QueryRow("select count(*) from ledger").Scan(&lines); err != nil {
			t.Fatal(err)
		}
		h := m.begin(p, nil).end(true)
		_, err = barrier.Do(p.ctx[m.second], tx, p.effect(m.second, none))
		busy(err)
		tx.Rollback()
		h.play(p, m.second, none).agrees(p)
	}
}

// spec: F-43
func TestManyAtATimeTakeEffectOnce(t *testing.T) {
	onBoth(t, manyAtATime)
	t.Run("SQLite, without the lock at the beginning", func(t *testing.T) {
		manyAtATime(t, opened(t, "sqlite", dsn(filepath.Join(t.TempDir(), "app.db"),
			"_pragma=busy_timeout(30000)"+quick)))
	})
}

func manyAtATime(t *testing.T, db *sql.DB) {
	s := newStage(t)
	for range 20 {
		p := s.participant(db)
		var mu sync.Mutex
		results := map[perdure.Phase]int{}
		var done sync.WaitGroup
		for range 16 {
			phase := phases[rand.IntN(len(phases))]
			done.Go(func() {
				n, err := p.deliver(phase, none)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, barrier.ErrCancelled), errors.Is(err, barrier.ErrNotTried):
				case err != nil:
					t.Error(err)
				case results[phase] == 0:
					results[phase] = n
				case n != results[phase]:
					t.Errorf("%s gives %d and %d", name(phase), results[phase], n)
				}
			})
		}
		done.Wait()
		took := map[perdure.Phase]int{}
		for _, e := range p.ledger() {
			if e.phase == back && took[confirm] != 0 {
				e.phase, took[confirm] = cancel, 0
			}
			if took[e.phase] != 0 || e.n != results[e.phase] {
				t.Errorf("the ledger has %v twice, or not as its result %d", e, results[e.phase])
			}
			took[e.phase] = e.n
		}
		if took[confirm] != 0 && took[cancel] != 0 || took[try] == 0 && took[confirm]+
			took[cancel] != 0 || took[plain] == 0 && took[undo] != 0 {
			t.Errorf("the ledger has %v", took)
		}
	}
}
