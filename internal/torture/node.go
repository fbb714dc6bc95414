//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/world"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// lease is the lease of nodes on PostgreSQL: short, so that a stopped node loses it.
const lease = 2 * time.Second

// openStore opens a store by its name on the command line.
func openStore(ctx context.Context, name string) (store.Store, error) {
	if path, ok := strings.CutPrefix(name, "sqlite:"); ok {
		return sqlite.Open(path)
	}
	return postgres.OpenWith(ctx, name, postgres.Options{Lease: lease, Timeout: 10 * time.Second})
}

// openDB opens the same database for steps in transactions.
func openDB(ctx context.Context, name string) (*sql.DB, perdure.Transactions[*sql.Tx], error) {
	if path, ok := strings.CutPrefix(name, "sqlite:"); ok {
		db, err := openMoney(ctx, "sqlite", path)
		return db, sqlite.Transactions(db), err
	}
	db, err := openMoney(ctx, "pgx", name)
	return db, postgres.SQLTransactions(db, nil), err
}

// serveNode executes programs until it is told to end.
func serveNode(args []string) error {
	signal.Ignore(syscall.SIGXFSZ) // a file that cannot grow is an error of a write
	f := flag.NewFlagSet("node", flag.ContinueOnError)
	name := f.String("store", "", "")
	socket := f.String("world", "", "")
	kept := f.Duration("kept", -1, "")
	if err := errors.Join(f.Parse(args), play.Register()); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := openStore(ctx, *name)
	if err != nil {
		return err
	}
	defer s.Close()
	db, money, err := openDB(ctx, *name)
	if err != nil {
		return err
	}
	defer db.Close()
	w := world.Dial(*socket)
	env := play.New(w, money, db)
	n := &noticed{}
	eng, err := perdure.New(s, perdure.Options{
		Build: "torture", Logger: slog.New(slog.DiscardHandler), IdleTimeout: -1,
		Drain: 500 * time.Millisecond, Sweep: time.Second, CleanUp: time.Second,
		Publisher: moodyPublisher(), Observers: []observe.Observer{
			n.observer(),
			{See: func(observe.Notice) { play.Panic("observer") }},
		}, Interceptor: play.Around, Retention: perdure.Retention{Period: *kept},
	})
	if err != nil {
		return err
	}
	if *kept < 0 { // otherwise it is another service, which has none of the programs
		if err := eng.Register(env.Definitions()...); err != nil {
			return err
		}
		for _, l := range env.Listeners() {
			if _, err := eng.Listen(l); err != nil {
				return err
			}
		}
	}
	env.Use(eng)
	go n.tell(ctx)
	go listen(ctx, eng)
	return eng.Run(ctx)
}

// listen carries out the commands on stdin: for each line the engine removes runs whose retention
// has passed.
func listen(ctx context.Context, eng *perdure.Engine) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		_, _, _ = eng.Purge(ctx) // it fails while the store does
	}
}

// moodyPublisher returns a publisher that fails now and then, in an odd way.
func moodyPublisher() func(context.Context, perdure.Event) error {
	var n atomic.Int64
	return func(context.Context, perdure.Event) error {
		if n.Add(1)%7 == 0 {
			return &play.OddError{What: "panicking"}
		}
		return nil
	}
}

// noticed counts signs that a fault took effect, and prints them on stdout.
type noticed struct {
	failed, lost, lent, expired atomic.Int64
}

func (n *noticed) observer() observe.Observer {
	return observe.Observer{
		Kinds: []observe.Kind{
			observe.StoreFailed, observe.LeaseLost, observe.TurnLent, observe.EngineExpired,
		},
		See: func(o observe.Notice) {
			switch o.Kind {
			case observe.StoreFailed:
				n.failed.Add(1)
			case observe.LeaseLost:
				n.lost.Add(1)
			case observe.TurnLent:
				n.lent.Add(1)
			case observe.EngineExpired:
				n.expired.Add(1)
			}
		},
	}
}

// tell prints the counts since the last line, as long as the process lives.
func (n *noticed) tell(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		for what, c := range map[string]*atomic.Int64{
			"store failed":   &n.failed,
			"lease lost":     &n.lost,
			"turn lent":      &n.lent,
			"engine expired": &n.expired,
		} {
			if k := c.Swap(0); k > 0 {
				fmt.Fprintf(os.Stdout, "%d %s\n", k, what)
			}
		}
	}
}

// burn keeps one core busy.
func burn() {
	for n := 0; ; n++ {
		if n < 0 {
			return
		}
	}
}
