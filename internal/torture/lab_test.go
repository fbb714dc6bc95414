//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/judge"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/internal/torture/world"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// registered registers the errors of programs once.
var registered = sync.OnceValue(play.Register)

// A lab is a store in this process, and the engine that runs on it now.
type lab struct {
	t        *testing.T
	open     func() store.Store // another handle on the same data
	play     func() *play.Env   // the parts of another process
	ledger   *world.Ledger
	db       *sql.DB
	patience time.Duration // until everything must have ended

	mu    sync.Mutex
	store store.Store
	env   *play.Env
	eng   *perdure.Engine
	stop  context.CancelFunc
	done  chan error
}

func (l *lab) begin() {
	l.t.Helper()
	s, env := l.open(), l.play()
	eng, err := perdure.New(s, perdure.Options{
		Build: "lab", IdleTimeout: -1, Drain: -1, Sweep: time.Second, Publisher: moody(),
		Interceptor: play.Around,
	})
	if err == nil {
		err = eng.Register(env.Definitions()...)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	env.Use(eng)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store, l.env, l.eng, l.stop, l.done = s, env, eng, cancel, done
}

// moody is a publisher that panics now and then.
func moody() func(context.Context, perdure.Event) error {
	n := 0
	var mu sync.Mutex
	return func(context.Context, perdure.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%5 == 0 {
			return errors.New("not now")
		}
		return nil
	}
}

func (l *lab) now() (*play.Env, *perdure.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.env, l.eng.Client
}

func (l *lab) purge(ctx context.Context) error {
	l.mu.Lock()
	eng := l.eng
	l.mu.Unlock()
	_, _, err := eng.Purge(ctx)
	return err
}

// end ends the engine: in good order, or as the death of its process would.
func (l *lab) end(crash bool) {
	if crash {
		_ = l.store.Close()
	}
	l.stop()
	<-l.done
	if !crash {
		_ = l.store.Close()
	}
}

// torture executes programs while the engine dies and comes back, and returns the errors at the
// end.
func (l *lab) torture(seed uint64, programs []*program.Program, deaths int,
	every time.Duration) []string {
	l.t.Helper()
	if err := registered(); err != nil {
		l.t.Fatal(err)
	}
	l.alert()
	l.begin()
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	d := &actor.Actor{
		Now: l.now, Purge: l.purge, World: l.ledger, Pace: 10 * time.Millisecond, Seed: seed,
	}
	var cases []*actor.Case
	var wg sync.WaitGroup
	var bad []string
	for i, p := range programs {
		c := actor.NewCase(p, fmt.Sprintf("p%d-%d", p.Seed, i))
		cases = append(cases, c)
		wg.Go(func() {
			if err := d.Deal(ctx, c); err != nil {
				l.mu.Lock()
				bad = append(bad, err.Error())
				l.mu.Unlock()
			}
		})
	}
	over, all := make(chan struct{}), make(chan struct{})
	timed := d.Schedules("lab")
	var keeping sync.WaitGroup
	for _, t := range timed {
		keeping.Go(func() {
			if err := d.Keep(ctx, t, over); err != nil {
				l.mu.Lock()
				bad = append(bad, err.Error())
				l.mu.Unlock()
			}
		})
	}
	keeping.Go(func() {
		if err := d.Throttle(ctx, over); err != nil {
			l.mu.Lock()
			bad = append(bad, err.Error())
			l.mu.Unlock()
		}
	})
	keeping.Go(func() {
		if _, err := d.Merge(ctx, "lab", over); err != nil {
			l.mu.Lock()
			bad = append(bad, err.Error())
			l.mu.Unlock()
		}
	})
	keeping.Go(func() {
		if _, err := d.Fail(ctx, "count", over); err != nil {
			l.mu.Lock()
			bad = append(bad, err.Error())
			l.mu.Unlock()
		}
	})
	keeping.Go(func() {
		if _, err := d.Tell(ctx, "told", over); err != nil {
			l.mu.Lock()
			bad = append(bad, err.Error())
			l.mu.Unlock()
		}
	})
	keeping.Go(func() {
		if err := d.Alarm(ctx, over); err != nil {
			l.mu.Lock()
			bad = append(bad, err.Error())
			l.mu.Unlock()
		}
	})
	go func() { wg.Wait(); close(over); keeping.Wait(); close(all) }()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range deaths {
		select {
		case <-all:
		case <-time.After(time.Duration(1 + rng.Int64N(int64(every)))):
			l.end(l.db == nil && rng.IntN(4) > 0)
			l.begin()
		}
	}
	<-all
	bad = append(bad, l.settle(ctx)...)
	l.end(false)
	return append(bad, l.judge(cases, timed)...)
}

// alert sets the rule of alerts, through a client.
func (l *lab) alert() {
	l.t.Helper()
	s := l.open()
	c, err := perdure.NewClient(context.Background(), s)
	if err == nil {
		err = play.Alert(context.Background(), c)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		l.t.Fatal(err)
	}
}

// settle waits until all alerts are sent.
func (l *lab) settle(ctx context.Context) []string {
	for {
		sent, err := judge.AlertsAreSent(ctx, l.store)
		switch {
		case err != nil:
			return []string{err.Error()}
		case sent:
			return nil
		}
		select {
		case <-ctx.Done():
			return []string{"the alerts are not sent: " + ctx.Err().Error()}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (l *lab) judge(cases []*actor.Case, timed []*actor.Timed) []string {
	s := l.open()
	defer s.Close()
	ctx := context.Background()
	runs, err := judge.Read(ctx, s)
	if err != nil {
		return []string{err.Error()}
	}
	e := judge.Evidence{
		Cases: cases, Calls: l.ledger.Entries(), Runs: runs, Schedules: timed,
		Alerts: true,
	}
	if e.Unrouted, err = judge.ReadUnrouted(ctx, s); err != nil {
		return []string{err.Error()}
	}
	if e.Slots, err = judge.ReadSlots(ctx, s); err != nil {
		return []string{err.Error()}
	}
	if l.db != nil {
		if e.Money, err = judge.ReadMoney(ctx, l.db); err != nil {
			return []string{err.Error()}
		}
	}
	orphans, err := judge.Orphans(ctx, s)
	if err != nil {
		return []string{err.Error()}
	}
	bad := append(judge.Judge(e), orphans...)
	for _, c := range cases {
		if slices.ContainsFunc(bad, func(b string) bool { return strings.Contains(b, c.ID) }) {
			bad = append(bad, c.String(), judge.Story(runs, c.ID))
		}
	}
	return bad
}

func inMemory(t *testing.T) *lab {
	db := memory.New()
	l := &lab{t: t, patience: 3 * time.Minute, ledger: &world.Ledger{}}
	l.open = func() store.Store {
		db = db.Reopen()
		return db
	}
	l.play = func() *play.Env { return play.New(l.ledger, nil, nil) }
	return l
}

func onSQLite(t *testing.T) *lab {
	path := filepath.Join(t.TempDir(), "t.db")
	// In real time a seed takes ten seconds, and a minute on a busy machine.
	l := &lab{t: t, patience: 4 * time.Minute, ledger: &world.Ledger{}}
	l.open = func() store.Store {
		s, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := l.open().Close(); err != nil {
		t.Fatal(err)
	}
	db, err := openMoney(context.Background(), "sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	l.db = db
	l.play = func() *play.Env { return play.New(l.ledger, sqlite.Transactions(db), db) }
	return l
}

// unreal reports whether virtual time does not pass in this way of doing things.
func unreal(k program.Kind, what string) bool {
	return k == program.Blocked && what == "mutex"
}

// Every declaration ends as the oracle foresees, on SQLite, so that it has transactions, while
// the engine ends and comes back.
func TestEveryDeclarationOnSQLite(t *testing.T) {
	for seed := range seeds(t, 1) {
		var programs []*program.Program
		for i, f := range program.Declarations {
			for k := range uint64(3) {
				programs = append(programs, program.Generate(seed*1000+uint64(i)*10+k,
					program.Limits{Tx: true, Workflow: f.Name}))
			}
		}
		for _, bad := range onSQLite(t).torture(seed, programs, 4, 300*time.Millisecond) {
			t.Error(bad)
		}
	}
}

// Random programs of every kind end as the oracle foresees, on the store in memory and in virtual
// time, while the engine dies and comes back.
//
// spec: B-27
func TestProgramsInMemory(t *testing.T) {
	for seed := range seeds(t, 60) {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var programs []*program.Program
				for i := range uint64(6) {
					programs = append(programs,
						program.Generate(seed*100+i, program.Limits{Avoid: unreal}))
				}
				for _, bad := range inMemory(t).torture(seed, programs, int(seed%8),
					200*time.Millisecond) {
					t.Error(bad)
				}
			})
		}) {
			return
		}
	}
}

// The same on SQLite, in real time, with steps in transactions beside the others.
func TestProgramsOnSQLite(t *testing.T) {
	for seed := range seeds(t, 2) {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			var programs []*program.Program
			for i := range uint64(12) {
				programs = append(programs, program.Generate(seed*100+i, program.Limits{Tx: true}))
			}
			for _, bad := range onSQLite(t).torture(seed, programs, 4, 300*time.Millisecond) {
				t.Error(bad)
			}
		}) {
			return
		}
	}
}

// Code that goes wrong ends as its journal records, in whichever process replays it.
//
// spec: B-27
func TestCodeThatGoesWrongIsReplayedInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var programs []*program.Program
		for i, way := range program.Ways[program.Code] {
			p := &program.Program{Seed: uint64(i), Workflow: "code", End: "returns"}
			for id := 1; id <= 20; id += 2 {
				p.Body = append(p.Body, &program.Op{ID: id, Kind: program.Code, Way: way},
					&program.Op{ID: id + 1, Kind: program.Nap, Way: "sleep"})
			}
			programs = append(programs, p)
		}
		for _, bad := range inMemory(t).torture(1, programs, 20, 10*time.Millisecond) {
			t.Error(bad)
		}
	})
}
