//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/judge"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store"
)

// patience is the maximum time in which programs must end once no fault strikes any more. On a busy
// machine they go on for minutes.
const patience = 5 * time.Minute

// tormented is the time in which faults strike in one round.
const tormented = 12 * time.Second

func (s *supervisor) isSQLite() bool { return strings.HasPrefix(s.Store, "sqlite:") }

// run executes programs, round after round, until the time is over or something is wrong.
func (s *supervisor) run(ctx context.Context) (*report, error) {
	began := time.Now()
	until := began.Add(time.Duration(s.Minutes * float64(time.Minute)))
	var only *program.Program
	if s.Only != "" {
		data, err := os.ReadFile(s.Only)
		if err == nil {
			err = json.Unmarshal(data, &only)
		}
		if err != nil {
			return nil, err
		}
	}
	seen := newSaturation(began, until)
	for seed := s.Seed * 1_000_000; time.Now().Before(until) && ctx.Err() == nil; {
		var programs []*program.Program
		for range s.Batch {
			p := only
			if p == nil {
				p = program.Generate(seed, s.limits())
			}
			seed++
			programs = append(programs, p)
		}
		r, err := s.round(ctx, programs)
		if err != nil {
			return nil, err
		}
		seen.add(programs, r.faults)
		if len(r.wrong) > 0 && ctx.Err() == nil {
			s.report.Wrong = append(s.report.Wrong, r.wrong...)
			fmt.Fprintf(os.Stderr, "it took %v to go wrong\n", time.Since(began).Round(time.Second))
			s.explain(ctx, r)
			break
		}
	}
	s.report.Minutes = time.Since(began).Minutes()
	s.report.Seen, s.report.Fresh = len(seen.all), seen.fresh
	s.report.Kills = s.took()["kill"]
	s.gates()
	return &s.report, ctx.Err()
}

// gates judges the torture itself: whether it did enough to prove something.
func (s *supervisor) gates() {
	if s.report.Minutes < 0.5 || len(s.report.Wrong) > 0 {
		return
	}
	took := s.took()
	demand := func(what string, n, least int) {
		if n < least {
			s.report.Wrong = append(s.report.Wrong,
				fmt.Sprintf("the torture proves little: %s %d times only", what, n))
		}
	}
	demand("nodes were killed", took["kill"], int(3*s.report.Minutes))
	demand("calls were repeated", s.report.Repeated, 1)
	demand("programs ended", s.report.Programs, s.Batch)
	demand("runs were replayed", s.report.Replayed, s.Batch)
	if s.report.Minutes > 5 {
		for _, f := range s.faults() {
			demand("fault "+f.name+" took effect", took[f.name], 1)
		}
	}
}

// A round is the result of some programs that ran at one time.
type round struct {
	cases    []*actor.Case
	runs     []*judge.Run
	unrouted []journal.Entry
	slots    []store.Slot
	timed    []*actor.Timed
	beside   []string // workflow IDs of starts beside the programs
	wrong    []string
	faults   []string
}

// round executes programs while faults strike, and judges them when all have ended.
func (s *supervisor) round(ctx context.Context, programs []*program.Program) (*round, error) {
	s.report.Rounds++
	r := &round{}
	d := &actor.Actor{
		Now:   func() (*play.Env, *perdure.Client) { return s.env, s.client },
		World: s.world,
		Pace:  60 * time.Millisecond,
		Seed:  s.rng.Uint64(),
		Purge: s.purge,
		Count: s.acted,
	}
	dealing, stop := context.WithTimeout(ctx, tormented+patience)
	defer stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, p := range programs {
		c := actor.NewCase(p, fmt.Sprintf("r%d-%d-%d", s.report.Rounds, i, p.Seed))
		r.cases = append(r.cases, c)
		wg.Go(func() {
			if !nap(dealing, time.Duration(i)*tormented/time.Duration(2*len(programs))) {
				return
			}
			if err := d.Deal(dealing, c); err != nil {
				mu.Lock()
				defer mu.Unlock()
				r.wrong = append(r.wrong, err.Error())
			}
		})
	}
	over, all := make(chan struct{}), make(chan struct{})
	r.timed = d.Schedules(fmt.Sprintf("t%d-%d", s.Seed, s.report.Rounds))
	var keeping sync.WaitGroup
	for _, t := range r.timed {
		keeping.Go(func() {
			if err := d.Keep(dealing, t, over); err != nil {
				mu.Lock()
				defer mu.Unlock()
				r.wrong = append(r.wrong, err.Error())
			}
		})
	}
	keeping.Go(func() {
		if err := d.Throttle(dealing, over); err != nil {
			mu.Lock()
			defer mu.Unlock()
			r.wrong = append(r.wrong, err.Error())
		}
	})
	keeping.Go(func() {
		prefix := fmt.Sprintf("m%d-%d", s.Seed, s.report.Rounds)
		ids, err := d.Merge(dealing, prefix, over)
		mu.Lock()
		defer mu.Unlock()
		if r.beside = append(r.beside, ids...); err != nil {
			r.wrong = append(r.wrong, err.Error())
		}
	})
	keeping.Go(func() {
		prefix := fmt.Sprintf("f%d-%d", s.Seed, s.report.Rounds)
		ids, err := d.Fail(dealing, prefix, over)
		mu.Lock()
		defer mu.Unlock()
		if r.beside = append(r.beside, ids...); err != nil {
			r.wrong = append(r.wrong, err.Error())
		}
	})
	keeping.Go(func() {
		prefix := fmt.Sprintf("e%d-%d", s.Seed, s.report.Rounds)
		ids, err := d.Tell(dealing, prefix, over)
		mu.Lock()
		defer mu.Unlock()
		if r.beside = append(r.beside, ids...); err != nil {
			r.wrong = append(r.wrong, err.Error())
		}
	})
	keeping.Go(func() {
		if err := d.Alarm(dealing, over); err != nil {
			mu.Lock()
			defer mu.Unlock()
			r.wrong = append(r.wrong, err.Error())
		}
	})
	go func() { wg.Wait(); close(over); keeping.Wait(); close(all) }()
	r.faults = s.storm(ctx, all)
	<-all
	if ctx.Err() != nil {
		return r, nil
	}
	return r, s.judge(ctx, r)
}

// purge makes every node remove the runs whose retention has passed.
func (s *supervisor) purge(context.Context) error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.tell("purge"))
	}
	return errors.Join(errs...)
}

// storm makes faults strike for a while, and returns which did.
func (s *supervisor) storm(ctx context.Context, over chan struct{}) []string {
	ctx, stop := context.WithTimeout(ctx, tormented)
	defer stop()
	go func() {
		select {
		case <-over:
			stop()
		case <-ctx.Done():
		}
	}()
	before := s.took()
	s.torment(ctx, rand.New(rand.NewPCG(s.rng.Uint64(), 5)))
	var out []string
	for name, n := range s.took() {
		if n > before[name] {
			out = append(out, name)
		}
	}
	return out
}

// acted counts the operations of the actor.
func (s *supervisor) acted(verb string) {
	verb, _, _ = strings.Cut(verb, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Acts[verb]++
}

// judge judges a round when all of its runs have ended.
func (s *supervisor) judge(ctx context.Context, r *round) error {
	s.mu.Lock()
	r.wrong = append(r.wrong, s.wrong...)
	s.wrong = nil
	s.mu.Unlock()
	ids := r.beside
	for _, c := range r.cases {
		ids = append(append(ids, c.ID), c.Want.Children...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	err := anew(ctx, func() (err error) {
		if r.runs, err = judge.Read(ctx, s.store, ids...); err == nil {
			r.unrouted, err = judge.ReadUnrouted(ctx, s.store)
		}
		if err == nil {
			var ticks []*judge.Run
			ticks, err = judge.ReadTicks(ctx, s.store, r.timed)
			r.runs = append(r.runs, ticks...)
		}
		if err == nil {
			r.slots, err = judge.ReadSlots(ctx, s.store)
		}
		return err
	})
	if err != nil {
		return err
	}
	calls, err := s.ledger.more()
	if err != nil {
		return err
	}
	money, err := judge.ReadMoney(ctx, s.db)
	if err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, `delete from torture_money`); err != nil {
		return err
	}
	if len(r.wrong) == 0 {
		if calls, err = s.delivered(ctx, calls); err != nil {
			return err
		}
	}
	var others []*judge.Run
	if err := anew(ctx, func() (err error) {
		others, err = judge.ReadOthers(ctx, s.store, calls, r.runs)
		return err
	}); err != nil {
		return err
	}
	r.wrong = append(r.wrong, judge.Judge(judge.Evidence{
		Cases: r.cases, Calls: calls, Runs: r.runs, Unrouted: r.unrouted, Money: money,
		Slots: r.slots, Schedules: r.timed, Told: true, Alerts: true,
		Others: others,
	})...)
	var orphans []string
	err = anew(ctx, func() (err error) {
		orphans, err = s.orphans(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r.wrong = append(r.wrong, orphans...)
	r.wrong = append(r.wrong, s.replay(r)...)
	s.count(r, len(calls), judge.Repeated(calls))
	return nil
}

// anew reads from the store, and again for a while if that fails: the handle may have connections
// from before the server was killed.
func anew(ctx context.Context, read func() error) error {
	for tries := 0; ; tries++ {
		err := read()
		if err == nil || tries == 20 || !nap(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// delivered waits until the outbox is empty and the alerts are sent, and reads what the world heard
// of it.
func (s *supervisor) delivered(ctx context.Context, calls []judge.Call) ([]judge.Call, error) {
	for until := time.Now().Add(patience); time.Now().Before(until); {
		sent, err := judge.AlertsAreSent(ctx, s.store)
		if err != nil {
			return calls, err
		}
		if sent {
			more, err := s.ledger.more()
			return append(calls, more...), err
		}
		nap(ctx, 100*time.Millisecond)
	}
	return calls, fmt.Errorf("the outbox is not empty, or alerts are not sent, after %v", patience)
}

// orphans returns the open runs that nothing wakes, if two looks agree.
func (s *supervisor) orphans(ctx context.Context) ([]string, error) {
	first, err := judge.Orphans(ctx, s.store)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	nap(ctx, 2*lease)
	again, err := judge.Orphans(ctx, s.store)
	return slices.DeleteFunc(first, func(o string) bool { return !slices.Contains(again, o) }), err
}

// replay replays the journal of every program with its code.
func (s *supervisor) replay(r *round) (wrong []string) {
	workflows := map[string]perdure.Definition{s.env.Workflow().Name(): s.env.Workflow()}
	for _, f := range program.Declarations {
		workflows[f.Name] = s.env.Definition(f.Name)
	}
	unordered := map[string]bool{}
	for _, c := range r.cases {
		unordered[c.ID] = c.Program.Has(program.Blocked, "")
	}
	for _, run := range r.runs {
		workflow, known := workflows[run.Head.Workflow]
		instance, _, _ := strings.Cut(run.Head.WorkflowID, ".")
		if !known || unordered[instance] || len(run.Bad) > 0 || !run.Head.Status.IsTerminal() {
			continue
		}
		var history bytes.Buffer
		if err := journal.Write(&history, run.Entries); err != nil {
			return append(wrong, err.Error())
		}
		var differs []perduretest.Difference
		s.t.Run("replay", func(t *testing.T) {
			differs = perduretest.Replay(t, history.Bytes(), workflow).Differences
		})
		s.report.Replayed++
		for _, d := range differs {
			if run.Head.Status == journal.Cancelled && d.Kind != perduretest.DifferenceMismatch ||
				strings.Contains(d.Path, "cancel:") {
				// it was cancelled from outside; entries after the end of the code are the engine's
				continue
			}
			wrong = append(wrong, fmt.Sprintf("run %s of %s does not replay: %v", run.Head.ID,
				run.Head.WorkflowID, d))
		}
	}
	return wrong
}

// explain shows the programs that went wrong, and shrinks the first.
func (s *supervisor) explain(ctx context.Context, r *round) {
	var first *program.Program
	for _, c := range r.cases {
		if !slices.ContainsFunc(r.wrong, func(w string) bool { return strings.Contains(w, c.ID) }) {
			continue
		}
		fmt.Fprintf(os.Stderr, "seed %d, %v\n%s\n", s.Seed, c, judge.Story(r.runs, c.ID))
		if first == nil {
			first = c.Program
		}
	}
	for _, w := range r.wrong {
		fmt.Fprintln(os.Stderr, "WRONG", w)
	}
	if first == nil || s.Minutes < 1 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, shrinking)
	defer stop()
	small := shrink(ctx, first, func(p *program.Program) bool { return s.fails(ctx, p) })
	data, _ := json.Marshal(small)
	fmt.Fprintf(os.Stderr, "shrunk:\n%s\n", data)
	s.report.Shrunk = small
}

// shrinking is the maximum time for which a program is shrunk.
const shrinking = 4 * time.Minute

// fails reports whether a program goes wrong in one run, in which some copies of it run.
func (s *supervisor) fails(ctx context.Context, p *program.Program) bool {
	r, err := s.round(ctx, slices.Repeat([]*program.Program{p}, 8))
	return err == nil && len(r.wrong) > 0
}
