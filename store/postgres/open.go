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
	// Lease is for how long an engine may write before it has to say that it lives;
	// 0 is 10 seconds. When an engine dies, others have its runs after that time. The
	// nodes of a database may have different ones.
	Lease time.Duration
	// Pooler says that a connection pooler in transaction mode is in between. Nothing
	// is then kept in a session: no prepared statement, no setting, no notification.
	// Other nodes are heard of by asking, up to twenty times a second while something
	// happens and every ten seconds while nothing does.
	Pooler bool
	// Unsafe accepts a server that loses or spoils commits when it crashes: one with
	// fsync, full_page_writes or synchronous_commit off.
	Unsafe bool
	// ReadOnly opens a database that is there, without migrating or writing anything.
	// Commit, Claim, Purge and Spill give an error.
	ReadOnly bool
	// Existing opens a database that is there, without migrating it: for a process
	// that only starts runs and sends messages, beside engines that may be of an older
	// version.
	Existing bool
	// Lanes is how many commits of an engine may be on their way at a time; 0 is one. With
	// more the groups are smaller: on two cores shared with the server two gave about as much
	// as one, and where the server has its own it was not measured.
	Lanes int
	// Timeout is how long one call may take before its connection is given up; 0 is
	// 30 seconds. What became of a commit is then found out when it is sent again.
	Timeout time.Duration
}

const (
	defaultLease   = 10 * time.Second
	defaultTimeout = 30 * time.Second
	// connectTimeout is how long it may take to get a connection, where the address does
	// not say connect_timeout.
	connectTimeout = 10 * time.Second
	// defaultConnections is for how many connections a handle has at most, where the
	// address does not say pool_max_conns.
	defaultConnections = 8
)

// settings are those of every session. Each statement is planned once, when the
// tables may be empty, and what it looks for has an index: without these, a plan that
// was right for a hundred rows would stay for a million.
var settings = map[string]string{
	"plan_cache_mode": "force_generic_plan",
	"enable_seqscan":  "off",
	"timezone":        "UTC",

	// What a role or a database has for others. A call has a time limit of its own.
	"default_transaction_isolation": readCommitted,
	"statement_timeout":             "0",
	"lock_timeout":                  "0",

	// A server notices within half a minute that a client is gone without a word.
	"tcp_keepalives_idle":     "15",
	"tcp_keepalives_interval": "5",
	"tcp_keepalives_count":    "3",
	"jit":                     "off", // what a missing plan is said to cost would have it compiled
}

// readCommitted is the isolation of every transaction: a statement sees what others have
// committed before it began.
const readCommitted = "read committed"

// A Store is a [store.Store] in a PostgreSQL database.
type Store struct {
	options  Options
	config   *pgxpool.Config
	pool     *pgxpool.Pool
	keeper   *pgxpool.Pool // for leases, which wait for no other call
	database string        // its identity
	notices  *notices

	life context.Context // ends when the store is closed
	end  context.CancelFunc

	busy atomic.Int64 // commits, and claims that gave something

	mu    sync.Mutex
	lost  []int32   // server processes of connections given up, which may still get what was sent
	clock time.Time // what it said when that was written last by this handle
}

var _ store.Store = (*Store)(nil)

// Open opens the database that an address names, a URL or a list of settings as psql
// takes it. The schema perdure is created in it if it is not there, and migrated if an
// older version made it. The error wraps [store.ErrNewer] or [store.ErrForeign] where
// what is there is not for this version to touch.
func Open(ctx context.Context, address string) (*Store, error) {
	return OpenWith(ctx, address, Options{})
}

// OpenWith is Open with options. ctx ends the opening alone.
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
	// one that waits, one that ends what it waits for, and endLost
	few.MaxConns, few.MinConns, few.MinIdleConns = 3, 0, 0
	keeper, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), few)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{options: options, config: config, pool: pool, keeper: keeper}
	s.life, s.end = context.WithCancel(context.Background())
	s.notices = newNotices(s)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// configure reads an address and says how connections are to be.
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

// minLease is the shortest lease: renewals must come in between on a slow network.
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

// checkSettings refuses a server that does not keep what it acknowledges, and an
// isolation that cannot be set in a session.
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

// Close ends the use of the store. An engine that did not leave stays until its lease
// has passed.
func (s *Store) Close() error {
	s.end()
	<-s.notices.done
	s.pool.Close()
	s.keeper.Close()
	return nil
}

// call gives the context of one call: it ends when ctx does, when the store is closed,
// and when the call takes too long.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.life.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// finished gives the error of a call: ErrClosed, where the store was closed meanwhile,
// a refusal as it is, and any other in words.
func (s *Store) finished(err error) error {
	if err == nil || isRefusal(err) {
		return err
	}
	if s.life.Err() != nil || errors.Is(err, store.ErrClosed) {
		return store.ErrClosed
	}
	if code(err) == readOnly {
		s.pool.Reset() // another server may be the primary now, and the address name both
		s.keeper.Reset()
	}
	return fmt.Errorf("postgres: %w", err)
}
