package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An engine cannot choose what others do at the same time, and for how long. These tests put
// other transactions in its way.

// to returns a group with a message to a run, or to a workflow ID.
func to(run journal.Number, id string) *store.Group {
	p := store.Post{
		Run:        run,
		WorkflowID: id,
		Message: journal.Entry{
			Kind: journal.SignalReceived,
			Op:   journal.Op{Name: "s"},
			At:   time.Now(),
		},
	}
	if run == 0 {
		p.Until = time.Now().Add(time.Hour)
	}
	return &store.Group{Now: time.Now(), Changes: []store.Change{{Posts: []store.Post{p}}}}
}

// named sets the workflow ID of the run that a group starts.
func named(g *store.Group, id string) *store.Group {
	g.Changes[0].Head.WorkflowID = id
	return g
}

// unloads makes a group unload the run that it has started.
func unloads(g *store.Group, wake time.Time) *store.Group {
	h := *g.Changes[0].Head
	h.Owner, h.Wake, h.Status = 0, wake, journal.Waiting
	return &store.Group{
		Engine:  g.Engine,
		Now:     time.Now(),
		Changes: []store.Change{{Run: h.Number, Head: &h, Unload: true}},
	}
}

// done commits a group.
func done(t *testing.T, s *Store, g *store.Group) {
	t.Helper()
	if err := s.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// insist commits a group as an engine does after ErrHeld: again, until the group is written
// or refused. On a busy machine ErrHeld comes early.
func insist(s *Store, g *store.Group) error {
	for {
		if err := s.Commit(context.Background(), g); !errors.Is(err, store.ErrHeld) {
			return err
		}
	}
}

// session returns a connection of another process.
func session(t *testing.T, url string) *pgx.Conn {
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// user begins a transaction of the user's, and writes a group in it.
func user(t *testing.T, s *Store, url string, g *store.Group) (pgx.Tx, store.Transaction) {
	t.Helper()
	tx, err := session(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.In(tx)
	if err == nil {
		err = part.Commit(t.Context(), g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx, part
}

// stuck simulates a session that was stopped in the middle of a commit of an engine, whose
// lease then passes.
func stuck(t *testing.T, url string, engine journal.EngineID) {
	c := session(t, url)
	for _, sql := range []string{
		"begin", fmt.Sprintf("select from perdure.engines where id = %d for key share", engine),
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	lapse(t, url, engine)
}

func lapse(t *testing.T, url string, engine journal.EngineID) {
	if err := execute(t, url, "update perdure.engines set leased = clock_timestamp() - interval "+
		"'1 second' where id = $1", int64(engine)); err != nil {
		t.Fatal(err)
	}
}

// blocked waits until the given number of sessions wait for a lock.
func blocked(t *testing.T, url string, want int) {
	c := session(t, url)
	for n := 0; n < want; {
		err := c.QueryRow(t.Context(), "select count(*) from pg_stat_activity where "+
			"wait_event_type = 'Lock' and datname = current_database()").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// soon returns a context for calls that must not wait for another transaction.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// The run that has the workflow ID of a new run ends after the start has found it and before
// the start reads it.
//
// spec: P-1
func TestAStartWhoseRivalEndsMeanwhileIsWritten(t *testing.T) {
	url := testpg.URL(t)
	a, b := mustOpen(t, url, Options{}), mustOpen(t, url, Options{})
	one, other := joined(t, a), joined(t, b)
	rival := named(started(t, a, one, 1), "x")
	done(t, a, rival)
	y := named(started(t, a, one, 2), "y") // blocks the statement that writes both
	y.Engine = 0
	tx, _ := user(t, a, url, y)
	g := named(started(t, b, other, 1), "x")
	g.Changes = append(g.Changes, named(started(t, b, other, 2), "y").Changes...)
	told := make(chan error, 1)
	go func() { told <- insist(b, g) }()
	blocked(t, url, 1)
	h := *rival.Changes[0].Head
	h.Status, h.Owner, h.Ended, h.Wake = journal.Completed, 0, time.Now(), time.Time{}
	done(t, a, &store.Group{
		Engine:  one,
		Now:     time.Now(),
		Changes: []store.Change{{Run: h.Number, Head: &h}},
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	for _, c := range g.Changes {
		heads, _, err := b.Find(t.Context(), store.Filter{Runs: []journal.RunID{c.Head.ID}})
		if err != nil || c.Verdict != store.Written || len(heads) != 1 {
			t.Errorf("the start of %s is told as %d, and there are %d such runs, %v",
				c.Head.WorkflowID, c.Verdict, len(heads), err)
		}
	}
}

// An unload that arrives late takes the run only from its own engine. A session that may
// still receive an unload is ended before the group is sent again.
//
// spec: B-5
func TestARestThatArrivesLateTakesARunFromNobody(t *testing.T) {
	url := testpg.URL(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("%s:%d", config.Host, config.Port)
	proxy := faultproxy.New(t, at)
	slow := mustOpen(t, strings.Replace(url, at, proxy.Addr(), 1), Options{Timeout: time.Second})
	s, other := mustOpen(t, url, Options{}), mustOpen(t, url, Options{})
	engine, second := joined(t, slow), joined(t, other)
	g := started(t, slow, engine, 1)
	done(t, slow, g)
	proxy.Stall(faultproxy.ToServer)
	r := unloads(g, time.Now().Add(-time.Second))
	if err := slow.Commit(t.Context(), r); err == nil || len(slow.lost) != 1 {
		t.Fatalf("a commit that is swallowed gives %v, and %d sessions are lost", err,
			len(slow.lost))
	}
	s.lost = slow.lost // as if s had lost the sessions of the same engine
	r.Again = true
	done(t, s, r)
	var living int
	if err := session(t, url).QueryRow(t.Context(), "select count(*) from pg_stat_activity where "+
		"pid = any($1)", slow.lost).Scan(&living); err != nil || living != 0 || len(s.lost) != 0 {
		t.Errorf("%d of the sessions that were lost are there, %v; %d are to be ended", living, err,
			len(s.lost))
	}
	proxy.Heal()
	claimed, err := other.Claim(t.Context(), store.TakeDue{
		Engine:    second,
		Workflows: []string{"w"},
		Max:       1,
		Now:       time.Now(),
	})
	if err != nil || len(claimed.Runs) != 1 {
		t.Fatalf("%d runs, %v", len(claimed.Runs), err)
	}
	r.Again = false
	done(t, s, r) // as it would arrive
	heads, _, err := s.Find(t.Context(), store.Filter{Runs: []journal.RunID{g.Changes[0].Head.ID}})
	if err != nil || heads[0].Owner != second {
		t.Errorf("the run is that of engine %d, %v", heads[0].Owner, err)
	}
}

// A commit that writes the clock and waits for a user's transaction blocks neither that
// transaction nor any other.
//
// spec: P-2
func TestWhoNotesTheClockHoldsUpNobody(t *testing.T) {
	url := testpg.URL(t)
	a, b, client := mustOpen(t, url, Options{}), mustOpen(t, url, Options{}),
		mustOpen(t, url, Options{})
	one, other := joined(t, a), joined(t, b)
	tx, part := user(t, client, url, to(0, "x"))
	told := make(chan error, 1)
	g := to(0, "x")
	g.Engine, g.Now = one, g.Now.Add(time.Second)
	go func() { told <- insist(a, g) }()
	blocked(t, url, 1)
	later := to(0, "y")
	later.Now = later.Now.Add(2 * clockEvery)
	if err := part.Commit(soon(t), later); err != nil {
		t.Errorf("the transaction that the commit waits for: %v", err)
	}
	if err := b.Commit(soon(t), started(t, b, other, 1)); err != nil {
		t.Errorf("a start that has nothing to do with it: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
}

// However many calls wait for something, the lease is renewed.
//
// spec: B-5
func TestALeaseIsRenewedWhileAllCallsWait(t *testing.T) {
	url := testpg.URL(t)
	s := mustOpen(t, url, Options{})
	engine := joined(t, s)
	tx, err := session(t, url).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "lock table perdure.heads in access exclusive mode")
	}
	if err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	for range defaultConnections {
		waiting.Go(func() { _, _, _ = s.Find(context.Background(), store.Filter{}) })
	}
	blocked(t, url, defaultConnections)
	if _, err := s.Claim(soon(t), store.Renew{Engine: engine, Now: time.Now()}); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	waiting.Wait()
}

// Take-overs end a stuck session also with one connection for calls, and behind a pooler,
// which hides the server process of a session.
//
// spec: B-5
func TestAStuckSessionIsEndedWhateverIsInBetween(t *testing.T) {
	url := testpg.URL(t)
	for name, c := range map[string]struct {
		url     string
		options Options
	}{
		"one connection": {url + "&pool_max_conns=1", Options{}},
		"a pooler":       {masked(t, url), Options{Pooler: true}},
	} {
		s := mustOpen(t, c.url, c.options)
		dead, engine := joined(t, s), joined(t, s)
		stuck(t, url, dead)
		out, err := s.Claim(soon(t), store.Renew{Engine: engine, Now: time.Now()})
		if err != nil || out.Expired != 1 {
			t.Errorf("%s: %d engines have expired, %v", name, out.Expired, err)
		}
	}
}

// masked returns the URL of a proxy that reports another process to clients than the process
// of the server.
func masked(t *testing.T, url string) string {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("%s:%d", config.Host, config.Port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go mask(client, at)
		}
	}()
	return strings.Replace(url, at, l.Addr().String(), 1)
}

func mask(client net.Conn, at string) {
	defer client.Close()
	server, err := net.Dial("tcp", at)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	for head := make([]byte, 5); ; {
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if head[0] == 'K' { // the message with the process and a secret to cancel with
			binary.BigEndian.PutUint32(body, 0x7ABCDEF0)
		}
		if _, err := client.Write(append(head[:5:5], body...)); err != nil {
			return
		}
	}
}

// Engines that take over the same engine at the same time end its stuck session, and not each
// other's.
//
// spec: B-5
func TestThoseWhoTakeOverLeaveEachOtherAlone(t *testing.T) {
	for range 5 {
		url := testpg.URL(t)
		stuck(t, url, joined(t, mustOpen(t, url, Options{})))
		var all sync.WaitGroup
		var expired atomic.Int64
		for range 4 {
			s := mustOpen(t, url, Options{})
			all.Go(func() {
				out, err := s.Claim(context.Background(), store.Join{Now: time.Now()})
				if err != nil {
					t.Errorf("a join: %v", err)
				}
				expired.Add(int64(out.Expired))
			})
		}
		all.Wait()
		if n := expired.Load(); n != 1 {
			t.Errorf("%d of them took over", n)
		}
	}
}

// An engine that is stopped in the middle of a take-over blocks other take-overs of the same
// engine for a second.
//
// spec: B-5
func TestATakeOverThatIsStoppedIsTakenOver(t *testing.T) {
	url := testpg.URL(t)
	s := mustOpen(t, url, Options{})
	dead := joined(t, s)
	lapse(t, url, dead)
	c := session(t, url)
	for _, sql := range []string{
		"begin", whoami, fmt.Sprintf("select pg_advisory_xact_lock(%d, %d)", successionLocks, dead),
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	other := mustOpen(t, url, Options{})
	engine := joined(t, other)
	for tries := 1; ; tries++ {
		out, err := other.Claim(soon(t), store.Renew{Engine: engine, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if out.Expired == 1 {
			if tries == 1 {
				t.Error("it was not kept from it")
			}
			return
		}
		if out.Lapse <= 0 || out.Lapse > soonAgain {
			t.Fatalf("it looks again in %v", out.Lapse)
		}
	}
}

// A user's transaction that has sent a message to a run blocks nothing else: not the other
// runs of its dead engine, and not the claims of its living engine.
//
// spec: B-5
func TestALockedRunIsLeftForLater(t *testing.T) {
	url := testpg.URL(t)
	s, other := mustOpen(t, url, Options{}), mustOpen(t, url, Options{})
	engine, second := joined(t, s), joined(t, other)
	first := started(t, s, engine, 1)
	run := first.Changes[0].Run
	done(t, s, first)
	for n := range int64(9) {
		done(t, s, started(t, s, engine, n+2))
	}
	due := started(t, s, engine, 11)
	due.Changes[0].Head.Owner = 0
	done(t, s, due)
	done(t, other, to(run, "")) // which its engine was not given yet
	tx, _ := user(t, other, url, to(run, ""))

	out, err := s.Claim(soon(t), store.TakeDue{
		Engine:    engine,
		Workflows: []string{"w"},
		Max:       10,
		Now:       time.Now(),
	})
	if err != nil || len(out.Runs) != 1 || len(out.Mail) != 0 || out.Next.IsZero() {
		t.Errorf("a claim gives %d runs and mail of %d, and is to be made again at %v; %v",
			len(out.Runs), len(out.Mail), out.Next, err)
	}
	lapse(t, url, engine)
	out, err = other.Claim(soon(t), store.Renew{Engine: second, Now: time.Now()})
	if err != nil || out.Expired != 1 || out.Freed != 10 || out.Lapse == 0 ||
		out.Lapse > soonAgain {
		t.Errorf("a take-over frees %d runs and goes on in %v; %v", out.Freed, out.Lapse, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err = other.Claim(soon(t), store.Renew{Engine: second, Now: time.Now()})
	if err != nil || out.Freed != 1 || out.Lapse != 0 {
		t.Errorf("then it frees %d, and goes on in %v; %v", out.Freed, out.Lapse, err)
	}
}

// A run that is due later is not forgotten if it is locked during a claim.
//
// spec: R-13
func TestALockedRunIsStillDue(t *testing.T) {
	url := testpg.URL(t)
	s := mustOpen(t, url, Options{})
	engine := joined(t, s)
	now := time.Now()
	var later journal.Number
	for n, wake := range []time.Time{now.Add(-time.Second), now.Add(5 * time.Second)} {
		g := started(t, s, engine, int64(n+1))
		g.Changes[0].Head.Owner, g.Changes[0].Head.Wake = 0, wake
		done(t, s, g)
		later = g.Changes[0].Run
	}
	tx, _ := user(t, s, url, to(later, ""))
	out, err := s.Claim(soon(t), store.TakeDue{
		Engine:    engine,
		Workflows: []string{"w"},
		Max:       10,
		Now:       now,
	})
	if err != nil || len(out.Runs) != 1 || out.Next.IsZero() {
		t.Errorf("a claim gives %d runs, and the next is due at %v; %v", len(out.Runs), out.Next,
			err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// Heads are locked in order of number, whatever order a group has them in.
//
// spec: P-2
func TestAGroupLocksByNumber(t *testing.T) {
	url := testpg.URL(t)
	s := mustOpen(t, url, Options{})
	engine := joined(t, s)
	one, two := started(t, s, engine, 1), started(t, s, engine, 2)
	done(t, s, one)
	done(t, s, two)
	tx, err := session(t, url).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "select from perdure.heads where number = $1 for no "+
			"key update", int64(one.Changes[0].Run))
	}
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	g := &store.Group{Engine: engine, Now: time.Now()}
	for _, of := range []*store.Group{two, one} {
		h := *of.Changes[0].Head
		h.Status = journal.Waiting
		g.Changes = append(g.Changes, store.Change{Run: h.Number, Head: &h})
	}
	go func() { told <- insist(s, g) }()
	blocked(t, url, 1)
	if _, err := tx.Exec(soon(t), "select from perdure.heads where number = $1 for no key "+
		"update nowait", int64(two.Changes[0].Run)); err != nil {
		t.Errorf("who waits for the first run has the second: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
}

// A role that may not create a schema uses a schema that was created for it.
//
// spec: P-2
func TestASchemaMadeForARoleIsUsed(t *testing.T) {
	server := testpg.Start(t)
	url := server.URL()
	testpg.Execute(t, url, "create role app login", "create schema perdure authorization app")
	joined(t, mustOpen(t, strings.Replace(url, "//perdure@", "//app@", 1), Options{}))
}

// Entries of the outbox come in portions that fit into memory.
//
// spec: P-1
func TestLargeOutboxEntriesComeAFewAtATime(t *testing.T) {
	s := mustOpen(t, testpg.URL(t), Options{})
	engine := joined(t, s)
	large := make([]byte, claimBytes/2+1)
	for n := range int64(3) {
		g := started(t, s, engine, n+1)
		e := &g.Changes[0].Entries[0]
		e.Data, e.Detail = large, &journal.Detail{Tell: true}
		done(t, s, g)
	}
	var after int64
	for _, want := range []int{2, 1} {
		out, err := s.Claim(t.Context(), store.TakeOutbox{
			Engine:    engine,
			Workflows: []string{"w"},
			After:     after,
			Limit:     10,
		})
		if err != nil || len(out.Outbox) != want || out.More != (want == 2) {
			t.Fatalf("%d are given, more %v, %v; want %d", len(out.Outbox), out.More, err, want)
		}
		after = out.Outbox[want-1].Number
	}
}
