package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
)

// The workloads.
const (
	Sequential = "sequential" // many runs of a few steps, one after the other
	Latency    = "latency"    // the same, one run at a time
	Fanout     = "fanout"     // one run of many steps at a time
	Resume     = "resume"     // one run with a long journal, interrupted
	Sleepers   = "sleepers"   // many runs that sleep, and some that wake together
	Signals    = "signals"    // signals to runs that are not in memory
	Timers     = "timers"     // timers that come due one after the other
)

// Workloads returns the names of all workloads.
func Workloads() []string {
	return []string{Sequential, Latency, Fanout, Resume, Sleepers, Signals, Timers}
}

// waits reports whether the runs of the workload only wait, and only once.
func (o Options) waits() bool {
	return o.Workload == Sleepers || o.Workload == Signals || o.Workload == Timers
}

// Options are the options of a measurement. Zero in Runs, Steps or InFlight means the
// number of the workload.
type Options struct {
	Workload string
	// sqlite: without a name means a temporary file in the current directory. On a server a
	// database is made beside.
	Store    place.Place
	Runs     int
	Steps    int           // of each run
	InFlight int           // runs at a time; calls at a time if the runs only wait
	Payload  int           // bytes of each input, result and output
	Idle     time.Duration // of sleepers: how long the idle engine is measured
	Force    bool          // replace the file if it exists
	Keep     bool          // leave the database in place
}

// idle is how long the idle engine of sleepers is measured: the interval of its sweeps, by
// default.
const idle = 30 * time.Second

var defaults = map[string]Options{
	Sequential: {Runs: 40_000, Steps: 5, InFlight: 256},
	Latency:    {Runs: 1_000, Steps: 5, InFlight: 1},
	Fanout:     {Runs: 1, Steps: 1_000, InFlight: 1},
	Resume:     {Runs: 1, Steps: 100_000, InFlight: 1},
	Sleepers:   {Runs: 100_000, Steps: 1, InFlight: 256},
	Signals:    {Runs: 20_000, Steps: 1, InFlight: 256},
	Timers:     {Runs: 10_000, Steps: 1, InFlight: 256},
}

func (o Options) filled() (Options, error) {
	d, ok := defaults[o.Workload]
	if !ok {
		return o, invalid("there is no workload "+o.Workload, "--workload is one of "+
			strings.Join(Workloads(), ", "))
	}
	for _, n := range []struct {
		flag          string
		value         *int
		instead, most int
	}{
		{"runs", &o.Runs, d.Runs, 1e9},
		{"steps", &o.Steps, d.Steps, 1e7},
		{"in-flight", &o.InFlight, d.InFlight, 1e6},
		{"payload", &o.Payload, 100, 1 << 20},
	} {
		if *n.value == 0 {
			*n.value = n.instead
		}
		if *n.value < 1 || *n.value > n.most {
			return o, invalid(
				fmt.Sprintf("--%s %d is not valid: allowed are 1 to %d", n.flag, *n.value, n.most),
				"leave it out for the number of the workload")
		}
	}
	if o.Workload == Resume && (o.Runs != 1 || o.InFlight != 1) {
		return o, invalid("resume is about one run", "leave out --runs and --in-flight")
	}
	if o.waits() && o.Steps != 1 {
		return o, invalid("runs of "+o.Workload+" have no steps", "leave out --steps")
	}
	if o.Idle == 0 {
		o.Idle = idle
	}
	if o.Idle < 0 || o.Idle > time.Hour {
		return o, invalid(fmt.Sprintf("--idle %v is not valid: allowed is up to 1h", o.Idle),
			"leave it out for 30s")
	}
	return o, nil
}

func invalid(message, hint string) error {
	return &perdure.Error{Code: journal.CodeInvalid, Op: "bench", Message: message, Hint: hint}
}
