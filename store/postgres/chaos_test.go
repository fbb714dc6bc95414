package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/postgres"
)

// nodeURL names the variable with the database URL of a node process. If it is set, the test
// binary runs as a node.
const nodeURL = "PERDURE_TEST_NODE"

// nodeClock names the variable with the time by which the clock of such a node is behind.
const nodeClock = "PERDURE_TEST_CLOCK"

func TestMain(m *testing.M) {
	if url := os.Getenv(nodeURL); url != "" {
		if err := execute(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// chaosLease is short, so that a stopped node is taken over soon.
const chaosLease = time.Second

// accounts is the number of accounts of the bank, and opening the opening balance of each.
const (
	accounts = 20
	opening  = 1000
)

// A transfer moves money from one account to another.
type transfer struct {
	From, To, Amount int
}

// transfers returns the workflow that moves money. A first step takes it out of one account;
// the bank recognises the step by its key. A second step adds it to the other account, in a
// transaction with its result. That booking has no key: a double booking would show.
func transfers(bank *pgxpool.Pool) *perdure.Workflow[transfer, string] {
	return perdure.Define("transfer", func(ctx context.Context, t transfer) (string, error) {
		if _, err := perdure.Step(ctx, "withdraw", book(bank, t.From, -t.Amount)); err != nil {
			return "", err
		}
		if err := perdure.Sleep(ctx, time.Duration(t.Amount)*time.Millisecond); err != nil {
			return "", err
		}
		_, err := perdure.StepTx(ctx, "deposit", postgres.Transactions(bank, pgx.TxOptions{}),
			func(ctx context.Context, tx pgx.Tx) (int, error) {
				if _, err := tx.Exec(ctx, "insert into bookings (key, account, amount) values "+
					"(gen_random_uuid(), $1, $2)", t.To, t.Amount); err != nil {
					return 0, err
				}
				_, err := tx.Exec(ctx, "update accounts set balance = balance + $2 where id = $1",
					t.To,
					t.Amount)
				return t.Amount, err
			})
		if err != nil {
			return "", err
		}
		return "moved", nil
	}, perdure.Retry{
		Attempts: 1000, First: 10 * time.Millisecond, Factor: 2, Cap: 500 * time.Millisecond,
	})
}

// beats returns a workflow that records again and again which process executes it.
func beats(bank *pgxpool.Pool) *perdure.Workflow[int, int] {
	return perdure.Define("beats", func(ctx context.Context, _ int) (int, error) {
		for i := 0; ; i++ {
			_, err := perdure.Step(ctx, "beat", func(ctx context.Context) (int, error) {
				_, err := bank.Exec(ctx, "insert into beats (process) values ($1)", os.Getpid())
				return 0, err
			}, perdure.Key(fmt.Sprint(i)), perdure.Retry{
				Attempts: 1000, First: time.Millisecond, Factor: 1,
			})
			if err != nil {
				return i, err
			}
		}
	})
}

// book returns the body of a step that books an amount once, however often the step is
// executed.
func book(bank *pgxpool.Pool, account, amount int) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return amount, pgx.BeginFunc(ctx, bank, func(tx pgx.Tx) error {
			done, err := tx.Exec(ctx, "insert into bookings (key, account, amount) values ($1, "+
				"$2, $3) on conflict do nothing", perdure.IdempotencyKey(ctx), account, amount)
			if err != nil || done.RowsAffected() == 0 {
				return err
			}
			_, err = tx.Exec(ctx, "update accounts set balance = balance + $2 where id = $1",
				account, amount)
			return err
		})
	}
}

// execute runs a node: it executes transfers until it is killed, or its standard input ends.
// If the database was unavailable when it began, it serves again.
func execute(url string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	// Otherwise a node that was cut off in the middle of a transaction would lock its
	// accounts.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] =
		fmt.Sprint(chaosLease.Milliseconds())
	bank, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := serve(ctx, url, bank); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return nil
}

func serve(ctx context.Context, url string, bank *pgxpool.Pool) error {
	s, err := postgres.OpenWith(ctx, url, postgres.Options{
		Lease: chaosLease, Timeout: 2 * chaosLease,
	})
	if err != nil {
		return err
	}
	behind, err := time.ParseDuration(os.Getenv(nodeClock))
	if err != nil {
		return errors.Join(err, s.Close())
	}
	e, err := perdure.New(&skewed{s, behind}, perdure.Options{
		IdleTimeout: -1,
		Drain:       time.Second,
		Observers:   []observe.Observer{tell},
	})
	if err == nil {
		err = e.Register(transfers(bank), beats(bank))
	}
	if err == nil {
		err = e.Run(ctx)
	}
	return errors.Join(err, s.Close())
}

// tell writes the events that a test of faults may need in its log.
var tell = observe.Observer{
	Kinds: []observe.Kind{
		observe.LeaseLost, observe.LeaseRegained, observe.EngineExpired, observe.RunParked,
	},
	See: func(n observe.Notice) { fmt.Fprintln(os.Stderr, n.Kind, n.Reason, n.Err) },
}

// A cluster is a database, node processes, each with a proxy of its own to the database, and
// a client.
type cluster struct {
	*testing.T
	ctx    context.Context
	random *rand.Rand
	server *testpg.Server
	url    string
	nodes  []*process
	client *perdure.Client
	bank   *pgxpool.Pool

	mu    sync.Mutex
	acked []string // transfers that are durable
}

// A process is a node.
type process struct {
	clock time.Duration // how much its clock is behind
	proxy *faultproxy.Proxy
	cmd   *exec.Cmd
	in    io.Closer
	log   *journalOf
}

// A journalOf is the standard error output of a process.
type journalOf struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journalOf) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journalOf) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// newCluster starts nodes whose clocks differ by clocks.
func newCluster(t *testing.T, nodes int, clocks time.Duration, seed uint64) *cluster {
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	c := &cluster{T: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 0)), server: testpg.Start(t)}
	c.url = c.server.URL()
	s, err := postgres.Open(ctx, c.url)
	c.must(err)
	t.Cleanup(func() { s.Close() })
	c.client, err = perdure.NewClient(ctx, s)
	c.must(err)
	c.bank, err = pgxpool.New(ctx, c.url)
	c.must(err)
	t.Cleanup(c.bank.Close)
	_, err = c.bank.Exec(
		ctx, fmt.Sprintf(`create table accounts (id int primary key, balance int not null);
insert into accounts select i, %d from generate_series(0, %d) i;
create table bookings (key text primary key, account int not null, amount int not null);
create table beats (number bigint generated always as identity primary key, at timestamptz not null default clock_timestamp(), process int not null)`,
			opening, accounts-1))
	c.must(err)
	for i := range nodes {
		p := &process{
			clock: time.Duration(i-1) * clocks, proxy: faultproxy.New(t, c.server.Addr()),
			log: new(journalOf),
		}
		c.nodes = append(c.nodes, p)
		c.begin(p)
		t.Cleanup(func() { c.kill(p) })
	}
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// begin starts the process of a node.
func (c *cluster) begin(p *process) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeURL+"="+strings.Replace(c.url, c.server.Addr(),
		p.proxy.Addr(), 1), fmt.Sprint(nodeClock, "=", p.clock))
	cmd.Stderr = p.log
	in, err := cmd.StdinPipe()
	c.must(err)
	c.must(cmd.Start())
	p.cmd, p.in = cmd, in
}

// kill ends the process of a node at once.
func (c *cluster) kill(p *process) error {
	_ = p.cmd.Process.Kill()
	return p.cmd.Wait()
}

// load starts transfers until ctx ends, ten at a time, and waits until these have ended: a busy
// machine then gets no more of them than it can execute. A transfer whose start has not failed
// is durable.
func (c *cluster) load(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for n := 0; ctx.Err() == nil; {
		var ids []string
		for range 10 {
			t := transfer{random.IntN(accounts), random.IntN(accounts), 1 + random.IntN(30)}
			id := fmt.Sprintf("t-%d-%d", seed, n)
			if c.start(ctx, id, t) == nil {
				ids = append(ids, id)
			}
			n++
		}
		c.mu.Lock()
		c.acked = append(c.acked, ids...)
		c.mu.Unlock()
		_ = c.within(ctx, func() bool {
			all, err := c.client.Statuses(ctx, ids...)
			return err == nil && !slices.ContainsFunc(all, func(s perdure.Status) bool {
				return !s.IsTerminal()
			})
		})
	}
}

func (c *cluster) start(ctx context.Context, id string, t transfer) error {
	in := fmt.Appendf(nil, `{"From":%d,"To":%d,"Amount":%d}`, t.From, t.To, t.Amount)
	_, err := c.client.Start(ctx, "transfer", in, perdure.ID(id))
	return err
}

// A fault does something to the cluster. It returns a function that heals the fault once that
// has had its effect, and returns an error if there is no evidence of the effect.
type fault struct {
	name string
	make func(c *cluster) (heal func() error)
}

var errNoEvidence = errors.New("the fault has left no evidence")

var faults = []fault{
	{"sessions are terminated", func(c *cluster) func() error {
		var n int
		err := c.bank.QueryRow(
			c.ctx, "select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> "+
				"pg_backend_pid() and datname = current_database()").Scan(&n)
		return func() error {
			if n == 0 {
				return errors.Join(err, errNoEvidence)
			}
			return err
		}
	}},
	{"the postmaster is killed", func(c *cluster) func() error {
		before := c.booted()
		c.server.Kill()
		return func() error { return c.boots(before) }
	}},
	{"the server stops at once", func(c *cluster) func() error {
		before := c.booted()
		c.server.Stop(testpg.Immediate)
		return func() error { return c.boots(before) }
	}},
	{"a node is killed", func(c *cluster) func() error {
		p := c.one()
		err := c.kill(p)
		return func() error {
			if err == nil || !strings.Contains(err.Error(), "killed") {
				return fmt.Errorf("%w: %v", errNoEvidence, err)
			}
			defer c.begin(p)
			return c.until(func() bool { return !c.lives(p) })
		}
	}},
	{"a node is stopped for longer than its lease", func(c *cluster) func() error {
		p := c.one()
		err := stop(p.cmd.Process)
		return func() error {
			return errors.Join(err, c.until(func() bool { return !c.lives(p) }),
				goOn(p.cmd.Process))
		}
	}},
	{
		"the network swallows what a node says",
		cutOff(func(p *process, _ int64) { p.proxy.Blackhole() }),
	},
	{
		"a node's commits are held up half sent",
		cutOff(func(p *process, n int64) { p.proxy.StallAfter(faultproxy.ToServer, n) }),
	},
	{
		"a node's answers are held up", cutOff(func(p *process, n int64) {
			p.proxy.StallAfter(faultproxy.ToClient, n)
		}),
	},
	{"a node's connections are reset in the middle of answers", func(c *cluster) func() error {
		p := c.one()
		before := p.proxy.Hits()
		p.proxy.CutAfter(faultproxy.ToClient, int64(c.random.IntN(4000)))
		return func() error {
			defer p.proxy.Heal()
			return c.until(func() bool { return p.proxy.Hits() > before+3 })
		}
	}},
}

// cutOff is a fault of the network of a node, which lasts until the node has lost its lease.
// A connection that the node opens meanwhile gets no further than a few bytes.
func cutOff(how func(p *process, n int64)) func(c *cluster) func() error {
	return func(c *cluster) func() error {
		p := c.one()
		hits := p.proxy.Hits()
		how(p, int64(c.random.IntN(200)))
		return func() error {
			defer p.proxy.Heal()
			return c.until(func() bool { return p.proxy.Hits() > hits && !c.lives(p) })
		}
	}
}

// booted returns the time when the server has begun. boots makes it begin again, and demands
// that it has.
func (c *cluster) booted() (at time.Time) {
	c.must(c.bank.QueryRow(c.ctx, "select pg_postmaster_start_time()").Scan(&at))
	return at
}

func (c *cluster) boots(before time.Time) error {
	c.server.Restart()
	var at time.Time
	return c.until(func() bool {
		return c.bank.QueryRow(c.ctx, "select pg_postmaster_start_time()").Scan(&at) == nil &&
			at.After(before)
	})
}

// one returns a node that has an engine.
func (c *cluster) one() *process {
	p := c.nodes[c.random.IntN(len(c.nodes))]
	c.must(c.until(func() bool { return c.lives(p) }))
	return p
}

// lives reports whether a node has an engine whose lease has not passed.
func (c *cluster) lives(p *process) (lives bool) {
	c.must(c.bank.QueryRow(c.ctx, "select count(*) > 0 from perdure.engines where pid = $1 and "+
		"leased > clock_timestamp()", p.cmd.Process.Pid).Scan(&lives))
	return lives
}

// until waits for a condition that must hold within 30 seconds.
func (c *cluster) until(f func() bool) error {
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	return c.within(ctx, f)
}

// within waits for a condition until ctx ends.
func (c *cluster) within(ctx context.Context, f func() bool) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !f() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return errNoEvidence
		}
	}
	return nil
}

// moves waits until a transfer that begins now has ended.
func (c *cluster) moves(n int) time.Duration {
	began := time.Now()
	id := fmt.Sprint("probe-", n)
	for c.start(c.ctx, id, transfer{0, 1, 1}) != nil {
		if c.ctx.Err() != nil {
			c.Fatal("nothing moves")
		}
	}
	c.ended([]string{id})
	return time.Since(began)
}

// ended waits until transfers have ended without an error. It waits as long as the test may
// take: a busy machine needs time for the remaining runs, which is no fault of a node.
func (c *cluster) ended(ids []string) {
	c.Helper()
	for part := range slices.Chunk(ids, 100) {
		why := errors.New("nobody tells of them")
		if err := c.within(c.ctx, func() bool {
			why = c.state(part)
			return why == nil
		}); err != nil {
			c.Fatalf("%v\n%s", why, c.logs())
		}
	}
}

// state returns an error for a transfer that has not ended. It fails the test if a transfer
// is lost or has failed.
func (c *cluster) state(ids []string) error {
	all, err := c.client.Statuses(c.ctx, ids...)
	if err != nil {
		return err
	}
	for i, s := range all {
		switch {
		case s.Head.Number == 0:
			c.Fatalf("transfer %s is lost", ids[i])
		case s.IsTerminal() && !s.IsSuccess():
			c.Fatalf("transfer %s: %v", ids[i], s.Err)
		case !s.IsTerminal():
			return fmt.Errorf("transfer %s is %v", ids[i], s.Head.Status)
		}
	}
	return nil
}

// TestNothingIsLostWhateverFails runs three nodes, whose clocks differ by twice a lease, and
// moves money while sessions, the server, nodes and the network fail. Every acknowledged
// transfer ends, no booking is made twice, no money appears or disappears, and after each
// fault is healed everything moves again.
//
// spec: B-5, P-2
func TestNothingIsLostWhateverFails(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of faults")
	}
	seed := rand.Uint64()
	c := newCluster(t, 3, 2*chaosLease, seed)
	ctx, enough := context.WithCancel(c.ctx)
	var loading sync.WaitGroup
	for i := range uint64(3) {
		loading.Go(func() { c.load(ctx, seed+i) })
	}
	c.moves(0)
	for i, f := range c.some() {
		began := time.Now()
		if err := f.make(c)(); err != nil {
			t.Fatalf("%s: %v\n%s", f.name, err, c.logs())
		}
		healed := time.Since(began)
		t.Logf("%s: healed after %v, moves again after %v", f.name, healed.Round(time.Millisecond),
			c.moves(i+1).Round(time.Millisecond))
	}
	enough()
	loading.Wait()
	c.ended(c.acked)
	c.audit()
	t.Logf("%d transfers", len(c.acked))
}

// some returns each fault once, and some faults a second time, in random order.
func (c *cluster) some() []fault {
	all := append(slices.Clone(faults), faults...)
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := map[string]bool{}
	var out []fault
	for _, f := range all {
		if !seen[f.name] || c.random.IntN(3) == 0 {
			out = append(out, f)
		}
		seen[f.name] = true
	}
	return out
}

func (c *cluster) logs() string {
	s := ""
	for i, p := range c.nodes {
		s += fmt.Sprintf("node %d:\n%s\n", i, p.log)
	}
	return s
}

// audit checks the bank and the journals when all transfers have ended.
func (c *cluster) audit() {
	c.Helper()
	for what, sql := range map[string]string{
		"money that has appeared": fmt.Sprintf("select sum(balance) - %d from accounts",
			accounts*opening),
		"accounts that are not the sum of their bookings": fmt.Sprintf(
			"select count(*) from accounts a where balance <> %d + coalesce((select sum(amount) "+
				"from bookings b where b.account = a.id), 0)", opening),
		"bookings that no run has recorded, or the other way round": `select
			(select count(*) from bookings) - (select count(*) from perdure.entries where kind = (select kind from perdure.kinds where name = 'StepCompleted'))`,
		"runs that have not ended well": "select count(*) from perdure.runs where status <> " +
			"'COMPLETED'",
		"journals with gaps": "select count(*) from (select run from perdure.entries " +
			"group by run having max(seq) <> count(*)) g",
		"runs that have ended twice": `select count(*) from (select run from perdure.entries
			where kind = (select kind from perdure.kinds where name = 'RunCompleted') group by run having count(*) > 1) g`,
	} {
		var n int
		if err := c.bank.QueryRow(c.ctx, sql).Scan(&n); err != nil || n != 0 {
			c.Errorf("%s: %d, %v", what, n, err)
		}
	}
}
