package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
)

// Options are the options of a demo.
type Options struct {
	// Executable is this program; its commands WorkerCommand and WorldCommand run Worker
	// and World.
	Executable string
	Program    string // what people type to run this program
	// Dir has the ledger. The files of an earlier demo in it are removed.
	Dir string
	// On a PostgreSQL the demo makes a database. An SQLite file without a name is in Dir.
	Store   place.Place
	Cluster int    // number of workers at a time; 0 means 1
	Seed    uint64 // seed of orders, refusals and kills
	Kills   int    // number of kills of a worker
	Orders  int    // number of orders; see DefaultOrders
	Once    bool   // end after the checks; otherwise the last worker goes on
}

// ErrInterrupted is the error of a demo that a key or a signal has ended.
var ErrInterrupted = errors.New("interrupted")

// errUnheard is the error of a demo whose report cannot be written.
var errUnheard = errors.New("the report cannot be written")

// Run runs one demo and reports it line by line on out. It ends after the checks, or,
// without Once, when ctx ends. If in is a terminal, single keys control the demo. Run
// returns an error if the demo could not be run, if a check is false, if out cannot be
// written, or if ctx ends. No child process outlives it.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	plan, err := NewPlan(o.Seed, o.Orders, o.Kills+o.pauses(), time.Now())
	plan.split(o.Kills)
	if err != nil {
		return invalid(err.Error(), "raise --orders, or leave it out")
	}
	f, err := prepare(ctx, o, plan)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := newSupervisor(ctx, o, plan, f, newReport(listened{out, cancel}, o.Program, plan, f))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.run(ctx, in, out)
}

// A listened is a writer that ends the demo when a write fails.
type listened struct {
	io.Writer
	over context.CancelCauseFunc
}

func (l listened) Write(p []byte) (int, error) {
	n, err := l.Writer.Write(p)
	if err != nil {
		l.over(fmt.Errorf("%w: %w", errUnheard, err))
	}
	return n, err
}

func (o Options) validate() error {
	switch {
	case o.Cluster < 0 || o.Cluster > mostNodes:
		return invalid(fmt.Sprintf("--cluster %d is not valid: allowed are 1 to %d", o.Cluster,
			mostNodes),
			"leave out --cluster for one worker")
	case o.Store.Kind == place.Memory:
		return invalid("a store in memory does not survive a kill", "leave out --store")
	case o.nodes() > 1 && o.Store.Kind != place.Postgres:
		return invalid("several workers need a PostgreSQL: an SQLite file is for one at a time",
			"--store postgres://USER@HOST/DATABASE names one. The demo makes a database of "+
				"its own on "+
				"it. `apt install postgresql` or the image postgres brings one")
	case o.Kills < 0 || o.Kills > mostKills:
		return invalid(fmt.Sprintf("--kills %d is not valid: allowed are 0 to %d", o.Kills,
			mostKills),
			"leave out --kills for 3")
	case o.Orders < 1 || o.Orders > mostOrders:
		return invalid(fmt.Sprintf("--orders %d is not valid: allowed are 1 to %d", o.Orders,
			mostOrders),
			"leave out --orders for as many as fit the kills")
	case o.Dir == "":
		return invalid("a directory is needed", "--dir names one")
	}
	return nil
}

// nodes returns the number of workers at a time.
func (o Options) nodes() int { return max(o.Cluster, 1) }

// pauses returns the number of pauses that come in addition to the kills: one for five
// kills, and at least one. A pause holds a worker up for longer than its lease.
func (o Options) pauses() int {
	if o.nodes() == 1 || o.Kills == 0 || !canPause {
		return 0
	}
	return max(o.Kills/5, 1)
}

const (
	mostNodes  = 32
	mostKills  = 100_000
	mostOrders = 1_000_000
)

func invalid(message, hint string) error {
	return &perdure.Error{Code: journal.CodeInvalid, Op: "demo", Message: message, Hint: hint}
}
