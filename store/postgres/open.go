package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/store"
)

// Options change how a database is opened. The zero value is the default.
type Options struct {
	// Lease is how long an engine may write before it must renew its lease. Zero means 10 s.
	// When an engine dies, other engines take its runs after that time. The nodes of a
	// database may have different leases.
	Lease time.Duration
	// Pooler must be set when the connections go through a pooler in transaction mode. The
	// store then keeps nothing in a session: no prepared statement, no setting, no
	// notification. It polls for the writes of other nodes: up to twenty times a second while
	// something happens, and every ten seconds while nothing does.
	Pooler bool
	// Unsafe accepts a server that may lose or corrupt commits when it crashes: a server with
	// fsync, full_page_writes or synchronous_commit off.
	Unsafe bool
	// ReadOnly opens an existing database and neither migrates nor writes anything. Commit,
	// Claim, Purge and Spill return an error.
	ReadOnly bool
	// Existing opens an existing database without migrating it. It is for a process that only
	// starts runs and sends messages, beside engines that may be of an older version.
	Existing bool
	// Lanes limits how many commits of an engine may be in progress at the same time. Zero
	// means 1. With more lanes the groups are smaller. On two cores shared with the server,
	// two lanes were about as fast as one. On a server with its own cores it was not
	// measured.
	Lanes int
	// Timeout limits how long one call may take before its connection is closed. Zero means
	// 30 s. The outcome of a commit is then found out when the commit is sent again.
	Timeout time.Duration
}

const (
	defaultLease   = 10 * time.Second
	defaultTimeout = 30 * time.Second
	// connectTimeout limits how long connecting may take, if the address does not set
	// connect_timeout.
	connectTimeout = 10 * time.Second
	// defaultConnections is the maximum number of connections of a handle, if the address
	// does not set pool_max_conns.
	defaultConnections = 8
)

// settings are the settings of every session. Each statement is planned once, when the tables
// may be empty, and everything it looks up has an index. Without these settings, a plan that
// was right for a hundred rows would stay for a million.
var settings = map[string]string{
	"plan_cache_mode":   "force_generic_plan",
	"enable_seqscan":    "off",
	"enable_bitmapscan": "off", // it reads a whole index as if that were a table
	"enable_indexscan":  "on",
	"enable_mergejoin":  "off", // it reads a table in order
	"timezone":          "UTC",

	// These override settings that a role or a database has for other applications. A call
	// has a time limit of its own.
	"default_transaction_isolation": readCommitted,
	"statement_timeout":             "0",
	"lock_timeout":                  "0",

	// The server detects within half a minute that a client has gone without closing its
	// connection.
	"tcp_keepalives_idle":     "15",
	"tcp_keepalives_interval": "5",
	"tcp_keepalives_count":    "3",
	"jit":                     "off", // a plan without an index has a cost that would trigger it
}

// readCommitted is the isolation of every transaction: a statement sees everything that
// others had committed before the statement began.
const readCommitted = "read committed"

// A Store is a [store.Store] in a PostgreSQL database.
type Store struct {
	slotReader

	options  Options
	config   *pgxpool.Config
	pool     *pgxpool.Pool
	keeper   *pgxpool.Pool // for leases, which never wait for another call
	database string        // its identity
	notices  *notices

	life context.Context // ends when the store is closed
	end  context.CancelFunc

	busy atomic.Int64 // number of commits, and of claims that returned something

	mu    sync.Mutex
	lost  []int32   // server processes of closed connections; sent data may still arrive there
	clock time.Time // the clock value that this handle wrote last
}

var _ store.Store = (*Store)(nil)

// Open opens the database at an address: a URL, or a list of settings as psql accepts it. It
// creates the schema perdure if it does not exist, and migrates it if an older version made
// it. The error wraps [store.ErrNewer] or [store.ErrForeign] if this version must not touch
// the existing schema.
func Open(ctx context.Context, address string) (*Store, error) {
	return OpenWith(ctx, address, Options{})
}

// OpenWith is Open with options. ctx limits only the opening, not the store.
func OpenWith(ctx context.Context, address string, options Options) (*Store, error) {
	s, err := open(ctx, address, options)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, address string, options Options) (*Store, error) {
	config, err := configure(address, &options)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, err
	}
	few := config.Copy()
	// one connection that waits, one that ends the blocking session, and one for endLost
	few.MaxConns, few.MinConns, few.MinIdleConns = 3, 0, 0
	keeper, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), few)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{options: options, config: config, pool: pool, keeper: keeper}
	s.slotReader = slotReader{s}
	s.life, s.end = context.WithCancel(context.Background())
	s.notices = newNotices(s)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// configure reads an address, sets the defaults of the options, and returns the configuration
// of the connections.
func configure(address string, o *Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Lease < minLease {
		return nil, fmt.Errorf("a lease of %v: it is %v at least", o.Lease, minLease)
	}
	if own, err := pgx.ParseConfig(address); err == nil &&
		own.RuntimeParams["pool_max_conns"] == "" {
		config.MaxConns = defaultConnections
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if o.Pooler {
		if config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		return config, nil
	}
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "perdure"
	}
	return config, nil
}

// minLease is the shortest lease: on a slow network, renewals must arrive before it ends.
const minLease = 100 * time.Millisecond

// prepare makes the database ready for use.
func (s *Store) prepare(ctx context.Context) error {
	if err := s.checkSettings(ctx); err != nil {
		return err
	}
	if s.options.ReadOnly || s.options.Existing {
		version, err := s.version(ctx, s.pool)
		if err == nil && version < schemaVersion {
			err = &store.SchemaError{Has: version, Knows: schemaVersion}
		}
		if err != nil {
			return err
		}
	} else if err := s.migrate(ctx); err != nil {
		return err
	}
	return s.identify(ctx)
}

// Lanes is [store.Parallel].
func (s *Store) Lanes() int { return max(s.options.Lanes, 1) }

// checkSettings refuses a server that may lose acknowledged commits, and an isolation that
// cannot be set in a session.
func (s *Store) checkSettings(ctx context.Context) error {
	var fsync, pages, commit, isolation string
	err := s.pool.QueryRow(
		ctx,
		`select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
    current_setting('default_transaction_isolation')`).Scan(&fsync, &pages, &commit, &isolation)
	if err != nil {
		return err
	}
	if isolation != readCommitted {
		return fmt.Errorf("default_transaction_isolation is %s: behind a pooler it has to be %s "+
			"for the role or the database", isolation, readCommitted)
	}
	for _, setting := range [][2]string{
		{"fsync", fsync},
		{"full_page_writes", pages},
		{"synchronous_commit", commit},
	} {
		if setting[1] == "off" && !s.options.Unsafe {
			return &store.UnsafeError{Setting: setting[0]}
		}
	}
	return nil
}

// Close closes the store. An engine that did not leave stays registered until its lease has
// passed.
func (s *Store) Close() error {
	s.end()
	<-s.notices.done
	s.pool.Close()
	s.keeper.Close()
	return nil
}

// call returns the context of one call. It ends when ctx ends, when the store is closed, and
// when the call takes too long.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.life.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// finished returns the error of a call. It is ErrClosed if the store was closed meanwhile. A
// refusal stays unchanged. Any other error gets the prefix of this package.
func (s *Store) finished(err error) error {
	if err == nil || isRefusal(err) {
		return err
	}
	if s.life.Err() != nil || errors.Is(err, store.ErrClosed) {
		return store.ErrClosed
	}
	if code(err) == readOnly {
		s.pool.Reset() // another server may be the primary now, and the address may name both
		s.keeper.Reset()
	}
	return fmt.Errorf("postgres: %w", err)
}
