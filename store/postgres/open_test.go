package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/internal/testpg/farm"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// mustOpen opens a database for a test.
func mustOpen(t *testing.T, url string, o Options) *Store {
	t.Helper()
	s, err := OpenWith(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// joined joins an engine through the handle.
func joined(t *testing.T, s *Store) journal.EngineID {
	t.Helper()
	c, err := s.Claim(t.Context(), store.Join{
		Self: store.Engine{Host: "host", PID: 1},
		Now:  time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Engine
}

// started returns a group that starts a run.
func started(t *testing.T, s *Store, engine journal.EngineID, count int64) *store.Group {
	t.Helper()
	n, err := journal.MakeNumber(engine, count)
	if err != nil {
		t.Fatal(err)
	}
	id := journal.MakeRunID(s.database, n)
	now := time.Now()
	return &store.Group{Engine: engine, Now: now, Changes: []store.Change{{
		Run: n, Create: true,
		Head: &journal.Head{
			Number: n, ID: id, WorkflowID: string(id), Workflow: "w", Status: journal.Running,
			Owner: engine, Wake: now, Created: now, Chain: n,
		},
		Entries: []journal.Entry{
			{Run: n, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: now},
		},
	}}}
}

// TestAServerThatLosesCommitsIsRefused turns off, one at a time, the settings that make
// commits durable.
func TestAServerThatLosesCommitsIsRefused(t *testing.T) {
	url := testpg.Start(t, testpg.Setting("fsync", "off")).URL()
	if _, err := Open(t.Context(), url); err == nil ||
		!strings.Contains(err.Error(), "fsync is off") {
		t.Errorf("opening a server without fsync gives %v", err)
	}
	s := mustOpen(t, url, Options{Unsafe: true})
	if info, err := s.Info(t.Context()); err != nil ||
		strings.Contains(info.Durability, "survives") {
		t.Errorf("Info promises %q, %v", info.Durability, err)
	}
	url = testpg.URL(t)
	if _, err := Open(t.Context(), url+"&synchronous_commit=off"); err == nil ||
		!strings.Contains(err.Error(), "synchronous_commit is off") {
		t.Errorf("opening a session without synchronous_commit gives %v", err)
	}
}

// Behind a pooler no session has settings of its own.
//
// spec: P-2
func TestAnotherIsolationBehindAPoolerIsRefused(t *testing.T) {
	url := testpg.URL(t) + "&default_transaction_isolation=serializable"
	if _, err := OpenWith(t.Context(), url, Options{Pooler: true}); err == nil ||
		!strings.Contains(err.Error(), "isolation is serializable") {
		t.Errorf("it gives %v", err)
	}
}

// A primary that has become a standby accepts no more writes. A node then looks for the new
// primary among the servers that its address names.
//
// spec: P-2
func TestAServerThatOnlyReadsIsLeftForTheOther(t *testing.T) {
	one, other := testpg.Start(t), testpg.Start(t)
	const on = "postgres://perdure@%s/postgres?sslmode=disable"
	mustOpen(t, fmt.Sprintf(on, other.Addr()), Options{})
	s := mustOpen(t, fmt.Sprintf(on, one.Addr()+","+other.Addr())+
		"&target_session_attrs=read-write", Options{})
	engine := joined(t, s)
	testpg.Execute(t, fmt.Sprintf(on, one.Addr()),
		"alter system set default_transaction_read_only = on", "select pg_reload_conf()")
	var err error
	var g *store.Group
	for n := int64(1); code(err) != readOnly; n++ { // until the server has read the setting
		if errors.Is(err, store.ErrFenced) {
			t.Fatal("it has never met the server that only reads")
		}
		g = started(t, s, engine, n)
		err = s.Commit(t.Context(), g)
	}
	g.Again = true
	// refused by the other server, which has no such engine
	if err = s.Commit(t.Context(), g); !errors.Is(err, store.ErrFenced) {
		t.Errorf("where the server only reads, it gives %v", err)
	}
}

// TestWhatIsNotForThisVersionIsRefused opens schemas of other applications and of other
// versions.
func TestWhatIsNotForThisVersionIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before  string
		options Options
		want    error
	}{
		"newer": {
			"create schema perdure; create table perdure.meta (key text, value text); insert " +
				"into perdure.meta values ('schema', '99')",
			Options{},
			store.ErrNewer,
		},
		"somebody else's": {
			"create schema perdure; create table perdure.orders (id int)",
			Options{},
			store.ErrForeign,
		},
		"without a version": {
			"create schema perdure; create table perdure.meta (key text, value text)",
			Options{},
			store.ErrForeign,
		},
		"a table of the same name": {
			"create schema perdure; create table perdure.meta (id int)",
			Options{},
			store.ErrForeign,
		},
		"a version that is none": {
			"create schema perdure; create table perdure.meta (key text, value text); insert " +
				"into perdure.meta values ('schema', 'x')",
			Options{},
			store.ErrForeign,
		},
		"not there, to read": {"select 1", Options{ReadOnly: true}, store.ErrOlder},
		"not there, to post": {"select 1", Options{Existing: true}, store.ErrOlder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testpg.URL(t)
			if err := execute(t, url, c.before); err != nil {
				t.Fatal(err)
			}
			if s, err := OpenWith(t.Context(), url, c.options); !errors.Is(err, c.want) {
				t.Errorf("opening it gives %v, %v", s, err)
			}
		})
	}
}

// TestASchemaThatIsThereButEmptyIsUsed covers an operator who created the schema for a role
// that may not create it.
func TestASchemaThatIsThereButEmptyIsUsed(t *testing.T) {
	url := testpg.URL(t)
	if err := execute(t, url, "create schema perdure"); err != nil {
		t.Fatal(err)
	}
	joined(t, mustOpen(t, url, Options{}))
}

// TestNodesThatBeginAtOnceMigrateOnce opens an empty database many times at the same time.
func TestNodesThatBeginAtOnceMigrateOnce(t *testing.T) {
	url := testpg.URL(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for range 6 {
		all.Go(func() {
			s, err := Open(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			mu.Lock()
			defer mu.Unlock()
			ids[s.database] = true
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Errorf("the identities are %v, want one", ids)
	}
}

// TestAMigrationThatIsCutOffLeavesWhatWasThere cuts the connection after more and more bytes
// of the server's answer, until a migration is not cut any more.
func TestAMigrationThatIsCutOffLeavesWhatWasThere(t *testing.T) {
	f := farm.New(t)
	cuts := 0
	for n := int64(200); ; n += n / 4 {
		url := f.URL(t)
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		proxy := faultproxy.New(t, net.JoinHostPort(config.Host, fmt.Sprint(config.Port)))
		proxy.CutAfter(faultproxy.ToClient, n)
		s, err := OpenWith(t.Context(), strings.Replace(url, fmt.Sprintf("%s:%d", config.Host,
			config.Port), proxy.Addr(), 1), Options{Timeout: 5 * time.Second})
		if err == nil {
			s.Close()
			break
		}
		cuts++
		joined(t, mustOpen(t, url, Options{}))
	}
	if cuts < 5 {
		t.Errorf("it was cut off %d times", cuts)
	}
}

// TestANodeStoppedInTheMiddleOfACommitDoesNotHoldUpItsTakeOver stops the data of a node when
// the server has received a part of a group: its session locks the engine's row.
//
// spec: B-5
func TestANodeStoppedInTheMiddleOfACommitDoesNotHoldUpItsTakeOver(t *testing.T) {
	url := testpg.URL(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := faultproxy.New(t, net.JoinHostPort(config.Host, fmt.Sprint(config.Port)))
	dead := mustOpen(t, strings.Replace(url, fmt.Sprintf("%s:%d", config.Host, config.Port),
		proxy.Addr(), 1), Options{})
	living := mustOpen(t, url, Options{})
	engine, other := joined(t, dead), joined(t, living)
	g := started(t, dead, engine, 1)
	if err := dead.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	big := &store.Group{Engine: engine, Now: time.Now()}
	data := make([]byte, 1<<20)
	for seq := int64(2); seq < 10; seq++ {
		big.Changes = append(big.Changes[:0], store.Change{Run: g.Changes[0].Run,
			Entries: append(entriesOf(big), journal.Entry{
				Run: g.Changes[0].Run, Seq: seq, Kind: journal.StepCompleted,
				Op: journal.Op{Name: "s", Occ: int(seq)}, At: time.Now(), Data: data,
			})})
	}
	proxy.StallAfter(faultproxy.ToServer, 4<<20)
	told := make(chan error, 1)
	go func() { told <- dead.Commit(t.Context(), big) }()
	held := "select count(*) from pg_locks l join pg_class c on c.oid = l.relation where " +
		"c.relname = 'engines' and l.mode = 'RowShareLock'"
	patient, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := 0; n == 0; {
		if err := living.pool.QueryRow(patient, held).Scan(&n); err != nil {
			t.Fatal("the commit holds no lock on its engine's row: ", err)
		}
	}
	if err := execute(t, url, "update perdure.engines set leased = clock_timestamp() where id = $1",
		int64(engine)); err != nil {
		t.Fatal(err)
	}
	c, err := living.Claim(t.Context(), store.Renew{Engine: other, Now: time.Now()})
	if err != nil || c.Expired != 1 || c.Freed != 1 {
		t.Errorf("the renewal of another gives %+v, %v", c, err)
	}
	proxy.Heal()
	if err := <-told; err == nil {
		t.Error("the commit of an engine that was taken over has succeeded")
	}
	big.Again = true
	if err := dead.Commit(t.Context(), big); !errors.Is(err, store.ErrFenced) {
		t.Errorf("sent again, it gives %v", err)
	}
	if entries, err := living.Load(t.Context(), g.Changes[0].Run, store.Range{}); err != nil ||
		len(entries) != 1 {
		t.Errorf("the run has %d entries, %v", len(entries), err)
	}
}

// TestALostSessionOfItsOwnDoesNotHoldAnEngineUp simulates a session that has begun a commit
// and whose client is gone, which the server has not detected.
//
// spec: B-5, P-2
func TestALostSessionOfItsOwnDoesNotHoldAnEngineUp(t *testing.T) {
	url := testpg.URL(t)
	s := mustOpen(t, url, Options{})
	engine := joined(t, s)
	lost, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer lost.Close(context.WithoutCancel(t.Context()))
	if _, err := lost.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := lost.Exec(t.Context(), "select from perdure.engines where id = $1 for key share",
		int64(engine)); err != nil {
		t.Fatal(err)
	}
	g := started(t, s, engine, 1)
	g.Again = true
	if err := s.Commit(t.Context(), g); err != nil || g.Changes[0].Verdict != store.Written {
		t.Errorf("the commit that is sent again gives %v, %v", err, g.Changes[0].Verdict)
	}
	if _, err := lost.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the lost session is there still")
	}
}

func entriesOf(g *store.Group) []journal.Entry {
	if len(g.Changes) == 0 {
		return nil
	}
	return g.Changes[0].Entries
}

// TestAnAnswerThatIsLostIsFoundOut cuts the connection after more and more bytes of the
// server's answer to a commit. A group that is sent again is there once, whether it was there
// before or not.
//
// spec: R-17
func TestAnAnswerThatIsLostIsFoundOut(t *testing.T) {
	url := testpg.URL(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := faultproxy.New(t, net.JoinHostPort(config.Host, fmt.Sprint(config.Port)))
	s := mustOpen(t, strings.Replace(url, fmt.Sprintf("%s:%d", config.Host, config.Port),
		proxy.Addr(), 1), Options{})
	engine := joined(t, s)
	there, lost := 0, 0
	for i := range int64(40) {
		way, bytes := faultproxy.ToClient, i*40
		if i%2 == 0 {
			way, bytes = faultproxy.ToServer, i*100
		}
		proxy.Cut() // the count begins with a new connection
		proxy.CutAfter(way, bytes)
		g := started(t, s, engine, i+1)
		g.Changes[0].Posts = []store.Post{
			{
				Run: g.Changes[0].Run,
				Message: journal.Entry{
					Kind: journal.SignalReceived,
					Op:   journal.Op{Name: "x"},
					At:   time.Now(),
				},
			},
		}
		err := s.Commit(t.Context(), g)
		proxy.Heal()
		for tries := 0; err != nil; tries++ {
			if tries == 20 {
				t.Fatalf("cut after %d bytes: %v", bytes, err)
			}
			lost++
			g.Again = true
			err = s.Commit(t.Context(), g)
		}
		if g.Changes[0].Verdict != store.Written ||
			g.Changes[0].Posts[0].Verdict != store.Delivered {
			t.Fatalf("cut after %d bytes: the verdicts are %+v", bytes, g.Changes[0])
		}
		inbox, err := s.Load(t.Context(), g.Changes[0].Run, store.Range{Inbox: true})
		if err != nil || len(inbox) != 1 {
			t.Fatalf("cut after %d bytes: the inbox has %d messages, %v", bytes, len(inbox), err)
		}
		there++
	}
	if lost == 0 {
		t.Error("no answer was lost")
	}
	t.Logf("%d commits, %d lost answers", there, lost)
}

// TestManyNodesShareFewConnections opens more handles than the server has connections. A call
// that gets no connection fails as unavailable and is tried again; no call is refused as
// invalid.
func TestManyNodesShareFewConnections(t *testing.T) {
	url := testpg.Start(t, testpg.Setting("max_connections", "12"),
		testpg.Setting("superuser_reserved_connections", "0")).URL()
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var s *Store
			err := errors.New("not opened")
			for s == nil && ctx.Err() == nil {
				s, err = Open(ctx, url)
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			var c store.Claimed
			for c.Engine == 0 && ctx.Err() == nil {
				c, err = s.Claim(ctx, store.Join{Now: time.Now()})
			}
			for i := range int64(20) {
				g := started(t, s, c.Engine, i+1)
				var data *store.DataError
				for err = s.Commit(ctx, g); err != nil && ctx.Err() == nil; err = s.Commit(ctx, g) {
					if errors.As(err, &data) || errors.Is(err, store.ErrFenced) {
						t.Error(err)
						return
					}
					g.Again = true
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
