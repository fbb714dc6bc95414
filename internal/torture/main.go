//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
)

// options are the options of the command line.
type options struct {
	Store   string
	Nodes   int
	Minutes float64
	Seed    uint64
	Output  string // text or json
	Avoid   []string
	Only    string // the file of one program, which is run again and again
	Batch   int    // how many programs run at a time
}

// role names the variable with the role of a process of a torture.
const role = "PERDURE_TORTURE_ROLE"

func main() {
	var err error
	switch os.Getenv(role) {
	case "node":
		err = serveNode(os.Args[1:])
	case "world":
		err = serveWorld(os.Args[1:])
	case "burner":
		burn()
	default:
		err = torture()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

func parse() (options, error) {
	var o options
	var avoid string
	flag.StringVar(&o.Store, "store", "", "sqlite:PATH, postgres://…, or postgres for a server "+
		"of its own")
	flag.IntVar(&o.Nodes, "nodes", 1, "how many nodes, on PostgreSQL")
	flag.Float64Var(&o.Minutes, "minutes", 2, "for how long")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()%1_000_000),
		"what the programs and faults are made from")
	flag.StringVar(&o.Output, "o", "text", "text or json")
	flag.StringVar(&avoid, "avoid", "", "kinds and ways that are left out: blocked, tx/big …")
	flag.StringVar(&o.Only, "program", "", "a file with one program, which is run again and again")
	flag.IntVar(&o.Batch, "batch", 30, "how many programs run at a time")
	flag.Parse()
	if avoid != "" {
		o.Avoid = strings.Split(avoid, ",")
	}
	switch {
	case o.Store == "":
		return o, errors.New("--store is missing")
	case strings.HasPrefix(o.Store, "sqlite:") && o.Nodes != 1:
		return o, errors.New("a file of SQLite has one node")
	}
	return o, play.Register()
}

// limits returns the limits of generated programs.
func (o options) limits() program.Limits {
	return program.Limits{Tx: true, Avoid: func(k program.Kind, what string) bool {
		for _, a := range o.Avoid {
			if a == string(k) || a == string(k)+"/"+what {
				return true
			}
		}
		return false
	}}
}

// torture runs as a test, because the helpers that start servers, disturb networks and replay
// journals are made for tests. It returns only before that; then the process ends as a test does.
func torture() error {
	testing.Init()
	o, err := parse()
	if err != nil {
		return err
	}
	out := os.Stdout
	os.Stdout = os.Stderr // a test prints there
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "torture", F: func(t *testing.T) {
		fmt.Fprintf(os.Stderr, "seed %d\n", o.Seed)
		s, err := newSupervisor(t, o)
		if err != nil {
			t.Fatal(err)
		}
		done, err := s.run(ctx)
		if err == nil {
			err = done.write(out, o.Output)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(done.Wrong); n > 0 {
			t.Errorf("%d things are wrong", n)
		}
	}}}, nil, nil)
	return nil
}

// A report has the numbers of a torture.
type report struct {
	Store    string
	Nodes    int
	Seed     uint64
	Minutes  float64
	Rounds   int
	Programs int
	Runs     int
	Entries  int
	Replayed int
	Calls    int
	Repeated int // calls that were made more than once
	Kills    int // of nodes
	Faults   map[string]*strikes
	Effects  map[string]int // faults that processes noticed
	Seen     int            // pairs of an operation's way and a fault beside it
	Fresh    int            // of these, first seen in the last third of the time
	Acts     map[string]int
	WAL      int64 // the largest log of SQLite, in bytes
	Memory   int64 // the largest node, in bytes
	Wrong    []string
	Shrunk   *program.Program `json:",omitempty"`
}

// strikes count how often a fault struck, and how often it took effect.
type strikes struct{ Struck, Took int }

func (s *strikes) String() string { return fmt.Sprintf("%d/%d", s.Took, s.Struck) }

func (r *report) write(w io.Writer, form string) error {
	if form == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := fmt.Fprintf(w, "%s, %d nodes, seed %d, %.1f minutes: %d rounds, %d programs, %d "+
		"runs, %d entries, %d replayed\n%d calls, %d of them repeated; faults %v, effects %v\n"+
		"%d pairs of a way and a fault, %d of them in the last third; acts %v\n",
		r.Store, r.Nodes, r.Seed, r.Minutes, r.Rounds, r.Programs, r.Runs, r.Entries, r.Replayed,
		r.Calls, r.Repeated, r.Faults, r.Effects, r.Seen, r.Fresh, r.Acts)
	for _, bad := range r.Wrong {
		_, e := fmt.Fprintln(w, "WRONG", bad)
		err = errors.Join(err, e)
	}
	return err
}
