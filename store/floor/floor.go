// Package floor measures the limit that an engine is compared with: a bare loop that writes the
// rows that runs write, with a store's own statements and its fence, and does nothing else. Compare
// only figures that were measured on the same machine at the same time.
package floor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Options set how much to write. Zero means the default of a field.
type Options struct {
	// Engine is an engine that has joined. Zero joins an engine, which leaves at the end.
	Engine   journal.EngineID
	Runs     int // how many runs to complete; default 10,000
	InFlight int // how many runs at a time; default 256
	Steps    int // steps of each run; default 5
	Payload  int // bytes of each input and result; default 100
}

// A Result is the result of a measurement.
type Result struct {
	Runs    int
	Steps   int
	Commits int
	Took    time.Duration
	// CPU is the time of the process in user and system mode; zero if it is not known.
	CPU       time.Duration
	StepsPerS float64
	// P50 and P99 are percentiles of the time from the commit that starts a run to the commit that
	// ends it.
	P50 time.Duration
	P99 time.Duration
}

// Run completes runs in lock-step: each group has the next row of every run in flight. The first
// group of a run has its start and its head, each of the following ones has a result, and the last
// one has the last result, the end and the head. Run allocates nothing per row, and no group waits
// for a run. If ctx ends first, Run returns the error of ctx and the results until then.
func Run(ctx context.Context, s store.Store, o Options) (Result, error) {
	l, err := newLoop(ctx, s, o)
	if err != nil {
		return Result{}, err
	}
	began, cpu := time.Now(), processTime()
	err = l.run(ctx)
	took, used := time.Since(began), processTime()-cpu
	if o.Engine == 0 {
		_, left := s.Claim(context.WithoutCancel(ctx), store.Leave{
			Engine: l.group.Engine, Now: time.Now(),
		})
		err = errors.Join(err, left)
	}
	return l.result(took, used), err
}

func (o Options) withDefaults() Options {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&o.Runs, 10_000)
	set(&o.InFlight, 256)
	set(&o.Steps, 5)
	set(&o.Payload, 100)
	o.InFlight = min(o.InFlight, o.Runs)
	return o
}

// A loop has the runs in flight. Each run has buffers of its own, which the next run in its lane
// uses again.
type loop struct {
	store    store.Store
	options  Options
	database string
	started  int64
	group    store.Group
	lanes    []lane
	took     []time.Duration // of each ended run
	commits  int
	payload  []byte
}

// A lane has one run at a time.
type lane struct {
	head    journal.Head
	entries [2]journal.Entry
	seq     int64
	began   time.Time
}

// first is a number below those of the loop's runs. It keeps them apart from other runs of an
// engine that was used before.
const first = 1 << 36

func newLoop(ctx context.Context, s store.Store, o Options) (*loop, error) {
	o = o.withDefaults()
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	if o.Engine == 0 {
		now := time.Now()
		joined, err := s.Claim(ctx, store.Join{
			Self: store.Engine{Host: "floor", Build: "floor", Since: now},
			Now:  now,
		})
		if err != nil {
			return nil, err
		}
		o.Engine = joined.Engine
	}
	l := &loop{
		store: s, options: o, database: info.Database, group: store.Group{Engine: o.Engine},
		lanes: make([]lane, o.InFlight), took: make([]time.Duration, 0, o.Runs),
		payload: filler(o.Payload),
	}
	l.group.Changes = make([]store.Change, 0, o.InFlight)
	return l, nil
}

// filler returns a payload of n bytes that looks like JSON.
func filler(n int) []byte {
	return fmt.Appendf(nil, `"%0*d"`, max(n-2, 0), 0)[:n]
}

func (l *loop) run(ctx context.Context) error {
	for len(l.took) < l.options.Runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		l.group.Now, l.group.Changes = now, l.group.Changes[:0]
		for i := range l.lanes {
			if err := l.next(&l.lanes[i], now); err != nil {
				return err
			}
		}
		if err := l.store.Commit(ctx, &l.group); err != nil {
			return err
		}
		l.commits++
		l.settle()
	}
	return nil
}

// next adds the next change of a lane to the group. It adds nothing when no run is left.
func (l *loop) next(a *lane, now time.Time) error {
	last := int64(l.options.Steps + 1)
	if a.seq == 0 && l.started == int64(l.options.Runs) {
		return nil
	}
	a.seq++
	change := store.Change{Run: a.head.Number}
	switch a.seq {
	case 1:
		if err := l.start(a, now); err != nil {
			return err
		}
		change = store.Change{
			Run: a.head.Number, Create: true, Head: &a.head, Entries: a.entries[:1],
		}
	case last:
		l.step(a, now)
		l.end(a, now)
		change.Head, change.Entries = &a.head, a.entries[:2]
	default:
		l.step(a, now)
		change.Entries = a.entries[:1]
	}
	l.group.Changes = append(l.group.Changes, change)
	return nil
}

func (l *loop) start(a *lane, now time.Time) error {
	n, err := journal.MakeNumber(l.options.Engine, first+l.started+1)
	if err != nil {
		return err
	}
	l.started++
	a.began = now
	id := journal.MakeRunID(l.database, n)
	a.head = journal.Head{
		Number: n, ID: id, WorkflowID: string(id), Workflow: "floor",
		Status: journal.Running, Owner: l.options.Engine, Wake: now, Created: now,
	}
	a.entries[0] = journal.Entry{
		Run: n, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: now, Data: l.payload,
	}
	return nil
}

// names are the names of the steps, in turn.
var names = [...]string{"reserve", "charge", "label", "ship", "mail"}

func (l *loop) step(a *lane, now time.Time) {
	a.entries[0] = journal.Entry{
		Run: a.head.Number, Seq: a.seq, Kind: journal.StepCompleted,
		Op: journal.Op{Name: names[int(a.seq)%len(names)], Occ: 1},
		At: now, Took: time.Microsecond, Data: l.payload,
	}
}

func (l *loop) end(a *lane, now time.Time) {
	a.entries[1] = journal.Entry{
		Run: a.head.Number, Seq: a.seq + 1, Kind: journal.RunCompleted, Status: journal.Completed,
		At: now, Data: l.payload,
	}
	a.head.Status, a.head.Owner, a.head.Wake = journal.Completed, 0, time.Time{}
	a.head.Ended, a.head.Last = now, a.seq+1
}

// settle records the runs that have ended and frees their lanes.
func (l *loop) settle() {
	now := time.Now()
	for i := range l.lanes {
		a := &l.lanes[i]
		if a.seq == int64(l.options.Steps+1) {
			l.took = append(l.took, now.Sub(a.began))
			a.seq = 0
		}
	}
}

func (l *loop) result(took, cpu time.Duration) Result {
	r := Result{
		Runs: len(l.took), Steps: len(l.took) * l.options.Steps, Commits: l.commits, Took: took,
		CPU: cpu,
	}
	if took > 0 {
		r.StepsPerS = float64(r.Steps) / took.Seconds()
	}
	if n := len(l.took); n > 0 {
		slices.Sort(l.took)
		r.P50, r.P99 = l.took[n/2], l.took[n*99/100]
	}
	return r
}
