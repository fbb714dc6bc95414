package barrier_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store/memory"
	_ "github.com/perdure/perdure/store/sqlite" // registers the driver
)

const (
	try     = perdure.PhaseTry
	confirm = perdure.PhaseConfirm
	cancel  = perdure.PhaseCancel
	plain   = perdure.Phase("")
	undo    = perdure.PhaseUndo
)

// back is in the ledger for a cancel after a confirm.
const back = perdure.Phase("CANCEL after CONFIRM")

var phases = []perdure.Phase{try, confirm, cancel, plain, undo}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Options of SQLite.
const (
	// a transaction waits for the lock when it begins
	waiting = "_txlock=immediate&_pragma=busy_timeout(30000)"
	quick   = "&_pragma=synchronous(off)"
)

func dsn(path, options string) string {
	return "file:" + filepath.ToSlash(path) + "?_pragma=journal_mode(wal)&" + options
}

// opened returns a database with the table and a ledger.
func opened(t testing.TB, driver, at string) *sql.DB {
	t.Helper()
	db := must[*sql.DB](t)(sql.Open(driver, at))
	t.Cleanup(func() { db.Close() })
	if err := barrier.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(
		"create table if not exists ledger (who text, what text, n bigint)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func openSQLite(t testing.TB) *sql.DB {
	return opened(t, "sqlite", dsn(filepath.Join(t.TempDir(), "app.db"), waiting+quick))
}

// onBoth runs a test on SQLite, and on PostgreSQL if there is one.
func onBoth(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Run("SQLite", func(t *testing.T) { test(t, openSQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, opened(t, "pgx", testpg.URL(t))) })
}

// A cast describes the steps that a run of a stage executes: one of each key in each phase.
type cast struct {
	Scopes []string // the scopes of the steps, the outermost first
	Keys   []string
}

// A stage has runs of which every step is being executed until the test ends. So a test has the
// contexts of bodies, and can do in any order what bodies do.
type stage struct {
	t      *testing.T
	engine *perdure.Engine
	acts   *perdure.Workflow[cast, int]
	bodies chan context.Context
	over   chan struct{}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, bodies: make(chan context.Context), over: make(chan struct{})}
	s.acts = perdure.Define("stage", s.run)
	s.engine = must[*perdure.Engine](t)(perdure.New(memory.New(), perdure.Options{}))
	if err := s.engine.Register(s.acts); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		close(s.over)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stage) run(ctx context.Context, c cast) (_ int, err error) {
	for _, scope := range c.Scopes {
		if ctx, err = perdure.Scope(ctx, scope); err != nil {
			return 0, err
		}
	}
	var all []*perdure.Future[int]
	for _, key := range c.Keys {
		for _, phase := range phases {
			opts := []perdure.StepOption{perdure.Key(key)}
			if phase != plain {
				opts = append(opts, phase)
			}
			all = append(all, perdure.Async(ctx, "act", s.body, opts...))
		}
	}
	for _, f := range all {
		_, err = f.Await(ctx)
	}
	return 0, err
}

func (s *stage) body(ctx context.Context) (int, error) {
	select {
	case s.bodies <- ctx:
	case <-s.over:
	}
	<-s.over
	return 0, nil
}

// A participant is something in a run that is tried, confirmed, cancelled, done and undone.
type participant struct {
	t    *testing.T
	db   *sql.DB
	of   string
	run  string
	ctx  map[perdure.Phase]context.Context
	next atomic.Int64
}

// participants starts a run with a participant for each key.
func (s *stage) participants(db *sql.DB, c cast) []*participant {
	s.t.Helper()
	if _, err := s.acts.Start(context.Background(), s.engine, c); err != nil {
		s.t.Fatal(err)
	}
	byPath := map[string]*participant{}
	var order []string
	for range len(c.Keys) * len(phases) {
		ctx := <-s.bodies
		info, _ := perdure.StepOf(ctx)
		p := byPath[info.Of]
		if p == nil {
			p = &participant{
				t:   s.t,
				db:  db,
				of:  info.Of,
				run: string(info.Run.ID),
				ctx: map[perdure.Phase]context.Context{},
			}
			byPath[info.Of], order = p, append(order, info.Of)
		}
		p.ctx[info.Phase] = ctx
	}
	var out []*participant
	for _, of := range order {
		if p := byPath[of]; len(p.ctx) == len(phases) {
			out = append(out, p)
		}
	}
	if len(out) != len(c.Keys) {
		s.t.Fatalf("there are %d participants with all phases among %q", len(out), order)
	}
	return out
}

func (s *stage) participant(db *sql.DB) *participant {
	s.t.Helper()
	return s.participants(db, cast{Keys: []string{"debit"}})[0]
}

// A fault is a failure of a delivery.
type fault int

const (
	none   fault = iota
	fails        // the function returns an error
	panics       // the function panics
	lost         // the transaction is rolled back at its end
)

var errNo = errors.New("no")

// effect writes a line into the ledger and returns its number, which is unique.
func (p *participant) effect(phase perdure.Phase, f fault) func(context.Context, *sql.Tx) (int,
	error) {
	return func(ctx context.Context, tx *sql.Tx) (int, error) {
		n := int(p.next.Add(1))
		if barrier.Confirmed(ctx) {
			phase = back
		}
		if _, err := tx.ExecContext(ctx, "insert into ledger (who, what, n) values ($1, $2, $3)",
			p.run+p.of, string(phase), n); err != nil {
			return 0, err
		}
		switch f {
		case fails:
			return n, errNo
		case panics:
			panic("no")
		}
		return n, nil
	}
}

// errPanic stands for a panic that left a delivery.
var errPanic = errors.New("it panicked")

// deliver executes a phase once.
func (p *participant) deliver(phase perdure.Phase, f fault) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errPanic
		}
	}()
	if f != lost {
		return barrier.In(p.ctx[phase], p.db, p.effect(phase, f))
	}
	tx, err := p.db.BeginTx(p.ctx[phase], nil)
	if err != nil {
		return 0, err
	}
	n, err = barrier.Do(p.ctx[phase], tx, p.effect(phase, none))
	return n, errors.Join(err, tx.Rollback())
}

// An entry is a line of the ledger.
type entry struct {
	phase perdure.Phase
	n     int
}

// ledger returns the effects, in their order.
func (p *participant) ledger() (out []entry) {
	p.t.Helper()
	rows := must[*sql.Rows](p.t)(p.db.Query("select what, n from ledger where who = $1 order by n",
		p.run+p.of))
	defer rows.Close()
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.phase, &e.n); err != nil {
			p.t.Fatal(err)
		}
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// expect delivers a phase and compares the result.
func (p *participant) expect(phase perdure.Phase, want int, wantErr error) {
	p.t.Helper()
	if got, err := p.deliver(phase, none); got != want || !errors.Is(err, wantErr) ||
		(err == nil) != (wantErr == nil) {
		p.t.Errorf("%s gives %d, %v, want %d, %v", name(phase), got, err, want, wantErr)
	}
}

// tookEffect compares the ledger with the wanted effects.
func (p *participant) tookEffect(want ...entry) {
	p.t.Helper()
	if got := p.ledger(); fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Errorf("the ledger has %v, want %v", got, want)
	}
}

func name(phase perdure.Phase) string {
	if phase == plain {
		return "STEP"
	}
	return string(phase)
}
